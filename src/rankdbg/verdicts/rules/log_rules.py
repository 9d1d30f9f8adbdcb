"""Rules for logs: failures, harmless lines and phases, from TOML files that users add to.

docs/reference/rules.md describes the format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeVar

from rankdbg.errors import RuleError
from rankdbg.logs.expressions import HINT
from rankdbg.logs.patterns import FileScan, Pattern
from rankdbg.verdicts.rules import clues, rule_files

Role = Literal["root", "death", "consequence", "teardown"]
ROLES: tuple[Role, ...] = ("root", "death", "consequence", "teardown")
REACHES = ("process", "host", "job")
TRACEBACK = "traceback"
MOST_LINES = 10_000  # beside a hit
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
# A program that logs what a model is asked, and what it answers, says nothing of itself there.
_QUOTED = (
    r"\bReceived request \S{1,80} prompt: "
    r"|^(?i:(?:(?!error|exception|traceback|fatal|fail|xid).){0,300}?"
    r"\b(?:prompt|question|answer|completion|response|instruction|generated)['\"]?\s?[:=]\s?['\"])"
)

# Lines after the one that announces an exception.
_LONGEST_TRACEBACK = 400
_BEFORE_TRACEBACK = 40  # of a file that many ranks write to, in which only few are the same rank's
_MOST_TRACEBACKS = 200

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
    never_alone: bool = False  # counts only where something else has failed
    quiet: bool = False  # never worth a line of its own, if anything else is there
    # An expression for lines about an attempt that will be repeated: while other processes of the job
    # continue, such lines alone do not tell of a failure.
    attempt: str = ""
    rank: str = ""  # a regular expression with the group `ranks`
    fields: str = ""  # named groups that all ranks should have in common ...
    differ: str = ""  # ... and the mode that it is if they have not
    before: int = 0
    after: int = 0
    raised: bool = False  # the exception that follows the line is shown in its place
    file: str = ""  # in files whose path matches this expression ...
    file_mode: str = ""  # ... it is this mode
    # Whom the line is about, where that is not its writer: an expression with some of the groups
    # pid, bus, device (the number of a GPU on its host), rank and host (a name, an address or Ray's id
    # of a node). `peer`: whom it blames.
    about: str = ""
    of_host: bool = False  # it is a host that has failed, whichever rank says so
    lasted: str = ""  # how long it had been going on: an expression with the group `ms` or `s`
    # What it can bring about beside what its role says ("root" before "death" before "consequence"
    # before "teardown"), how far from it, within how many seconds, and how many seconds late the
    # line itself may be.
    brings: tuple[str, ...] = ()
    reach: str = "job"
    within: float = 0.0
    late: float = 0.0
    links: tuple[str, ...] = ()

    @property
    def is_of_process(self) -> bool:
        """Whether the process that prints it has it, not a host, a peer or one that it names."""
        return self.role == "root" and not (self.of_host or self.about)


@dataclass(frozen=True)
class HarmlessRule(LogRule):
    mode: str = ""
    cause: str = ""
    calms: tuple[str, ...] = ()  # failures of which it says, on the line or just after, no harm


@dataclass(frozen=True)
class RecoveryRule(LogRule):
    """Lines that say that a failure is over."""

    of: tuple[str, ...] = ()  # modes; "*" for all
    where: str = "process"
    # What both lines name, where a host may have several such things: an expression with the group
    # `what`, found in the line about the failure and in this one.
    same: str = ""
    note: str = ""


@dataclass(frozen=True)
class PhaseRule(LogRule):
    stack: str = ""
    phase: str = ""
    order: int = 0
    ends: bool = False  # the line says that the phase is over
    # The line begins a run: what failed above it, in the same log, was an earlier one's.
    begins: bool = False
    repeats: bool = False  # steps: only the first and the last lines matter
    quiet: float = 0.0  # seconds for which it may say nothing
    waits: bool = False  # for other processes, which may be those that hold the job up
    note: str = ""  # what goes on meanwhile


@dataclass(frozen=True)
class LogRules:
    failures: Mapping[str, FailureRule]
    harmless: Mapping[str, HarmlessRule]
    phases: Sequence[PhaseRule]
    recoveries: Sequence[RecoveryRule] = ()
    foreign: frozenset[str] = frozenset()  # patterns that come from users' files

    def patterns(self) -> list[Pattern]:
        """What a scanner looks for; names are `failure:MODE`, `harmless:MODE`, `phase:NUMBER`."""
        begins = (("Traceback (most recent call last)", ""),)
        made = [
            Pattern(
                TRACEBACK,
                begins,
                before=_BEFORE_TRACEBACK,
                after=_LONGEST_TRACEBACK,
                limit=_MOST_TRACEBACKS,
                torn=False,
            ),
            _SPEAKER,
            *clues.PATTERNS,
        ]
        for mode, failure in self.failures.items():
            if failure.match:
                made.append(
                    Pattern(
                        f"failure:{mode}",
                        failure.match,
                        (*failure.unless, *_ADVICE, _QUOTED),
                        failure.before,
                        max(failure.after, _LONGEST_TRACEBACK if failure.raised else 0),
                        limit=_MOST_TRACEBACKS if failure.raised else Pattern.limit,
                    )
                )
        for mode, harmless in self.harmless.items():
            made.append(Pattern(f"harmless:{mode}", harmless.match, harmless.unless))
        for number, recovery in enumerate(self.recoveries):
            made.append(
                Pattern(
                    f"recovery:{number}", recovery.match, recovery.unless, limit=200, torn=False
                )
            )
        return [*map(self._marked, made), *self.phase_patterns()]

    def _marked(self, pattern: Pattern) -> Pattern:
        return replace(pattern, foreign=pattern.name in self.foreign)

    def names(self) -> dict[str, str]:
        """Pattern -> what a user calls the rule."""
        named = {f"failure:{mode}": mode for mode in self.failures}
        named |= {f"harmless:{mode}": f"{mode} (harmless)" for mode in self.harmless}
        for number, rule in enumerate(self.phases):
            named[f"phase:{number}"] = f"{rule.stack}: {rule.phase}" + " (ends)" * rule.ends
        for number, recovery in enumerate(self.recoveries):
            named[f"recovery:{number}"] = f"recovery of {', '.join(recovery.of)}"
        return named

    def check_slow(self, scans: Iterable[FileScan]) -> None:
        """Raises RuleError for rules that were left out because their expressions take too long."""
        slow = {pattern for scan in scans for pattern in scan.slow}
        if slow:
            named = self.names()
            names = ", ".join(sorted(named.get(pattern, pattern) for pattern in slow))
            many = "s were" if len(slow) > 1 else " was"
            raise RuleError(
                f"rule{many} left out: {names}",
                "a regular expression takes too long on one line, or on all of them",
                hint=HINT,
            )

    def phase_patterns(self) -> list[Pattern]:
        return [
            self._marked(
                Pattern(
                    f"phase:{number}",
                    rule.match,
                    (*rule.unless, _QUOTED),
                    numbered=False,
                    looks=400,
                    sampled=rule.repeats,
                    torn=False,
                )
            )
            for number, rule in enumerate(self.phases)
        ]


def load_rules(files: Sequence[str] = ()) -> LogRules:
    """rankdbg's own rules, those of plug-ins, then the user's: a rule of a known mode replaces it."""
    added = [text for texts in rule_files.of_plugins(check) for text in texts]
    given = [(name, rule_files.read(name)) for name in files]
    return _rules(rule_files.own_texts(), [*added, *given])


def load_rule_file(name: str) -> LogRules:
    """The rules of one file alone."""
    return _rules([], [(name, rule_files.read(name))])


def check(texts: list[rule_files.Text]) -> list[rule_files.Text]:
    """The same, if all rules in them can be used. Raises RuleError."""
    _rules([], texts)
    return texts


def _rules(own: Iterable[tuple[str, str]], given: Iterable[tuple[str, str]]) -> LogRules:
    failures: dict[str, FailureRule] = {}
    harmless: dict[str, HarmlessRule] = {}
    phases: list[PhaseRule] = []
    recoveries: list[RecoveryRule] = []
    foreign: set[str] = set()
    texts = [*((*text, False) for text in own), *((*text, True) for text in given)]
    for name, text, is_given in texts:
        content = rule_files.parse(name, text)
        read_rule = partial(_rule, file=name, is_given=is_given)
        added = [f"phase:{len(phases) + number}" for number in range(len(content.get("phase", [])))]
        for entry in content.get("failure", []):
            rule = read_rule(FailureRule, entry, "failure")
            failures[rule.mode] = rule
            added.append(f"failure:{rule.mode}")
        for entry in content.get("harmless", []):
            calm = read_rule(HarmlessRule, entry, "harmless")
            harmless[calm.mode] = calm
            added.append(f"harmless:{calm.mode}")
        phases += [read_rule(PhaseRule, entry, "phase") for entry in content.get("phase", [])]
        for entry in content.get("recovery", []):
            added.append(f"recovery:{len(recoveries)}")
            recoveries.append(read_rule(RecoveryRule, entry, "recovery"))
        foreign |= {*added} if is_given else set()
    failures = {mode: _spelt_out(rule, failures) for mode, rule in failures.items()}
    return LogRules(failures, harmless, phases, recoveries, frozenset(foreign))


def _spelt_out(rule: FailureRule, rules: Mapping[str, FailureRule]) -> FailureRule:
    """`@consequence` stands for all modes of that role."""
    brings: list[str] = []
    for mode in rule.brings:
        role = mode.removeprefix("@") if mode.startswith("@") else ""
        brings += [r.mode for r in rules.values() if r.role == role] if role else [mode]
    return replace(rule, brings=tuple(brings)) if rule.brings else rule


_NEEDED: Mapping[type[Any], Sequence[str]] = {
    FailureRule: ("mode", "cause", "fix"),
    HarmlessRule: ("mode", "cause", "match"),
    PhaseRule: ("stack", "phase", "match"),
    RecoveryRule: ("of", "match"),
}


def _rule(kind: type[R], entry: Mapping[str, Any], table: str, *, file: str, is_given: bool) -> R:
    where = f"{file}: [[{table}]] {entry.get('mode') or entry.get('phase') or 'without a name'}"
    values = rule_files.checked(kind, entry, where, _NEEDED[kind])
    rule_files.check_choice(f"{where}: role", entry.get("role", "root"), ROLES)
    for key in ("reach", "where"):
        rule_files.check_choice(f"{where}: {key}", entry.get(key, "job"), REACHES)
    for key in ("unless", "beats", "follows", "calms", "links", "brings", "of"):
        if not all(isinstance(item, str) for item in entry.get(key, [])):
            raise RuleError(f"{where}: {key} must be a list of texts")
    for key in ("before", "after"):
        if not 0 <= entry.get(key, 0) <= MOST_LINES:
            raise RuleError(f"{where}: {key} must be a number of lines up to {MOST_LINES}")
    values["match"] = tuple(pair for item in entry.get("match", []) for pair in _pairs(item, where))
    if is_given:  # rankdbg's own are checked by its tests: to compile all takes 0.3 s
        for regex in _expressions(values):
            rule_files.check_regex(regex, where)
    return kind(**values)


def _expressions(values: Mapping[str, Any]) -> Iterator[str]:
    for key in ("rank", "fields", "file", "about", "lasted", "attempt", "same"):
        yield values.get(key, "")
    yield from values.get("unless", ())
    yield from {regex for _, regex in values["match"]}


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
    return [(literal, regex) for literal in texts]
