"""What is told of logs that grow: each change once."""

from __future__ import annotations

from rankdbg.verdicts.failures.findings import Finding
from rankdbg.verdicts.failures.job_phases import Course, RankPhase
from rankdbg.verdicts.failures.log_changes import Changes
from rankdbg.verdicts.failures.log_lines import Origin
from rankdbg.verdicts.failures.root_causes import Diagnosis, Failure
from rankdbg.verdicts.rules.log_rules import FailureRule, PhaseRule

NOTHING = Diagnosis((), ())


def course(rank: int, phase: str, silent: float = 0.0) -> Course:
    rule = PhaseRule(stack="mine", phase=phase, quiet=10.0)
    return Course(Origin(rank), "a.log", (RankPhase(rule, 1.0, 2.0, False, None, ""),), silent)


def failed(*ranks: int) -> Diagnosis:
    rule = FailureRule(mode="oom")
    found = [Finding(rule, "a.log", 1, "", (rank,), Origin(rank), 5.0, 0.0) for rank in ranks]
    return Diagnosis((Failure("oom", "root", ranks, found[0], tuple(found), 5.0),), ())


def told(changes: Changes, courses: list[Course], diagnosis: Diagnosis = NOTHING) -> list[object]:
    return [
        (change.kind, sorted(c.who.rank or 0 for c in change.courses) or len(change.findings))
        for change in changes.since_last(courses, diagnosis)
    ]


def test_phases() -> None:
    """Ranks that change together are one event; who stays is none."""
    changes = Changes()
    assert told(changes, [course(0, "load"), course(1, "load")]) == [("phase", [0, 1])]
    assert told(changes, [course(0, "load"), course(1, "load")]) == []
    assert told(changes, [course(0, "load"), course(1, "train")]) == [("phase", [1])]


def test_stalls() -> None:
    """A rank that is silent for too long, and that it writes again."""
    changes = Changes()
    told(changes, [course(0, "load")])
    assert told(changes, [course(0, "load", 11.0)]) == [("stall", [0])]
    assert told(changes, [course(0, "load", 12.0)]) == []
    assert told(changes, [course(0, "load", 1.0)]) == [("moves", [0])]


def test_failures() -> None:
    """Of a failure that spreads, the ranks that are new."""
    changes = Changes()
    assert told(changes, [], failed(0)) == [("failure", 1)]
    assert told(changes, [], failed(0)) == []
    assert told(changes, [], failed(0, 1, 2)) == [("failure", 2)]
