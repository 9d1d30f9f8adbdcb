"""Which ranks are meant: `ranks(pp=2, tp=0:4)` -> ranks, and ranks -> `0-6,8-1023`.

    selection  "ranks(" body ")", or only the body
    body       "all" | "*" | number {"," number} | term {"," term}
    term       key "=" value | key "=" "(" value {"," value} ")"
    value      for role, host, state and job a glob (policy*, "my role"), else a number
    number     3 | 0-6 (with its end) | 1:10:2 (a Python slice, without its end)

A rank is picked if it fits every term, and it fits a term with any of its values.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple, TypeVar

from rankdbg.errors import SelectionError, shortened
from rankdbg.types import ProcessKey, Rank

_T = TypeVar("_T")
_Label = int | str | None
_KEYS: Mapping[str, Callable[[Rank], _Label]] = {
    "rank": attrgetter("number"),
    "pid": attrgetter("process.pid"),
    "role": attrgetter("role"),
    "host": attrgetter("process.host"),
    "state": attrgetter("state"),
    "job": attrgetter("job"),
}
_TEXT_KEYS = ("role", "host", "state", "job")
_ALL = ("all", "*")
_WORDS = ("word", "quoted")
_COMMAS = "terms are separated by commas, as in ranks(pp=2, dp=(1,3))"

_TOKEN = re.compile(r"""[(),=]|"[^"]*"|'[^']*'|["']|[^(),="']+""")
_DASH = re.compile(r"([0-9]+)(?:\s*-\s*([0-9]+))?")
_SLICE = re.compile(r"(?:([0-9]+)\s*)?:\s*(?:([0-9]+)\s*)?(?::\s*([0-9]+)?)?")
_NEGATIVE = re.compile(r"(?:^|[-:])\s*(-\s*[0-9]+)")

# Python refuses to read integers of some thousand digits; nobody has so many ranks.
_MOST_DIGITS = 99
_NO_END = 10**_MOST_DIGITS
_LONGEST_GLOB = 1000  # fnmatch takes quadratic time for [[[[[


@dataclass(frozen=True)
class Value:
    """One number, range or glob, and where it stands in the text."""

    wanted: range | str
    start: int
    end: int


@dataclass(frozen=True)
class Term:
    """A key and the values it may have. Plain numbers are a term with the key `rank`."""

    key: str
    values: tuple[Value, ...]
    start: int
    end: int


@dataclass(frozen=True)
class Selection:
    """A selection that is well formed. Without terms it means all ranks."""

    text: str
    terms: tuple[Term, ...]


def parse(text: str) -> Selection:
    """Read a selection. Whether what it names exists is for `pick` to say."""
    # A tab or a line break would put the caret of an error under the wrong place.
    return _Parser(re.sub(r"\s", " ", text)).selection()


def pick(selection: Selection, ranks: Sequence[Rank]) -> list[Rank]:
    """The ranks that are meant, by number, then host and pid. Never an empty list."""
    text = selection.text
    if not ranks:
        raise SelectionError("there are no ranks to select from", text, 0, len(text))
    # What does not exist at all is a better message than what does not go together.
    wanted = [_existing(term, text, ranks) for term in selection.terms]
    picked = list(ranks)
    for term, labels in zip(selection.terms, wanted, strict=True):
        label_of = _label_of(term.key)
        before, picked = picked, [rank for rank in picked if label_of(rank) in labels]
        if not picked:
            raise _no_such_combination(term, text, before)
    return sorted(picked, key=lambda rank: (rank.number is None, rank.number or 0, rank.process))


def matches(selection: Selection, rank: Rank) -> bool:
    """Whether this rank is meant, without knowing the others. A dimension that it does not
    have is an error, a value that it does not have is not."""
    for term in selection.terms:
        label = _label_of(term.key)(rank)
        if label is None and term.key not in _KEYS:
            raise _no_such_dimension(term, selection.text, [rank])
        if not any(_fits(value.wanted, label) for value in term.values):
            return False
    return True


def _fits(wanted: range | str, label: _Label) -> bool:
    if isinstance(wanted, range):
        return label in wanted
    return isinstance(label, str) and re.match(translate(wanted), label) is not None


def format_numbers(numbers: Iterable[int]) -> str:
    """`0-6,8-1023`: what `parse` reads back as the same numbers."""
    ordered = sorted(set(numbers))
    firsts = ordered[:1] + [b for a, b in pairwise(ordered) if b != a + 1]
    lasts = [a for a, b in pairwise(ordered) if b != a + 1] + ordered[-1:]
    runs = zip(firsts, lasts, strict=True)
    return ",".join([f"{a}" if a == b else f"{a}-{b}" for a, b in runs])


def format_ranks(ranks: Iterable[Rank], among: Sequence[Rank] = ()) -> str:
    """A text that picks exactly these ranks out of the roster `among`: `0-6,8-1023`.

    Where numbers do not tell them apart, roles or pids do. Where no single selection can,
    several are joined with "and", which reads well and is refused when it is pasted back.
    """
    chosen = list(ranks)
    processes = {rank.process for rank in chosen}
    numbers = {rank.number for rank in chosen}
    if None not in numbers and not any(
        rank.number in numbers and rank.process not in processes for rank in among
    ):
        return format_numbers(number for number in numbers if number is not None)
    everyone = "all" if len(among) > 1 else ""
    for text in (everyone, _by_role(chosen), _by_pid(chosen), _by_host(chosen)):
        if text and _processes(text, among or chosen) == processes:
            return text
    by_role = None not in numbers and len({rank.role for rank in chosen}) > 1
    parts: dict[str, list[Rank]] = {}
    for rank in chosen:
        parts.setdefault(rank.role if by_role else rank.host, []).append(rank)
    write = _by_role if by_role else _by_host
    return " and ".join(write(parts[name]) for name in sorted(parts))


# Reading


class _Token(NamedTuple):
    kind: str  # one of ( ) , = or "word", "quoted", "end"
    text: str
    start: int
    end: int

    @property
    def span(self) -> tuple[int, int]:
        return self.start, self.end

    def span_of(self, match: re.Match[str], group: int) -> tuple[int, int]:
        return self.start + match.start(group), self.start + match.end(group)


def _tokens(text: str) -> list[_Token]:
    tokens = []
    for match in _TOKEN.finditer(text):
        piece, start, end = match.group(), match.start(), match.end()
        if piece in ("'", '"'):
            raise SelectionError("this quote is not closed", text, start, end)
        if piece[0] in "'\"":
            tokens.append(_Token("quoted", piece[1:-1], start, end))
        elif piece in "(),=":
            tokens.append(_Token(piece, piece, start, end))
        elif word := piece.strip():
            start += piece.index(word)
            tokens.append(_Token("word", word, start, start + len(word)))
    tokens.append(_Token("end", "", len(text), len(text)))
    return tokens


class _Parser:
    """Recursive descent of which nothing recurs: parentheses are at most two deep."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.at = 0

    def peek(self) -> _Token:
        return self.tokens[self.at]

    def take(self) -> _Token:
        token = self.tokens[self.at]
        self.at += token.kind != "end"
        return token

    def fault(self, what: str, start: int, end: int, hint: str = "") -> SelectionError:
        return SelectionError(what, self.text, start, end, hint=hint)

    def selection(self) -> Selection:
        opening = None
        if self.peek().text == "ranks" and self.tokens[1].kind == "(":
            opening = self.tokens[1]
            self.at = 2
        terms = self.terms(self.several(self.item, opening))
        if self.peek().kind != "end":
            raise self.fault("the selection has ended before this", *self.peek().span)
        return Selection(self.text, terms)

    def several(self, item: Callable[[], _T], opening: _Token | None) -> list[_T]:
        """Items between commas, up to what closes `opening`, or else to the end."""
        closing = ")" if opening else "end"
        items: list[_T] = []
        while True:
            token = self.peek()
            if token.kind == closing and items:
                raise self.fault("a comma with nothing after it", *self.tokens[self.at - 1].span)
            if token.kind == closing:
                start = opening.start if opening else 0
                raise self.fault("nothing is selected", start, token.end, "for every rank: all")
            if token.kind == ",":
                raise self.fault("a comma with nothing before it", *token.span)
            if token.kind not in _WORDS:
                raise self.unexpected(token, opening)
            items.append(item())
            token = self.take()
            if token.kind == closing:
                return items
            if token.kind != ",":
                raise self.unexpected(token, opening)

    def unexpected(self, token: _Token, opening: _Token | None) -> SelectionError:
        if token.kind == "end" and opening:
            return self.fault("this parenthesis is not closed", *opening.span)
        return self.fault(f"{shortened(token.text)} does not belong here", *token.span, _COMMAS)

    def item(self) -> Term | _Token:
        """key=values, or a word without a key: `terms` knows what stands beside it."""
        name = self.take()
        if self.peek().kind != "=":
            return name
        key = name.text
        if name.kind == "quoted" or key[0].isdigit() or " " in key:
            raise self.fault(f"{shortened(key)} is not a name", *name.span, _COMMAS)
        equals = self.take()
        if self.peek().kind == "(":
            values = self.several(lambda: self.value(key), self.take())
        elif self.peek().kind in _WORDS:
            values = [self.value(key)]
        else:
            raise self.fault(f"{shortened(key)}= has no value", name.start, equals.end)
        return Term(key, tuple(values), name.start, self.tokens[self.at - 1].end)

    def value(self, key: str) -> Value:
        token = self.take()
        if key not in _TEXT_KEYS:
            return self.number(token)
        if len(token.text) > _LONGEST_GLOB:
            raise self.fault("this text is too long", *token.span)
        return Value(token.text, *token.span)

    def number(self, token: _Token) -> Value:
        match = _DASH.fullmatch(token.text) or _SLICE.fullmatch(token.text)
        if token.kind == "quoted" or not match:
            raise self.no_number(token)
        for group in range(1, len(match.groups()) + 1):
            if len(match[group] or "") > _MOST_DIGITS:
                raise self.fault("this number is too long", *token.span_of(match, group))
        if match.re is _DASH:
            wanted = range(int(match[1]), int(match[2] or match[1]) + 1)
        elif match[3] and int(match[3]) == 0:
            raise self.fault("a step of 0 goes nowhere", *token.span_of(match, 3))
        else:
            wanted = range(int(match[1] or 0), int(match[2] or _NO_END), int(match[3] or 1))
        if not wanted:
            hint = "ranges count upwards; a:b ends before b, a-b ends with b"
            raise self.fault(f"the range {shortened(token.text)} is empty", *token.span, hint)
        return Value(wanted, *token.span)

    def no_number(self, token: _Token) -> SelectionError:
        negative = _NEGATIVE.search(token.text)
        if negative and token.kind == "word":
            return self.fault("a number cannot be negative", *token.span_of(negative, 1))
        hint = f"numbers look like 3, 0-6 or 1:10:2; only {', '.join(_TEXT_KEYS)} take text"
        hint = _COMMAS if " " in token.text else hint
        return self.fault(f"{shortened(token.text)} is not a number or a range", *token.span, hint)

    def terms(self, items: Sequence[Term | _Token]) -> tuple[Term, ...]:
        words = [item for item in items if isinstance(item, _Token)]
        named = [item for item in items if isinstance(item, Term)]
        for word in words:
            if word.text in _ALL and len(items) > 1:
                raise self.fault(f"{word.text} stands alone", *word.span)
        if words and named:
            raise self.no_key(words[0], named[max(items.index(words[0]), 1) - 1].key)
        if words and words[0].text not in _ALL:
            values = tuple(self.number(word) for word in words)
            named = [Term("rank", values, words[0].start, words[-1].end)]
        seen: set[str] = set()
        for term in named:
            if term.key in seen:
                what, hint = f"{shortened(term.key)} is named twice", "for several values: tp=(1,3)"
                raise self.fault(what, term.start, term.start + len(term.key), hint)
            seen.add(term.key)
        return tuple(named)

    def no_key(self, word: _Token, key: str) -> SelectionError:
        text, key = shortened(word.text), shortened(key)
        hint = f"write {key}=(…,{text}) for one more {key}, or rank={text} for the rank {text}"
        return self.fault(f"{text} needs a name beside {key}=", *word.span, hint)


