"""Rules for logs: failures, harmless lines and phases, from TOML files that users add to.

docs/reference/rules.md describes the format.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import import_module, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from rankdbg.errors import RuleError
from rankdbg.logs.patterns import Pattern

Role = Literal["root", "death", "consequence", "teardown"]
ROLES: tuple[Role, ...] = ("root", "death", "consequence", "teardown")
TRACEBACK = "traceback"

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

R = TypeVar("R", bound="DataclassInstance")


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
        made = [
            Pattern(TRACEBACK, (("Traceback (most recent call last)", ""),), before=2, after=400)
        ]
        for mode, failure in self.failures.items():
            if failure.match:
                made.append(
                    Pattern(
                        f"failure:{mode}",
                        failure.match,
                        failure.unless,
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
            Pattern(f"phase:{number}", rule.match, rule.unless, numbered=False, looks=400)
            for number, rule in enumerate(self.phases)
        ]


def load_rules(files: Sequence[str] = ()) -> LogRules:
    """rankdbg's own rules, then the user's: one of a known mode replaces it."""
    folder = resources.files("rankdbg.verdicts").joinpath("rules")
    own = sorted((path for path in folder.iterdir() if path.name.endswith(".toml")), key=str)
    texts = [(path.name, path.read_text("utf-8")) for path in own]
    return _rules(texts + [(name, _read(name)) for name in files])


def load_rule_file(name: str) -> LogRules:
    """The rules of one file alone."""
    return _rules([(name, _read(name))])


def _rules(texts: Iterable[tuple[str, str]]) -> LogRules:
    failures: dict[str, FailureRule] = {}
    harmless: dict[str, HarmlessRule] = {}
    phases: list[PhaseRule] = []
    for name, text in texts:
        content = _parse(name, text)
        for entry in content.get("failure", []):
            failures[entry.get("mode", "")] = _rule(FailureRule, entry, name, "failure")
        for entry in content.get("harmless", []):
            harmless[entry.get("mode", "")] = _rule(HarmlessRule, entry, name, "harmless")
        phases += [_rule(PhaseRule, entry, name, "phase") for entry in content.get("phase", [])]
    return LogRules(failures, harmless, phases)


def _read(name: str) -> str:
    try:
        return Path(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not UTF-8"
        raise RuleError(f"cannot read the rules in {name}: {reason}") from None


def _parse(name: str, text: str) -> dict[str, Any]:
    # `tomllib` came with Python 3.11; `tomli` is the same before that.
    toml: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        content: dict[str, Any] = toml.loads(text)
    except toml.TOMLDecodeError as error:
        raise RuleError(f"{name} is not TOML: {error}") from None
    unknown = content.keys() - {"failure", "harmless", "phase"}
    if unknown:
        raise RuleError(
            f"{name}: no rules are called [[{sorted(unknown)[0]}]]",
            hint="there are [[failure]], [[harmless]] and [[phase]]: docs/reference/rules.md",
        )
    return content


_NEEDED: Mapping[type[Any], Sequence[str]] = {
    FailureRule: ("mode", "cause", "fix"),
    HarmlessRule: ("mode", "cause", "match"),
    PhaseRule: ("stack", "phase", "match"),
}


def _rule(kind: type[R], entry: Mapping[str, Any], file: str, table: str) -> R:
    where = f"{file}: [[{table}]] {entry.get('mode') or entry.get('phase') or 'without a name'}"
    defaults = {field.name: field.default for field in fields(kind)}
    for key, value in entry.items():
        if key not in defaults:
            raise RuleError(f"{where}: no key {key!r}", f"keys: {', '.join(defaults)}")
        _check_type(f"{where}: {key}", value, type(defaults[key]))
    for key in _NEEDED[kind]:
        if not entry.get(key):
            raise RuleError(f"{where}: {key} is missing")
    if entry.get("role", "root") not in ROLES:
        raise RuleError(f"{where}: role must be one of {', '.join(ROLES)}")
    for regex in [entry.get("rank", ""), entry.get("fields", ""), *entry.get("unless", [])]:
        _check_regex(regex, where)
    values = {key: tuple(v) if isinstance(v, list) else v for key, v in entry.items()}
    values["match"] = tuple(_pair(item, where) for item in entry.get("match", []))
    return kind(**values)


def _check_type(where: str, value: object, wanted: type) -> None:
    """TOML's lists become tuples, and a whole number is a number of seconds too."""
    accepted = {tuple: (list,), float: (int, float)}.get(wanted, (wanted,))
    if not isinstance(value, accepted) or (isinstance(value, bool) and wanted is not bool):
        shown = {tuple: "a list", str: "a text", float: "a number", int: "a whole number"}
        raise RuleError(f"{where} must be {shown.get(wanted, 'true or false')}, not {value!r}")


def _pair(item: object, where: str) -> tuple[str, str]:
    """A literal alone, or [literal, regular expression]."""
    pair = [item, ""] if isinstance(item, str) else item
    if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(x, str) for x in pair):
        raise RuleError(f'{where}: match has {item!r}, not "literal" or ["literal", "regex"]')
    if len(pair[0]) < 3 or "\n" in pair[0]:
        raise RuleError(
            f"{where}: the literal {pair[0]!r} must be 3 characters of one line, or more"
        )
    _check_regex(pair[1], where)
    return pair[0], pair[1]


def _check_regex(regex: object, where: str) -> None:
    try:
        re.compile(str(regex))
    except re.error as error:
        raise RuleError(f"{where}: {regex!r} is no regular expression: {error}") from None
