"""The grammar of selections: a text -> its terms, or an error with a caret under its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from rankdbg.errors import SelectionError, shortened

_T = TypeVar("_T")
TEXT_KEYS = ("role", "host", "state", "job", "actor")
# Their values are numbers as a rule: Slurm has the steps 0, 1 and batch.
MIXED_KEYS = ("step", "het", "gen")
# The generations that `gen` knows by a word.
LAST, EVERY = "last", "all"
# An address of a stop: threads and actors of one process stop by themselves.
THREAD = "thread"
# A bare number beside one of these is a rank's; beside a dimension it may be one more of that.
_BESIDE_NUMBERS = (*TEXT_KEYS, *MIXED_KEYS, THREAD)
_ALL = ("all", "*")
_WORDS = ("word", "quoted")
_COMMAS = "terms are separated by commas, as in ranks(pp=2, dp=(1,3))"

_TOKEN = re.compile(r"""[(),;=]|"[^"]*"|'[^']*'|["']|[^(),;="']+""")
_DASH = re.compile(r"([0-9]+)(?:\s*-\s*([0-9]+))?")
_SLICE = re.compile(r"(?:([0-9]+)\s*)?:\s*(?:([0-9]+)\s*)?(?::\s*([0-9]+)?)?")
_NEGATIVE = re.compile(r"(?:^|[-:])\s*(-\s*[0-9]+)")
# `Rollout 0-3`: a role, and which of its numbers.
_ROLE_WITH_NUMBERS = re.compile(r"(.*\S)\s+([0-9]*[-:]?[0-9]*(?::[0-9]*)?)")

# Python refuses to parse integers of some thousand digits.
_MOST_DIGITS = 99
_NO_END = 10**_MOST_DIGITS
LONGEST_GLOB = 1000  # fnmatch takes quadratic time for [[[[[


@dataclass(frozen=True)
class Value:
    """One number, range or glob, and its position in the text."""

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
class RoleItem:
    """`Rollout 0-3`: a role by itself, and its numbers; without numbers, all of the role."""

    role: Value
    numbers: tuple[Value, ...]
    start: int
    end: int


@dataclass(frozen=True)
class Choice:
    """What a rank must match: every term, and one of the roles where there are any."""

    terms: tuple[Term, ...] = ()
    roles: tuple[RoleItem, ...] = ()


@dataclass(frozen=True)
class Selection:
    """A parsed selection: a rank that matches one of the choices is selected. A choice without
    terms selects all ranks."""

    text: str
    choices: tuple[Choice, ...]


def parse(text: str) -> Selection:
    """Parse a selection. `pick` checks whether the named ranks exist."""
    # A tab or a line break would misplace the caret of an error.
    return _Parser(re.sub(r"\s", " ", text)).selection()


def names_generations(selection: Selection) -> bool:
    """Whether it asks for ranks that have been replaced, perhaps."""
    return any(term.key == "gen" for choice in selection.choices for term in choice.terms)


def take_threads(selection: Selection) -> tuple[Selection, tuple[str, ...]]:
    """The selection of ranks, and the globs of `thread=`: which of their stops is meant."""
    globs: list[str] = []
    choices = []
    for choice in selection.choices:
        for term in choice.terms:
            if term.key == THREAD:
                globs += [str(value.wanted) for value in term.values]
        kept = tuple(term for term in choice.terms if term.key != THREAD)
        choices.append(Choice(kept, choice.roles))
    return Selection(selection.text, tuple(choices)), tuple(globs)


def actors_in(selection: Selection) -> tuple[str, ...]:
    """The globs of `actor=`."""
    terms = [term for choice in selection.choices for term in choice.terms]
    return tuple(str(v.wanted) for term in terms if term.key == "actor" for v in term.values)


def is_number_like(word: str) -> bool:
    """Whether a word without a key is a number or a range, or was meant to be one."""
    return word[:1].isdigit() or word[:1] in ("-", ":")


class _Token(NamedTuple):
    kind: str  # one of ( ) , ; = or "word", "quoted", "end"
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
            raise SelectionError("unclosed quote", text, start, end)
        if piece[0] in "'\"":
            tokens.append(_Token("quoted", piece[1:-1], start, end))
        elif piece in "(),;=":
            tokens.append(_Token(piece, piece, start, end))
        elif word := piece.strip():
            start += piece.index(word)
            tokens.append(_Token("word", word, start, start + len(word)))
    tokens.append(_Token("end", "", len(text), len(text)))
    return tokens


@dataclass
class _Words:
    """The items of a choice that have no key, as they are read."""

    numbers: list[_Token] = field(default_factory=list)  # that belong to no role
    roles: list[tuple[_Token, list[_Token]]] = field(default_factory=list)


@dataclass(frozen=True)
class _QuotedRole:
    """A role in quotes, and the numbers that follow it without a comma."""

    role: _Token
    numbers: _Token


_Item = Term | _Token | _QuotedRole


class _Parser:
    """A descent parser without recursion: parentheses are at most two deep."""

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
        choices = [self.choice(self.several(self.item, opening))]
        while self.tokens[self.at - 1].kind == ";":
            choices.append(self.choice(self.several(self.item, opening)))
        if self.peek().kind != "end":
            raise self.fault("unexpected text after the selection", *self.peek().span)
        return Selection(self.text, tuple(choices))

    def several(self, item: Callable[[], _T], opening: _Token | None) -> list[_T]:
        """Items between commas, up to the parenthesis that closes `opening`, to a semicolon, or
        to the end."""
        closing = ")" if opening else "end"
        items: list[_T] = []
        while True:
            token = self.peek()
            if token.kind == closing and (items or self.tokens[self.at - 1].kind == ";"):
                before = self.tokens[self.at - 1]
                raise self.fault(f"nothing after this {_MARKS[before.kind]}", *before.span)
            if token.kind == closing:
                start = opening.start if opening else 0
                raise self.fault("empty selection", start, token.end, "for every rank: all")
            if token.kind in _MARKS:
                raise self.fault(f"nothing before this {_MARKS[token.kind]}", *token.span)
            if token.kind not in _WORDS:
                raise self.unexpected(token, opening)
            items.append(item())
            token = self.take()
            if token.kind in (closing, ";"):
                return items
            if token.kind != ",":
                raise self.unexpected(token, opening)

    def unexpected(self, token: _Token, opening: _Token | None) -> SelectionError:
        if token.kind == "end" and opening:
            return self.fault("unclosed parenthesis", *opening.span)
        return self.fault(f"unexpected {shortened(token.text)}", *token.span, _COMMAS)

    def item(self) -> _Item:
        """key=values, or a word without a key, which `choice` interprets; after a quoted role
        perhaps its numbers."""
        name = self.take()
        if name.kind == "quoted" and self.peek().kind == "word":
            return _QuotedRole(name, self.take())
        if self.peek().kind != "=":
            return name
        key = name.text
        if name.kind == "quoted" or key[0].isdigit() or " " in key:
            raise self.fault(f"invalid name {shortened(key)}", *name.span, _COMMAS)
        equals = self.take()
        if self.peek().kind == "(":
            values = self.in_parentheses(key)
        elif self.peek().kind in _WORDS:
            values = [self.value(key)]
        else:
            raise self.fault(f"{shortened(key)}= has no value", name.start, equals.end)
        return Term(key, tuple(values), name.start, self.tokens[self.at - 1].end)

    def in_parentheses(self, key: str) -> list[Value]:
        values = self.several(lambda: self.value(key), self.take())
        if (last := self.tokens[self.at - 1]).kind == ";":
            raise self.fault("unexpected ;", *last.span, _COMMAS)
        return values

    def value(self, key: str) -> Value:
        token = self.take()
        if key not in _BESIDE_NUMBERS:
            return self.number(token)
        if key in MIXED_KEYS and is_number_like(token.text):
            return self.number(token)
        if key == "gen" and token.text not in (LAST, EVERY):
            what = f"{shortened(token.text)} is not a generation"
            raise self.fault(what, *token.span, "generations: last, all, or numbers: 1, 2-3")
        return self.glob(token)

    def glob(self, token: _Token) -> Value:
        if len(token.text) > LONGEST_GLOB:
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
            raise self.fault("the step must not be 0", *token.span_of(match, 3))
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
        hint = f"numbers look like 3, 0-6 or 1:10:2; only {', '.join(TEXT_KEYS)} take text"
        hint = _COMMAS if " " in token.text else hint
        return self.fault(f"{shortened(token.text)} is not a number or a range", *token.span, hint)

    # --- what a choice means --------------------------------------------------------------

    def choice(self, items: Sequence[_Item]) -> Choice:
        words = _Words()
        terms: dict[str, Term] = {}
        follows_role = False
        for item in items:
            if isinstance(item, Term):
                self.check_new(item, terms)
                terms[item.key] = item
                follows_role = False
            else:
                follows_role = self.add_word(item, words, follows_role, len(items) > 1)
        if words.numbers:
            self.check_beside(words.numbers[0], items)
            first, last = words.numbers[0], words.numbers[-1]
            values = tuple(map(self.number, words.numbers))
            terms["rank"] = Term("rank", values, first.start, last.end)
        roles = tuple(self.role_item(role, numbers) for role, numbers in words.roles)
        return self.with_numbers_as_roles(Choice(tuple(terms.values()), roles), items)

    def add_word(
        self, item: _Token | _QuotedRole, words: _Words, follows_role: bool, among: bool
    ) -> bool:
        """Whether numbers that come next belong to a role."""
        if isinstance(item, _QuotedRole):
            words.roles.append((item.role, [item.numbers]))
            return True
        if item.kind == "word" and item.text in _ALL:
            if among:
                raise self.fault(f"{item.text} cannot be combined with other terms", *item.span)
            return False
        if item.kind == "word" and is_number_like(item.text):
            target = words.roles[-1][1] if follows_role else words.numbers
            target.append(item)
            return follows_role
        words.roles.append(self.split_role(item))
        return True

    def split_role(self, token: _Token) -> tuple[_Token, list[_Token]]:
        self.glob(token)  # refuses a long one before a pattern reads it
        match = _ROLE_WITH_NUMBERS.fullmatch(token.text) if token.kind == "word" else None
        if match is None:
            return token, []
        role = _Token("word", match[1], *token.span_of(match, 1))
        return role, [_Token("word", match[2], *token.span_of(match, 2))]

    def role_item(self, role: _Token, numbers: Sequence[_Token]) -> RoleItem:
        values = tuple(map(self.number, numbers))
        end = values[-1].end if values else role.end
        return RoleItem(self.glob(role), values, role.start, end)

    def with_numbers_as_roles(self, choice: Choice, items: Sequence[_Item]) -> Choice:
        """In `0-1, driver` numbers and roles are a list: the numbers are of any role."""
        if not choice.roles or not any(isinstance(i, _Token) and self.leads(i) for i in items[:1]):
            return choice
        numbers = next(term for term in choice.terms if term.key == "rank")
        first = RoleItem(
            Value("*", numbers.start, numbers.end), numbers.values, numbers.start, numbers.end
        )
        terms = tuple(term for term in choice.terms if term is not numbers)
        return Choice(terms, (first, *choice.roles))

    def leads(self, token: _Token) -> bool:
        return token.kind == "word" and is_number_like(token.text)

    def check_new(self, term: Term, terms: dict[str, Term]) -> None:
        if term.key in terms:
            what, hint = f"{shortened(term.key)} given twice", "for several values: tp=(1,3)"
            raise self.fault(what, term.start, term.start + len(term.key), hint)

    def check_beside(self, number: _Token, items: Sequence[_Item]) -> None:
        """A number beside a dimension may mean a rank, or one more value of the dimension."""
        named = [item for item in items if isinstance(item, Term)]
        for term in reversed(named):
            if term.key not in _BESIDE_NUMBERS:
                text, key = shortened(number.text), shortened(term.key)
                hint = f"write {key}=(…,{text}) for one more {key}, or rank={text} for rank {text}"
                raise self.fault(f"{text} cannot be mixed with {key}=", *number.span, hint)


_MARKS = {",": "comma", ";": "semicolon"}
