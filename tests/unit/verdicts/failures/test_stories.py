"""Whole jobs: the cause and its place are found, and nothing is a cause where nothing failed."""

from __future__ import annotations

import importlib.util
import json
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rankdbg.investigations.logs.log_sources import given_logs
from rankdbg.logs.patterns import FileScan
from rankdbg.verdicts.failures.root_causes import Diagnosis, diagnose
from rankdbg.verdicts.rules.log_rules import load_rules
from stories import STORIES as FIRST_STORIES
from stories import Story
from stories_of_accelerators import STORIES_OF_ACCELERATORS
from stories_of_clusters import STORIES_OF_CLUSTERS
from stories_of_launchers import STORIES_OF_LAUNCHERS, host_that_ends_silently
from tiers import chiefly

RULES = load_rules()
STORIES = [
    *FIRST_STORIES,
    *STORIES_OF_CLUSTERS,
    *STORIES_OF_LAUNCHERS,
    *STORIES_OF_ACCELERATORS,
]
SHARED = Path(__file__).parents[5] / "shared/data/crash_logs"
FAILED = [story for story in STORIES if story().modes]
ON_HOSTS = [story for story in FAILED if story in FIRST_STORIES]  # whose hosts have clocks
LEVELS = ("low", "medium", "high")


def scan(folder: Path) -> list[FileScan]:
    return given_logs([str(folder)], RULES.patterns()).scan()


class Telling:
    """A story in files, read once for all tests: to read them takes longer than to judge them."""

    def __init__(self, make: Callable[[], Story], folder: Path) -> None:
        make().write(folder)
        self._folder = folder
        self.scans = scan(folder)
        self.diagnosis = diagnose(self.scans, RULES)

    def changed(self, story: Story, folder: Path) -> Diagnosis:
        """The verdict if the files are those of this story: only what differs is read anew."""
        story.write(folder)
        for path in [path for path in folder.rglob("*") if path.is_file()]:
            before = self._folder / path.relative_to(folder)
            if before.is_file() and before.read_bytes() == path.read_bytes():
                path.unlink()
        if not any(path.is_file() for path in folder.rglob("*")):
            return self.diagnosis
        anew = [
            replace(s, path=s.path.replace(str(folder), str(self._folder))) for s in scan(folder)
        ]
        known = {each.path for each in anew}
        return diagnose([*(s for s in self.scans if s.path not in known), *anew], RULES)


@pytest.fixture(scope="module")
def telling(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[Callable[[], Story]], Telling]:
    """Of a story: what it tells, from a cache."""

    @cache
    def tell(make: Callable[[], Story]) -> Telling:
        return Telling(make, tmp_path_factory.mktemp("story"))

    return tell


Tell = Callable[[Callable[[], Story]], Telling]


def verdict(diagnosis: Diagnosis) -> tuple[str, tuple[int, ...], str]:
    first = diagnosis.failures[0]
    assert first.role == "root"
    return first.mode, first.ranks, first.host


def check(story: Story, diagnosis: Diagnosis) -> None:
    if not story.modes:
        assert [(f.mode, f.role) for f in diagnosis.failures if f.role == "root"] == []
        return
    mode, ranks, host = verdict(diagnosis)
    assert mode in story.modes
    assert story.rank is None or ranks == (story.rank,)
    assert not story.host or host == story.host


@pytest.mark.slow
@pytest.mark.parametrize("make", STORIES, ids=lambda make: make.__name__)
def test_story(telling: Tell, make: Callable[[], Story]) -> None:
    """The cause is named, with its rank or host; a job that did not fail has none."""
    check(make(), telling(make).diagnosis)


def test_silence_is_no_proof(telling: Tell) -> None:
    """A host that is accused only because its ranks say nothing is not accused with certainty."""
    found = telling(host_that_ends_silently).diagnosis.confidence
    assert found is not None
    assert found.level != "high"
    assert any("say nothing" in reason for reason in found.reasons)


