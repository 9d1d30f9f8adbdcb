"""Breakpoints whose hit condition makes no sense: the editor is told so, and they are not set.

debugpy takes any text for a hit condition, and never stops at one that it cannot evaluate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_NUMBER_OF_HITS = re.compile(r"\s*((==|>=?|<=?)?\s*\d+|%\s*0*[1-9]\d*)\s*")
_DEBUGPYS_NAME = "@HIT@"  # for the number of hits, in an expression


class CheckedBreakpoints:
    """The breakpoints of a request, with and without those that no rank gets."""

    def __init__(self, arguments: Mapping[str, Any] | None) -> None:
        given = dict(arguments or {})
        wanted = given.get("breakpoints") or []
        self.faults = {at: fault for at, each in enumerate(wanted) if (fault := _fault(each))}
        kept = [each for at, each in enumerate(wanted) if at not in self.faults]
        self.arguments = {**given, "breakpoints": kept} if self.faults else given

    def answers(self, of_rank: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """One for each breakpoint of the request, from the answers of the rank."""
        answers = [dict(each) for each in of_rank]
        for at, fault in self.faults.items():
            answers.insert(at, {"verified": False, "message": fault})
        return answers


def _fault(wanted: Mapping[str, Any]) -> str:
    condition = wanted.get("hitCondition") or ""
    if not condition.strip() or _NUMBER_OF_HITS.fullmatch(condition) or _DEBUGPYS_NAME in condition:
        return ""
    return (
        f"invalid hit condition {condition!r}: expected a number of hits, alone or after "
        "==, >=, >, <=, < or % (10, >= 10, % 10)"
    )
