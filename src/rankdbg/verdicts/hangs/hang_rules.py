"""Rules about ranks that make no progress: what their stacks, states and waits mean.

docs/reference/rules.md describes the format; the first rule that fits a rank is its sign.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, cached_property, partial
from typing import Any, Literal, get_args

from rankdbg.errors import RuleError
from rankdbg.process.user_code import short_name
from rankdbg.selection import format_ranks, quoted
from rankdbg.types import Frame
from rankdbg.verdicts.hangs.evidence import Frames, Seen
from rankdbg.verdicts.rules import rule_files
from rankdbg.wire.answers import Child

# What a sign means for the others, from a rank that only waits to one that is surely to blame:
#   collective  waits for other ranks
#   store       waits for what another rank, or the master, should have done
#   idle        waits for work, from outside of the job
#   working     goes on, at something that the others do not do
#   outside     waits for something outside of the job: a server, a person, a timer
#   own         stands, for a reason of its own
#   held        cannot go on, whatever others do
Role = Literal["collective", "store", "idle", "working", "outside", "own", "held"]
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True)
class HangRule:
    """All conditions that are given must hold; a list is a choice, but for frames."""

    cause: str = ""  # a slug
    role: Role = "own"
    says: str = ""  # what the rank does; {place}, {call}, {on}, ... are filled in
    why: str = ""  # an explanation, for docs and for the verdict
    fix: str = ""
    frames: tuple[str, ...] = ()  # what the user's line has called, innermost first
    stack: tuple[str, ...] = ()  # anywhere in the stack
    native: tuple[str, ...] = ()  # native frames of the main thread
    threads: tuple[str, ...] = ()  # the stack of another thread
    state: tuple[str, ...] = ()
    wchan: tuple[str, ...] = ()
    call: tuple[str, ...] = ()
    on: tuple[str, ...] = ()
    child_state: tuple[str, ...] = ()
    child_wchan: tuple[str, ...] = ()
    child_forked: bool | None = None  # by fork() alone, without an interpreter of its own
    has_children: bool | None = None
    in_child: bool | None = None  # it is no rank, but a process below one
    silence: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    gpu: tuple[str, ...] = ()  # signs of its GPUs: spinning, idle, lost, ...
    computes: bool | None = None
    works: bool | None = None  # it, another of its threads, or a process below it computes
    moving: bool | None = None
    holds_gil: bool | None = None
    first: bool | None = None  # rank 0
    blocked_threads: bool | None = None  # others stand in the user's code too
    unsure: bool = False  # native frames may say more
    startup: bool = False  # ordinary while a job starts
    children: str = ""  # what its children do says more: it `may` wait for them, or `must`

    @cached_property
    def conditions(self) -> list[Callable[[Seen], bool]]:
        return [*_conditions(self)]


@dataclass(frozen=True)
class Sign:
    """What one rank is in."""

    seen: Seen
    rule: HangRule
    words: Mapping[str, str]  # what the rule's texts may name
    child: Sign | None = None  # of the process below it that it waits for
    progresses: bool = False  # what it waits for is at work

    @property
    def says(self) -> str:
        return self.rule.says.format_map(self.words)

    @property
    def fix(self) -> str:
        return self.rule.fix.format_map(self.words)

    @property
    def level(self) -> int:
        return ROLES.index(self.rule.role)


def fix_for(signs: Sequence[Sign]) -> str:
    """What to do about all of these, which have one rule: with all their ranks, and the processes
    of each host."""
    first = signs[0]
    hosts: dict[str, list[Sign]] = {}
    for sign in signs:
        hosts.setdefault(sign.words["host"] if "{pid}" in first.rule.fix else "", []).append(sign)
    texts = []
    for same in hosts.values():
        ranks = [sign.seen.rank for sign in same]
        address = (
            quoted(format_ranks(ranks, first.seen.all_ranks)) if "{rank}" in first.rule.fix else ""
        )
        pids = " ".join(sign.words["pid"] for sign in same)
        texts.append(first.rule.fix.format_map({**same[0].words, "rank": address, "pid": pids}))
    return "; ".join(texts)


def load_hang_rules(files: Sequence[str] = ()) -> list[HangRule]:
    return rule_files.load("hang", files, read_rule)


def load_hang_rule_file(name: str) -> list[HangRule]:
    """The rules of one file alone."""
    return rule_files.load_file("hang", name, read_rule)


def read_rule(entry: Mapping[str, Any], file: str) -> HangRule:
    where = f"{file}: [[hang]] {entry.get('cause') or 'without a cause'}"
    values = rule_files.checked(HangRule, entry, where, ("cause", "says"))
    rule_files.check_choice(f"{where}: role", entry.get("role", "own"), ROLES)
    if "children" in entry:
        rule_files.check_choice(f"{where}: children", entry["children"], ("may", "must"))
    for text in (values["says"], values.get("fix", "")):
        unknown = set(re.findall(r"\{(\w*)\}", text)) - WORDS
        if unknown or text.count("{") != text.count("}"):
            raise RuleError(
                f"{where}: no word {{{unknown.pop() if unknown else ''}}}",
                f"words: {', '.join(sorted(WORDS))}",
            )
    for key, value in values.items():
        if isinstance(value, tuple) and not all(isinstance(item, str) for item in value):
            raise RuleError(f"{where}: {key} must be a list of texts")
    return HangRule(**values)


# --- matching -----------------------------------------------------------------------------


WORDS = {
    "rank", "pid", "host", "place", "function", "called", "call", "on", "wchan", "state", "child",
    "thread", "silence", "stop", "world", "there",
}  # fmt: skip


Known = dict[tuple[object, ...], HangRule]


def find_sign(seen: Seen, rules: Iterable[HangRule], known: Known | None = None) -> Sign:
    """`known`: the rules of ranks that were compared with the same ones, by all that rules look at."""
    if known is None:
        rule = _first_that_fits(seen, rules)
    else:
        features = _features(seen)
        rule = known.get(features) or known.setdefault(features, _first_that_fits(seen, rules))
    return Sign(seen, rule, _Words(seen, rule))


def _first_that_fits(seen: Seen, rules: Iterable[HangRule]) -> HangRule:
    return next((rule for rule in rules if fits(rule, seen)), UNKNOWN)


UNKNOWN = HangRule(
    cause="unknown",
    says="in {place}",
    why="No rule knows what it is in.",
    fix="rankdbg stacks {rank} --threads all",
    unsure=True,
)


_Texts = Callable[[HangRule, Seen], Iterable[str]]

# What each condition of a rule is about.
_TEXTS: Mapping[str, _Texts] = {
    "state": lambda rule, seen: [seen.state],
    "call": lambda rule, seen: [seen.wait.call],
    "on": lambda rule, seen: [seen.wait.on],
    "wchan": lambda rule, seen: [seen.wait.wchan],
    "silence": lambda rule, seen: [seen.silence],
    "stop": lambda rule, seen: [seen.stop],
    "gpu": lambda rule, seen: [sign.name for sign in seen.gpus],
    "child_state": lambda rule, seen: [child.state for child in seen.after.awaited],
    "child_wchan": lambda rule, seen: [
        child.wchan for child in seen.after.awaited if _may_be(rule, child)
    ],
}
_ANSWERS: Mapping[str, Callable[[Seen], bool | None]] = {
    "computes": lambda seen: seen.computes,
    "works": lambda seen: seen.works,
    "moving": lambda seen: seen.moving,
    "holds_gil": lambda seen: bool(seen.gil),
    "first": lambda seen: seen.rank.number == 0,
    "blocked_threads": lambda seen: bool(seen.blocked_threads),
    "child_forked": lambda seen: (
        seen.knows_children and any(child.forked for child in seen.after.awaited)
    ),
    "has_children": lambda seen: bool(seen.after.awaited) if seen.knows_children else None,
    "in_child": lambda seen: seen.rank.kind == "child",
}
_STACKS: Mapping[str, Callable[[Seen], Frames]] = {
    "frames": lambda seen: seen.library,
    "stack": lambda seen: seen.frames,
    "native": lambda seen: seen.native_main,
}


def _features(seen: Seen) -> tuple[object, ...]:
    """All that conditions look at."""
    return (
        *[tuple(texts(UNKNOWN, seen)) for texts in _TEXTS.values()],
        *[answer(seen) for answer in _ANSWERS.values()],
        *[frames(seen) for frames in _STACKS.values()],
        tuple(frames for frames, _ in seen.others.values()),
        tuple(child.forked for child in seen.after.awaited),
    )


def fits(rule: HangRule, seen: Seen) -> bool:
    return all(holds(seen) for holds in rule.conditions)


def _conditions(rule: HangRule) -> Iterator[Callable[[Seen], bool]]:
    """Those that the rule has: each of 10,000 ranks may be compared with all rules."""
    for name, texts in _TEXTS.items():
        if wanted := getattr(rule, name):
            yield partial(_has_text, rule, wanted, texts)
    for name, answer in _ANSWERS.items():
        if (said := getattr(rule, name)) is not None:
            yield partial(_is_answered, said, answer)
    for name, frames in _STACKS.items():
        if patterns := getattr(rule, name):
            yield partial(_is_in_stack, patterns, frames)
    if rule.threads:
        yield partial(_is_in_a_thread, rule.threads)


def _has_text(rule: HangRule, wanted: tuple[str, ...], texts: _Texts, seen: Seen) -> bool:
    return _any(wanted, texts(rule, seen))


def _is_answered(wanted: bool, answer: Callable[[Seen], bool | None], seen: Seen) -> bool:
    return answer(seen) == wanted


def _is_in_stack(patterns: Sequence[str], frames: Callable[[Seen], Frames], seen: Seen) -> bool:
    return in_order(patterns, frames(seen))


def _is_in_a_thread(patterns: Sequence[str], seen: Seen) -> bool:
    return any(in_order(patterns, frames) for frames, _ in seen.others.values())


def _may_be(rule: HangRule, child: Child) -> bool:
    return rule.child_forked is None or child.forked == rule.child_forked


def _any(wanted: tuple[str, ...], found: Iterable[str]) -> bool:
    return any(text and fnmatchcase(text, pattern) for text in found for pattern in wanted)


def in_order(patterns: Sequence[str], frames: Frames) -> bool:
    """Whether frames with these patterns come one after another, others between them."""
    remaining = iter(frames)
    return all(any(frame_fits(frame, pattern) for frame in remaining) for pattern in patterns)


def frame_fits(frame: Frame, pattern: str) -> bool:
    functions, files = _split(pattern)
    name = frame.function
    if not any(
        fnmatchcase(name, function) or fnmatchcase(name.rpartition(".")[2], function)
        for function in functions
    ):
        return False
    return not files or any(fnmatchcase(frame.file, file) for file in files)


@cache
def _split(pattern: str) -> tuple[list[str], list[str]]:
    """get|put @ */queue.py|*/queues.py: names of functions, and of files."""
    functions, _, files = pattern.partition("@")
    return (
        [name.strip() for name in functions.split("|")],
        [name.strip() for name in files.split("|") if name.strip()],
    )


def _words(seen: Seen, rule: HangRule) -> dict[str, str]:
    place = seen.shown_place
    children = [
        child
        for child in seen.after.awaited
        if _any(rule.child_state or ("?",), [child.state])
        and (not rule.child_wchan or _any(rule.child_wchan, [child.wchan]))
        and _may_be(rule, child)
    ]
    child = next(iter(children or seen.after.awaited), None)
    called = [f.function for f in seen.library if "<" not in f.function and f.function != "wrapper"]
    return {
        "pid": str(seen.rank.pid),
        "host": seen.rank.host,
        "there": seen.command_prefix,
        "world": str(seen.rank.world or ""),
        "place": f"{place.function} {short_name(place.file)}:{place.line}" if place else "C",
        "function": place.function if place else "",
        "called": called[-1] if called else (place.function if place else ""),
        "call": seen.wait.call or seen.wait.wchan,
        "on": seen.wait.on or "something",
        "wchan": seen.wait.wchan or "the kernel",
        "state": seen.after.why,
        "child": f"{child.pid} ({child.command or child.name})" if child else "a child",
        "thread": ", ".join(seen.blocked_threads) or "another thread",
        "silence": seen.silence,
        "stop": seen.stop,
    }


class _Words(Mapping[str, str]):
    """Made when a text needs them: of 10,000 ranks few are named. With the rank's address, which is
    looked for among all ranks: only if a text has it."""

    def __init__(self, seen: Seen, rule: HangRule) -> None:
        self._seen = seen
        self._rule = rule

    @cached_property
    def _known(self) -> dict[str, str]:
        return _words(self._seen, self._rule)

    def __getitem__(self, word: str) -> str:
        if word == "rank":
            return quoted(format_ranks([self._seen.rank], self._seen.all_ranks))
        return self._known[word]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)
