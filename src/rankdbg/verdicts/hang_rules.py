"""Rules about ranks that do not come on: what their stacks, states and waits mean.

docs/reference/rules.md describes the format; the first rule that fits a rank is its sign.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Literal, get_args

from rankdbg.errors import RuleError
from rankdbg.types import Frame
from rankdbg.user_code import short_name
from rankdbg.verdicts import rule_files
from rankdbg.verdicts.evidence import Frames, Seen

# What a sign means for the others, from the victim to the one that is surely to blame:
#   collective  waits for other ranks
#   store       waits for what another rank, or the master, should have done
#   idle        waits for work, from outside of the job
#   working     goes on, at something that the others do not do
#   outside     waits for somebody outside of the job: a server, a person, a timer
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
    silence: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    gpu: tuple[str, ...] = ()  # signs of its GPUs: spinning, idle, lost, ...
    computes: bool | None = None
    moving: bool | None = None
    holds_gil: bool | None = None
    first: bool | None = None  # rank 0
    blocked_threads: bool | None = None  # others stand in the user's code too
    unsure: bool = False  # native frames may say more


@dataclass(frozen=True)
class Sign:
    """What one rank is in."""

    seen: Seen
    rule: HangRule
    words: Mapping[str, str]  # what the rule's texts may name

    @property
    def says(self) -> str:
        return self.rule.says.format_map(self.words)

    @property
    def fix(self) -> str:
        return self.rule.fix.format_map(self.words)

    @property
    def level(self) -> int:
        return ROLES.index(self.rule.role)


def load_hang_rules(files: Sequence[str] = ()) -> list[HangRule]:
    """The user's first: they know their own program better."""
    texts = [(name, rule_files.read(name)) for name in rule_files.in_directories(files)]
    return _rules([*texts, *rule_files.own_texts()])


def load_hang_rule_file(name: str) -> list[HangRule]:
    """The rules of one file alone."""
    return _rules([(name, rule_files.read(name))])


def _rules(texts: Iterable[tuple[str, str]]) -> list[HangRule]:
    return [
        _rule(entry, name)
        for name, text in texts
        for entry in rule_files.parse(name, text).get("hang", [])
    ]


def _rule(entry: Mapping[str, Any], file: str) -> HangRule:
    where = f"{file}: [[hang]] {entry.get('cause') or 'without a cause'}"
    values = rule_files.checked(HangRule, entry, where, ("cause", "says"))
    rule_files.check_choice(f"{where}: role", entry.get("role", "own"), ROLES)
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
    "thread", "silence", "stop", "world",
}  # fmt: skip


def find_sign(seen: Seen, rules: Iterable[HangRule]) -> Sign:
    rule = next((rule for rule in rules if fits(rule, seen)), UNKNOWN)
    return Sign(seen, rule, _words(seen, rule))


UNKNOWN = HangRule(
    cause="unknown",
    says="it stands in {place}",
    why="No rule knows what it is in.",
    fix="rankdbg stacks {rank} --threads all",
    unsure=True,
)


def fits(rule: HangRule, seen: Seen) -> bool:
    vitals = seen.after
    choices: list[tuple[tuple[str, ...], Callable[[], Iterable[str]]]] = [
        (rule.state, lambda: [seen.state]),
        (rule.call, lambda: [vitals.call]),
        (rule.on, lambda: [vitals.on]),
        (rule.wchan, lambda: [vitals.wchan]),
        (rule.silence, lambda: [seen.silence]),
        (rule.stop, lambda: [seen.stop]),
        (rule.gpu, lambda: [sign.name for sign in seen.gpus]),
        (rule.child_state, lambda: [child.state for child in vitals.children]),
        (rule.child_wchan, lambda: [child.wchan for child in vitals.children]),
    ]
    if any(wanted and not _any(wanted, found()) for wanted, found in choices):
        return False
    answers = (
        (rule.computes, seen.computes),
        (rule.moving, seen.moving),
        (rule.holds_gil, bool(seen.gil)),
        (rule.first, seen.rank.number == 0),
        (rule.blocked_threads, bool(seen.blocked_threads)),
    )
    if any(wanted is not None and wanted != found for wanted, found in answers):
        return False
    return (
        in_order(rule.frames, seen.library)
        and in_order(rule.stack, seen.frames)
        and in_order(rule.native, seen.native_main)
        and (
            not rule.threads
            or any(in_order(rule.threads, frames) for frames, _ in seen.others.values())
        )
    )


def _any(wanted: tuple[str, ...], found: Iterable[str]) -> bool:
    return any(text and fnmatchcase(text, pattern) for text in found for pattern in wanted)


def in_order(patterns: Sequence[str], frames: Frames) -> bool:
    """Whether frames with these patterns come one after another, others between them."""
    remaining = iter(frames)
    return all(any(_frame_fits(frame, pattern) for frame in remaining) for pattern in patterns)


def _frame_fits(frame: Frame, pattern: str) -> bool:
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
    place = seen.place
    children = [
        child
        for child in seen.after.children
        if _any(rule.child_state or ("?",), [child.state])
        and (not rule.child_wchan or _any(rule.child_wchan, [child.wchan]))
    ]
    child = next(iter(children or seen.after.children), None)
    called = [f.function for f in seen.library if "<" not in f.function and f.function != "wrapper"]
    return {
        "rank": str(seen.number),
        "pid": str(seen.rank.pid),
        "host": seen.rank.host,
        "world": str(seen.rank.world or ""),
        "place": f"{place.function} {short_name(place.file)}:{place.line}" if place else "C",
        "function": place.function if place else "",
        "called": called[-1] if called else (place.function if place else ""),
        "call": seen.after.call or seen.after.wchan,
        "on": seen.after.on or "something",
        "wchan": seen.after.wchan or "the kernel",
        "state": seen.after.why,
        "child": f"{child.pid} ({child.command or child.name})" if child else "a child",
        "thread": ", ".join(seen.blocked_threads) or "another thread",
        "silence": seen.silence,
        "stop": seen.stop,
    }
