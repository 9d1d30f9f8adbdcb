"""Rules about profiles: which frames tell that a rank is at forward, backward, data, ...

docs/reference/rules.md describes the format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rankdbg.errors import RuleError
from rankdbg.types import Frame
from rankdbg.verdicts.hangs.hang_rules import frame_fits
from rankdbg.verdicts.rules import rule_files

OTHER = "other"  # no frame tells
_MODULE = "<module>"  # the function of a frame that runs the code of a module


@dataclass(frozen=True)
class ProfileRule:
    phase: str = ""
    frames: tuple[str, ...] = ()  # one of these is enough
    over: tuple[str, ...] = ()  # phases that are this one where they are within it


def load_profile_rules(files: Sequence[str] = ()) -> list[ProfileRule]:
    return rule_files.load("profile", files, read_rule)


def load_profile_rule_file(name: str) -> list[ProfileRule]:
    """The rules of one file alone."""
    return rule_files.load_file("profile", name, read_rule)


def read_rule(entry: Mapping[str, Any], file: str) -> ProfileRule:
    where = f"{file}: [[profile]] {entry.get('phase') or 'without a phase'}"
    values = rule_files.checked(ProfileRule, entry, where, ("phase", "frames"))
    for key in ("frames", "over"):
        if not all(isinstance(item, str) for item in values.get(key, ())):
            raise RuleError(f"{where}: {key} must be a list of texts")
    return ProfileRule(**values)


class Phases:
    """Tells the phase of stacks. Frames repeat by the thousand, so each is looked up once."""

    def __init__(self, rules: Sequence[ProfileRule]) -> None:
        self._rules = rules
        self._known: dict[tuple[str, str], ProfileRule | None] = {}

    def of(self, frames: Iterable[Frame]) -> str:
        """Frames come innermost first. The innermost that tells counts, unless it is within
        another phase that includes it."""
        phase = ""
        for frame in frames:
            rule = self._rule_of(frame)
            if rule is not None and (not phase or phase in rule.over):
                phase = rule.phase
        return phase or OTHER

    def _rule_of(self, frame: Frame) -> ProfileRule | None:
        key = frame.function, frame.file
        if key not in self._known:
            self._known[key] = next((rule for rule in self._rules if _fits(rule, frame)), None)
        return self._known[key]


def _fits(rule: ProfileRule, frame: Frame) -> bool:
    """The code of a module runs when the module is imported, whatever its functions do: only a
    pattern that names it fits."""
    patterns = rule.frames
    if frame.function == _MODULE:
        patterns = tuple(pattern for pattern in patterns if _MODULE in pattern)
    return any(frame_fits(frame, pattern) for pattern in patterns)
