"""Small jobs that mislead whoever believes the first, the last or the loudest line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from rankdbg.investigations.logs.log_diagnosis import LogDiagnosis
from rankdbg.investigations.logs.log_sources import given_logs
from rankdbg.logs.patterns import FileScan
from rankdbg.verdicts.failures.root_causes import Diagnosis, diagnose
from rankdbg.verdicts.rules.log_rules import load_rules
from stories import Story
from stories_of_ends import (
    STORIES_OF_ENDS,
    attempts_while_the_master_loads,
    exception_beside_a_signal,
    exception_without_a_label,
)
from stories_of_machines import STORIES_OF_MACHINES
from stories_of_outcomes import STORIES_OF_OUTCOMES
from stories_of_outputs import STORIES_OF_OUTPUTS
from stories_of_places import STORIES_OF_PLACES
from stories_of_records import STORIES_OF_RECORDS
from stories_of_repeats import STORIES_OF_REPEATS
from stories_of_runs import STORIES_OF_RUNS
from stories_of_traps import STORIES_OF_TRAPS, same_failure_in_each_attempt
from stories_of_versions import STORIES_OF_VERSIONS

RULES = load_rules()


def scanned(story: Story, folder: Path) -> Sequence[FileScan]:
    story.write(folder)
    return given_logs([str(folder)], RULES.patterns()).scan()


def diagnosed(story: Story, folder: Path) -> Diagnosis:
    return diagnose(scanned(story, folder), RULES)


@pytest.mark.parametrize(
    "make",
    [
        *STORIES_OF_TRAPS,
        *STORIES_OF_PLACES,
        *STORIES_OF_ENDS,
        *STORIES_OF_MACHINES,
        *STORIES_OF_OUTCOMES,
        *STORIES_OF_OUTPUTS,
        *STORIES_OF_RECORDS,
        *STORIES_OF_REPEATS,
        *STORIES_OF_RUNS,
        *STORIES_OF_VERSIONS,
    ],
    ids=lambda make: make.__name__,
)
def test_trap(tmp_path: Path, make: Callable[[], Story]) -> None:
    """The cause is named, with its rank or host; a job that did not fail has none."""
    story = make()
    found = LogDiagnosis.of(scanned(story, tmp_path), RULES, None)
    causes = [f for f in found.failures if f.role == "root"]
    if not story.modes:
        assert [cause.mode for cause in causes] == []
        assert found.stall is None
        return
    first = causes[0]
    assert first.mode in story.modes
    assert story.rank is None or first.ranks == (story.rank,)
    assert not story.host or first.host == story.host
    assert not story.unplaced or not first.host


def test_rank_that_a_signal_ended(tmp_path: Path) -> None:
    """A rank that died of a signal is not the one that raised an exception without a label."""
    assert diagnosed(exception_beside_a_signal(), tmp_path).failures[0].ranks == ()


def test_rank_that_the_launcher_names(tmp_path: Path) -> None:
    """A rank that a launcher names is not accused by its silence."""
    confidence = diagnosed(exception_without_a_label(), tmp_path).confidence
    assert confidence is not None
    assert not any("say nothing" in reason for reason in confidence.reasons)


def test_attempts_are_listed(tmp_path: Path) -> None:
    """What is being repeated is no failure, and is not swallowed."""
    found = diagnosed(attempts_while_the_master_loads(), tmp_path)
    assert [(line.mode, line.count) for line in found.harmless] == [
        ("rendezvous_connect_timeout", 45)
    ]


def test_first_attempt(tmp_path: Path) -> None:
    """What has ended each attempt of an elastic job is shown as of the first one."""
    first = diagnosed(same_failure_in_each_attempt(), tmp_path).failures[0].first
    assert "/attempt_0/" in first.path


def test_hosts_that_end_together(tmp_path: Path) -> None:
    """Where several hosts say nothing at all, and others have lost their peers, it is theirs."""
    story = Story((), hosts=[f"node-{n}" for n in range(1, 6)])
    story.nccl_init()
    story.steps(100)
    for rank in story.others(*range(8, 24)):
        story.closed(rank, 110 + rank * 0.1, f"node-{2 + rank % 2}")
    assert diagnosed(story, tmp_path).failures[0].ranks == tuple(range(8, 24))