# Picking


def _label_of(key: str) -> Callable[[Rank], _Label]:
    return _KEYS.get(key) or (lambda rank: rank.coordinates.get(key))


def _existing(term: Term, text: str, ranks: Sequence[Rank]) -> set[_Label]:
    """The labels that the term names, of those that ranks have. Each value has some."""
    labels = set(map(_label_of(term.key), ranks))
    if term.key in _TEXT_KEYS:
        names = {label for label in labels if isinstance(label, str)}
        return {*_matching_names(term, text, names)}
    numbers = sorted(label for label in labels if isinstance(label, int))
    if not numbers and term.key not in _KEYS:
        raise _no_such_dimension(term, text, ranks)
    return {*_matching_numbers(term, text, numbers)}


def _matching_names(term: Term, text: str, names: set[str]) -> set[str]:
    found: set[str] = set()
    for value in term.values:
        glob = str(value.wanted)
        if not any(mark in glob for mark in "*?["):
            hits = {glob} & names  # ten thousand host names are not ten thousand globs
        else:
            fits = re.compile(translate(glob)).match
            hits = {name for name in names if fits(name)}
        if not hits:
            raise _no_such_value(term, value, text, ", ".join(sorted(names - {""})))
        found |= hits
    return found


def _matching_numbers(term: Term, text: str, numbers: Sequence[int]) -> set[int]:
    """`numbers` is sorted, and looked at once however many ranges overlap there."""
    known, found = set(numbers), set[int]()
    done: dict[tuple[int, int], int] = {}  # how far the ranges of one step and phase came
    ranges = [(value.wanted, value) for value in term.values if isinstance(value.wanted, range)]
    for wanted, value in sorted(ranges, key=lambda pair: pair[0].start):
        low, high = bisect_left(numbers, wanted.start), bisect_left(numbers, wanted.stop)
        phase = wanted.step, wanted.start % wanted.step
        fresh = max(low, done.get(phase, 0))
        done[phase] = max(high, fresh)
        if fresh < high and (numbers[high - 1] - wanted.start) // wanted.step < high - fresh:
            steps = range(wanted.start, numbers[high - 1] + 1, wanted.step)
            hits = known.intersection(steps)
        else:  # far apart: most steps would find nothing
            hits = {number for number in numbers[fresh:high] if number in wanted}
        if not hits and not any(numbers[at] in wanted for at in range(low, high)):
            raise _no_such_value(term, value, text, format_numbers(numbers))
        found |= hits
    return found


