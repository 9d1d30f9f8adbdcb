"""A parsed selection and a roster -> the ranks that it picks, or what is not there."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import translate
from operator import attrgetter

from rankdbg.errors import SelectionError, shortened
from rankdbg.selection.grammar import (
    EVERY,
    LAST,
    MIXED_KEYS,
    TEXT_KEYS,
    THREAD,
    Choice,
    RoleItem,
    Selection,
    Term,
    Value,
)
from rankdbg.selection.names import format_numbers, format_ranks, last_generations
from rankdbg.types import Rank, actor_names

Label = int | str | tuple[str, ...] | None
_KEYS: Mapping[str, Callable[[Rank], Label]] = {
    "rank": attrgetter("number"),
    "pid": attrgetter("process.pid"),
    "role": attrgetter("role"),
    "host": attrgetter("process.host"),
    "state": attrgetter("state"),
    "job": attrgetter("job"),
    "actor": actor_names,
    "step": lambda rank: rank.names.get("step"),
    "het": lambda rank: rank.names.get("het"),
    "gen": attrgetter("generation"),
}
_ALWAYS = ("rank", "pid", "role", "host", "state", "job")


def pick(selection: Selection, ranks: Sequence[Rank]) -> list[Rank]:
    """The selected ranks, by number, then host and pid. Never an empty list."""
    text = selection.text
    if not ranks:
        raise SelectionError("there are no ranks to select from", text, 0, len(text))
    chosen = [_pick_choice(choice, text, ranks) for choice in selection.choices]
    picked = chosen[0] if len(chosen) == 1 else _joined(chosen)
    return _in_order(picked)


def _in_order(ranks: Iterable[Rank]) -> list[Rank]:
    """By number, then host and pid; those without a number last."""
    ordered = sorted(ranks, key=attrgetter("process"))
    numbered = [rank for rank in ordered if rank.number is not None]
    numbered.sort(key=attrgetter("number"))  # stable
    if len(numbered) == len(ordered):
        return numbered
    return numbered + [rank for rank in ordered if rank.number is None]


def matches(selection: Selection, rank: Rank) -> bool:
    """Whether this rank is selected, without knowing the others. An unknown dimension is an
    error, an unknown value is not."""
    return any(_matches(choice, selection.text, rank) for choice in selection.choices)


def _matches(choice: Choice, text: str, rank: Rank) -> bool:
    for term in choice.terms:
        label = _label_of(term.key)(rank)
        if label is None and term.key not in _KEYS:
            raise _no_such_dimension(term, text, [rank])
        if not any(_fits(value.wanted, label) for value in term.values):
            return False
    return not choice.roles or any(
        _fits(item.role.wanted, rank.role)
        and (not item.numbers or any(_fits(value.wanted, rank.number) for value in item.numbers))
        for item in choice.roles
    )


def _fits(wanted: range | str, label: Label) -> bool:
    if isinstance(label, tuple):
        return any(_fits(wanted, name) for name in label)
    if isinstance(wanted, range):
        number = _as_number(label)  # of anything else a range would be searched to its end
        return isinstance(number, int) and number in wanted
    if isinstance(label, int):  # only generations are numbers that have words
        return wanted in (LAST, EVERY)
    return label is not None and re.match(translate(wanted), label) is not None


def _as_number(label: Label) -> Label:
    return int(label) if isinstance(label, str) and label.isdecimal() else label


def _joined(chosen: Iterable[Sequence[Rank]]) -> list[Rank]:
    return list({rank.process: rank for some in chosen for rank in some}.values())


def _pick_choice(choice: Choice, text: str, everyone: Sequence[Rank]) -> Sequence[Rank]:
    for term in choice.terms:
        if term.key == THREAD:
            what = "thread= is the address of a stop: only cast, attach and continue take it"
            raise SelectionError(what, text, term.start, term.end)
    picked = _of_generations(choice, text, everyone)
    terms = [term for term in choice.terms if term.key != "gen"]
    # Report values that do not exist before combinations that do not exist.
    wanted = [_existing(term, text, picked) for term in terms]
    if choice.roles:
        picked = _of_roles(choice.roles, text, picked)
    for term, labels in zip(terms, wanted, strict=True):
        label_of = _label_of(term.key)
        before, picked = picked, [rank for rank in picked if label_of(rank) in labels]
        if not picked:
            raise _no_such_combination(term, text, before)
    return picked


def _of_generations(choice: Choice, text: str, ranks: Sequence[Rank]) -> Sequence[Rank]:
    """The last generation, unless the selection says otherwise."""
    term = next((term for term in choice.terms if term.key == "gen"), None)
    if term is None:
        return last_generations(ranks)
    words = {value.wanted for value in term.values if isinstance(value.wanted, str)}
    if EVERY in words:
        return ranks
    numbered = tuple(value for value in term.values if isinstance(value.wanted, range))
    existing = {rank.generation for rank in ranks}
    found = _matching_numbers(term, numbered, text, existing)
    last = {rank.process for rank in last_generations(ranks)} if LAST in words else set()
    return [rank for rank in ranks if rank.generation in found or rank.process in last]


def _of_roles(items: Sequence[RoleItem], text: str, ranks: Sequence[Rank]) -> list[Rank]:
    by_role: dict[str, list[Rank]] = {}
    for rank in ranks:
        by_role.setdefault(rank.role, []).append(rank)
    picked: list[list[Rank]] = []
    for item in items:
        term = Term("role", (item.role,), item.start, item.end)
        roles = _matching_names(term, text, by_role)
        members = [rank for role in roles for rank in by_role[str(role)]]
        if item.numbers:
            numbers = {rank.number for rank in members if rank.number is not None}
            of_role = Term("rank", item.numbers, item.start, item.end)
            found = _matching_numbers(of_role, item.numbers, text, numbers, str(item.role.wanted))
            members = [rank for rank in members if rank.number in found]
        picked.append(members)
    return _joined(picked)


def _label_of(key: str) -> Callable[[Rank], Label]:
    return _KEYS.get(key) or (lambda rank: rank.coordinates.get(key))


def _existing(term: Term, text: str, ranks: Sequence[Rank]) -> set[Label]:
    """The labels of ranks that match the term. Each value matches some."""
    labels = set(map(_label_of(term.key), ranks))
    if term.key in TEXT_KEYS or term.key in MIXED_KEYS:
        return _matching_names(term, text, labels - {None})
    numbers = {label for label in labels if isinstance(label, int)}
    if not numbers and term.key not in _KEYS:
        raise _no_such_dimension(term, text, ranks)
    return {*_matching_numbers(term, term.values, text, numbers)}


def _matching_names(term: Term, text: str, labels: Iterable[Label]) -> set[Label]:
    known = set(labels)
    found: set[Label] = set()
    for value in term.values:
        wanted = value.wanted
        hits: set[Label]
        if isinstance(wanted, str) and not any(mark in wanted for mark in "*?["):
            # Ten thousand host names are not ten thousand globs.
            hits = {wanted} if wanted in known else {k for k in known if _is_one_of(wanted, k)}
        elif isinstance(wanted, range):
            hits = {label for label in known if _fits(wanted, label)}
        else:
            fits = re.compile(translate(wanted)).match
            hits = {label for label in known if any(fits(name) for name in _names(label))}
        if not hits:
            names = sorted({name for label in known for name in _names(label)} - {""})
            raise _no_such_value(term, value, text, ", ".join(names))
        found |= hits
    return found


def _is_one_of(wanted: str, label: Label) -> bool:
    return isinstance(label, tuple) and wanted in label


def _names(label: Label) -> tuple[str, ...]:
    return label if isinstance(label, tuple) else (str(label),)


def _matching_numbers(
    term: Term, values: Sequence[Value], text: str, known: set[int], whose: str = "this job"
) -> set[int]:
    """The numbers are scanned once even if many ranges overlap."""
    singles = {number for value in values if (number := _single(value)) is not None}
    if len(values) == len(singles) and singles <= known:
        return singles
    numbers, found = sorted(known), set[int]()
    done: dict[tuple[int, int], int] = {}  # the end of the ranges of one step and phase so far
    ranges = [(value.wanted, value) for value in values if isinstance(value.wanted, range)]
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
            raise _no_such_value(term, value, text, format_numbers(numbers), whose)
        found |= hits
    return found


def _single(value: Value) -> int | None:
    wanted = value.wanted
    return wanted.start if isinstance(wanted, range) and wanted.stop == wanted.start + 1 else None


# --- what is not there ----------------------------------------------------------------------


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
    hint = f"did you mean {names[near[0]]}?" if near else f"there are always {', '.join(_ALWAYS)}"
    what, end = f"no dimension {shortened(term.key)}", term.start + len(term.key)
    return SelectionError(what, text, term.start, end, why, hint=hint)


def _no_such_value(
    term: Term, value: Value, text: str, existing: str, whose: str = "this job"
) -> SelectionError:
    what = f"no {shortened(term.key)} {shortened(text[value.start : value.end])}"
    colon = ":" if term.key in TEXT_KEYS else ""
    why = f"{whose} has{colon} {shortened(existing, 200)}"
    if not existing:
        why = f"no process of {whose} has a {term.key}"
    hint = "numbers look like 3, 0-6 or 1:10:2" if term.key == "role" else ""
    return SelectionError(what, text, value.start, value.end, why, hint=hint)


def _no_such_combination(term: Term, text: str, before: Sequence[Rank]) -> SelectionError:
    what = f"no rank matches {shortened(text[term.start : term.end])} and the terms before it"
    why = f"the terms before it select {shortened(format_ranks(before))}"
    return SelectionError(what, text, term.start, term.end, why)