# --- what must not change a verdict --------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", chiefly(STORIES[::12], STORIES[::4]), ids=lambda make: make.__name__
)
def test_order_of_files(telling: Tell, make: Callable[[], Story]) -> None:
    """In which order the files are read does not matter."""
    told = telling(make)
    before = [(f.mode, f.role, f.ranks, f.host) for f in told.diagnosis.failures]
    scans = [*told.scans]
    random.Random(5).shuffle(scans)
    assert [(f.mode, f.role, f.ranks, f.host) for f in diagnose(scans, RULES).failures] == before


@pytest.mark.slow
@pytest.mark.parametrize("make", chiefly(FAILED[::8], FAILED[::2]), ids=lambda make: make.__name__)
def test_noise(telling: Tell, tmp_path: Path, make: Callable[[], Story]) -> None:
    """Errors that the job has overcome long before its end do not change the verdict."""
    story = make()
    early = 65.0
    rank = 1
    story.put(story.err(rank), early, f"{story.clock(early, story.host_of(rank))} WARNING retrying")
    story.traceback(rank, early, "ConnectionResetError: [Errno 104] Connection reset by peer")
    story.put(
        story.err(rank), early + 1, f"{story.clock(early + 20, story.host_of(rank))} INFO goes on"
    )
    check(story, telling(make).changed(story, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", chiefly(ON_HOSTS[::6], ON_HOSTS[::2]), ids=lambda make: make.__name__
)
def test_another_zone(telling: Tell, tmp_path: Path, make: Callable[[], Story]) -> None:
    """One host that prints another zone's time does not change the verdict."""
    story = in_zone(make, -7)
    check(story, telling(make).changed(story, tmp_path))


def in_zone(make: Callable[[], Story], hours: int) -> Story:
    """The story, told with another clock on its first host."""
    import stories

    ordinary = stories.Story

    class Shifted(ordinary):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any, **settings: Any) -> None:
            super().__init__(*args, **settings)
            self.zones = {self.hosts[0]: 3600.0 * hours, **self.zones}

    stories.Story = Shifted  # type: ignore[misc]
    try:
        return make()
    finally:
        stories.Story = ordinary  # type: ignore[misc]


@pytest.mark.slow
@pytest.mark.parametrize("make", chiefly(FAILED[::8], FAILED[::2]), ids=lambda make: make.__name__)
def test_without_the_root(telling: Tell, make: Callable[[], Story]) -> None:
    """Where the lines that show the cause are missing, the verdict is less sure than before, and
    names no other root cause with high confidence."""
    story = make()
    assert telling(make).diagnosis.confidence is not None
    scans = [
        replace(s, hits=tuple(h for h in s.hits if not is_root(h.pattern, story)))
        for s in telling(make).scans
    ]
    without = diagnose(scans, RULES)
    if without.confidence is None or without.failures[0].first.rule.role in ("root", "death"):
        return  # another line tells of the same cause, or nothing is left
    assert LEVELS.index(without.confidence.level) < LEVELS.index("high")


def is_root(pattern: str, story: Story) -> bool:
    return pattern.partition(":")[2] in story.modes or (
        "python_error" in story.modes and pattern == "traceback"
    )


# --- the crash logs beside this checkout ----------------------------------------------------------


def shared_jobs() -> list[dict[str, Any]]:
    if not (SHARED / "truth.json").exists():
        return []
    jobs: list[dict[str, Any]] = json.loads((SHARED / "truth.json").read_text())
    return jobs


@pytest.fixture(scope="session")
def crash_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crash_logs")
    spec = importlib.util.spec_from_file_location("make", SHARED / "make.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["make"] = module
    spec.loader.exec_module(module)
    module.ROOT = str(folder)
    for scenario in module.SCENARIOS.values():
        scenario()
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("job", shared_jobs(), ids=lambda job: job["scenario"])
def test_crash_logs(crash_logs: Path, job: dict[str, Any]) -> None:
    """The cause and its place, of each of the jobs that are handed round with their truth."""
    found = diagnose(scan(crash_logs / job["scenario"]), RULES)
    roots = [failure for failure in found.failures if failure.role == "root"]
    if not job["root_mode"]:
        assert roots == []
        return
    accept, where = job["accept"], job["root_where"]
    assert roots[0].mode in accept["root_modes"]
    assert where["rank"] is None or roots[0].ranks == (where["rank"],)
    assert None in accept["hosts"] or roots[0].host in accept["hosts"]