# What is not there


def _no_such_dimension(term: Term, text: str, ranks: Sequence[Rank]) -> SelectionError:
    from difflib import get_close_matches  # only an error needs it

    extents: dict[str, set[int]] = {}
    for rank in ranks:
        for name, number in rank.coordinates.items():
            extents.setdefault(name, set()).add(number)
    has = ", ".join(f"{name} ({shortened(format_numbers(extents[name]))})" for name in extents)
    why = f"this job has: {has}" if has else "this job has no dimensions"
    names = {name.lower(): name for name in [*_KEYS, *extents]}
    near = get_close_matches(term.key.lower(), names, n=1, cutoff=0.5)
    hint = f"did you mean {names[near[0]]}?" if near else f"there are always {', '.join(_KEYS)}"
    what, end = f"no dimension {shortened(term.key)}", term.start + len(term.key)
    return SelectionError(what, text, term.start, end, why, hint=hint)


def _no_such_value(term: Term, value: Value, text: str, existing: str) -> SelectionError:
    what = f"no {shortened(term.key)} {shortened(text[value.start : value.end])}"
    colon = ":" if term.key in _TEXT_KEYS else ""
    why = f"this job has{colon} {shortened(existing, 200)}"
    if not existing:
        why = f"no process of this job has a {term.key}"
    return SelectionError(what, text, value.start, value.end, why)


