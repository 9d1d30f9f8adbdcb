"""Rules for logs: failures, harmless lines and phases, from TOML files that users add to.

docs/reference/rules.md describes the format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from rankdbg.errors import RuleError
from rankdbg.logs.patterns import Pattern
from rankdbg.verdicts import rule_files

Role = Literal["root", "death", "consequence", "teardown"]
ROLES: tuple[Role, ...] = ("root", "death", "consequence", "teardown")
TRACEBACK = "traceback"
# Lines of a Ray driver's log that say which rank a process is. Not by "[rank", with which every
# line of torchrun begins.
_SPEAKER = Pattern(
    "speaker",
    tuple(
        (literal, r"pid=\d+.{0,120}(\[[Rr]ank ?\d+\]|\b[Rr]ank[= ]\d+)|\[rank=\d+\] pid=\d+")
        for literal in ("[Rank ", ") [rank", "[rank=", " rank=")
    ),
    limit=1000,
    looks=4000,
    numbered=False,
    torn=False,
)

# Advice speaks of a failure that has not happened. Behind an error, or another sentence, it belongs
# to that.
_ADVICE = (
    r"(?i)^(?:(?!error|fail|exception|[.!] ).){0,160}?"
    r"(\b(hint|tip|docs): |\bif you (see|get|encounter|hit|run into)\b"
    r"|\bhow to (debug|fix|avoid|solve)\b)",
    r"(?i)\berrors? (like|such as) [`'\"]",
    r"^\s*# ",  # a comment in a script that prints itself
)
# A server that logs what it is asked says nothing of itself there.
_QUOTED = r"\bReceived request \S{1,80} prompt: "

R = TypeVar("R", bound="LogRule")


@dataclass(frozen=True)
class LogRule:
    """What all rules have: the lines that they know."""

    match: tuple[tuple[str, str], ...] = ()
    unless: tuple[str, ...] = ()


@dataclass(frozen=True)
class FailureRule(LogRule):
    mode: str = ""
    role: Role = "root"
    kind: str = ""
    cause: str = ""
    fix: str = ""
    beats: tuple[str, ...] = ()  # modes that say the same less exactly, if they stand beside it
    follows: tuple[str, ...] = ()  # modes of which it may come: after one of them it is no cause
    weak: bool = False  # counts only where nothing else has failed
    quiet: bool = False  # never worth a line of its own, if anything else is there
    rank: str = ""  # a regular expression with the group `ranks`
    fields: str = ""  # named groups that all ranks should have in common ...
    differ: str = ""  # ... and the mode that it is if they have not
    before: int = 0
    after: int = 0
    links: tuple[str, ...] = ()


@dataclass(frozen=True)
class HarmlessRule(LogRule):
    mode: str = ""
    cause: str = ""
    calms: tuple[str, ...] = ()  # failures of which it says, on the line or just after, no harm


@dataclass(frozen=True)
class PhaseRule(LogRule):
    stack: str = ""
    phase: str = ""
    order: int = 0
    ends: bool = False  # the line says that the phase is over
    repeats: bool = False  # steps: only the first and the last lines matter
    quiet: float = 0.0  # seconds for which it may say nothing
    note: str = ""  # what goes on meanwhile


@dataclass(frozen=True)
class LogRules:
    failures: Mapping[str, FailureRule]
    harmless: Mapping[str, HarmlessRule]
    phases: Sequence[PhaseRule]

    def patterns(self) -> list[Pattern]:
        """What a scanner looks for; names are `failure:MODE`, `harmless:MODE`, `phase:NUMBER`."""
        begins = (("Traceback (most recent call last)", ""),)
        made = [Pattern(TRACEBACK, begins, before=2, after=400, limit=200, torn=False), _SPEAKER]
        for mode, failure in self.failures.items():
            if failure.match:
                made.append(
                    Pattern(
                        f"failure:{mode}",
                        failure.match,
                        (*failure.unless, *_ADVICE, _QUOTED),
                        failure.before,
                        failure.after,
                    )
                )
        for mode, harmless in self.harmless.items():
            made.append(Pattern(f"harmless:{mode}", harmless.match, harmless.unless))
        return made + self.phase_patterns()

    def names(self) -> dict[str, str]:
        """Pattern -> what a user calls the rule."""
        named = {f"failure:{mode}": mode for mode in self.failures}
        named |= {f"harmless:{mode}": f"{mode} (harmless)" for mode in self.harmless}
        for number, rule in enumerate(self.phases):
            named[f"phase:{number}"] = f"{rule.stack}: {rule.phase}" + " (ends)" * rule.ends
        return named

    def phase_patterns(self) -> list[Pattern]:
        return [
            Pattern(
                f"phase:{number}",
                rule.match,
                (*rule.unless, _QUOTED),
                numbered=False,
                looks=400,
                torn=False,
            )
            for number, rule in enumerate(self.phases)
        ]


def load_rules(files: Sequence[str] = ()) -> LogRules:
    """rankdbg's own rules, then the user's: one of a known mode replaces it."""
    return _rules([*rule_files.own_texts(), *((name, rule_files.read(name)) for name in files)])


def load_rule_file(name: str) -> LogRules:
    """The rules of one file alone."""
    return _rules([(name, rule_files.read(name))])


def _rules(texts: Iterable[tuple[str, str]]) -> LogRules:
    failures: dict[str, FailureRule] = {}
    harmless: dict[str, HarmlessRule] = {}
    phases: list[PhaseRule] = []
    for name, text in texts:
        content = rule_files.parse(name, text)
        for entry in content.get("failure", []):
            failures[entry.get("mode", "")] = _rule(FailureRule, entry, name, "failure")
        for entry in content.get("harmless", []):
            harmless[entry.get("mode", "")] = _rule(HarmlessRule, entry, name, "harmless")
        phases += [_rule(PhaseRule, entry, name, "phase") for entry in content.get("phase", [])]
    return LogRules(failures, harmless, phases)


_NEEDED: Mapping[type[Any], Sequence[str]] = {
    FailureRule: ("mode", "cause", "fix"),
    HarmlessRule: ("mode", "cause", "match"),
    PhaseRule: ("stack", "phase", "match"),
}


def _rule(kind: type[R], entry: Mapping[str, Any], file: str, table: str) -> R:
    where = f"{file}: [[{table}]] {entry.get('mode') or entry.get('phase') or 'without a name'}"
    values = rule_files.checked(kind, entry, where, _NEEDED[kind])
    rule_files.check_choice(f"{where}: role", entry.get("role", "root"), ROLES)
    for regex in [entry.get("rank", ""), entry.get("fields", ""), *entry.get("unless", [])]:
        rule_files.check_regex(regex, where)
    values["match"] = tuple(pair for item in entry.get("match", []) for pair in _pairs(item, where))
    return kind(**values)


def _pairs(item: object, where: str) -> list[tuple[str, str]]:
    """A literal alone, or [literal, regular expression], or [[literal, ...], regular expression]."""
    pair: Any = [item, ""] if isinstance(item, str) else item
    literals, regex = pair if isinstance(pair, list) and len(pair) == 2 else (None, "")
    texts: Any = [literals] if isinstance(literals, str) else literals
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in [*texts, regex]):
        raise RuleError(f'{where}: match has {item!r}, not "literal" or ["literal", "regex"]')
    for literal in texts:
        if len(literal) < 3 or "\n" in literal:
            raise RuleError(
                f"{where}: the literal {literal!r} must be 3 characters of one line, or more"
            )
    rule_files.check_regex(regex, where)
    return [(literal, regex) for literal in texts]