def _no_such_combination(term: Term, text: str, before: Sequence[Rank]) -> SelectionError:
    what = f"nothing has {shortened(text[term.start : term.end])} and all that is before it"
    why = f"what is before it picks {shortened(format_ranks(before))}"
    return SelectionError(what, text, term.start, term.end, why)


# Writing


def _by_role(ranks: Sequence[Rank]) -> str:
    numbers = [rank.number for rank in ranks if rank.number is not None]
    roles = sorted({rank.role for rank in ranks})
    if len(numbers) < len(ranks):
        return ""
    return f"role={_listed(map(_glob, roles))},rank={_numbers(numbers)}"


def _by_pid(ranks: Sequence[Rank]) -> str:
    return f"pid={_numbers(rank.pid for rank in ranks)}"


def _by_host(ranks: Sequence[Rank]) -> str:
    hosts = sorted({rank.host for rank in ranks})
    return f"host={_listed(map(_glob, hosts))},{_by_pid(ranks)}"


def _processes(text: str, roster: Sequence[Rank]) -> set[ProcessKey]:
    try:
        return {rank.process for rank in pick(parse(text), roster)}
    except SelectionError:
        return set()


def _numbers(numbers: Iterable[int]) -> str:
    return _listed(format_numbers(numbers).split(","))


def _listed(values: Iterable[str]) -> str:
    values = list(values)
    return values[0] if len(values) == 1 else f"({','.join(values)})"


def _glob(name: str) -> str:
    """A glob for this very name, in quotes where it needs them."""
    glob = re.sub(r"[*?[]", r"[\g<0>]", name).replace('"', "?")
    plain = glob and glob == glob.strip() and not re.search("[(),=']", glob)
    return glob if plain else f'"{glob}"'
