"""python tests/gate.py [--all] [WORD...]: run the tests, then those that failed once more, alone.

Without --all, tests marked `extra` are left out. The words (files, options) go to pytest in the
first run; tests marked `machine` are run after the others, without workers, which are in corners of
their own. A test that passes when it is run alone is unsteady, not red: it is named at the end, with
the reason why it failed. Tests in quarantine.txt run and are reported, and do not decide. It is red
all the same if more than ten tests failed, if a worker crashed, or if a test could not be collected
or was not run. Exit status: 0 green, 1 red, 2 the quarantine list is invalid.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

UNSTEADY_LIMIT = 10
NO_TESTS = 5  # pytest's exit status
QUARANTINE_LIMIT = 10
QUARANTINE = Path(__file__).with_name("quarantine.txt")


@dataclass
class Outcomes:
    """What became of each test in one run of pytest."""

    collected: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # and why
    broken: list[str] = field(default_factory=list)  # files that cannot be collected
    crashed: list[str] = field(default_factory=list)  # workers
    status: int = 0  # of pytest

    def with_those_of(self, other: Outcomes) -> Outcomes:
        """Of two runs of different tests, of which one may have had none to run."""
        statuses = {self.status, other.status}
        return Outcomes(
            self.collected + other.collected,
            self.ended + other.ended,
            self.skipped + other.skipped,
            self.failed | other.failed,
            self.broken + other.broken,
            self.crashed + other.crashed,
            max(statuses - {NO_TESTS}, default=NO_TESTS),
        )

    def passed(self) -> set[str]:
        return {*self.ended} - {*self.failed} - {*self.skipped}

    def faults(self) -> list[str]:
        """What is wrong with the run itself, whatever the tests said."""
        faults = [f"cannot be collected: {each}" for each in sorted({*self.broken})]
        faults += [f"crashed: {each}" for each in self.crashed]
        # When a worker crashes, xdist may drop the rest of its file without a word.
        lost = sorted({*self.collected} - {*self.ended} - {*self.failed})
        if lost:
            faults.append(f"collected and not run: {len(lost)} tests, {lost[0]} the first")
        if self.status not in (0, 1):
            faults.append(f"pytest was interrupted (exit status {self.status})")
        return faults


class Recorder:
    """A plug-in for the pytest that the workers report to."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seen = Outcomes()

    def pytest_collection_finish(self, session: Any) -> None:
        """Without workers; where there are some, this process collects nothing."""
        self._seen.collected = [item.nodeid for item in session.items]

    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._seen.collected = sorted({*self._seen.collected, *ids})

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._seen.broken.append(report.nodeid)

    def pytest_testnodedown(self, node: Any, error: object) -> None:
        if error:
            self._seen.crashed.append(f"worker {node.gateway.id} ({error})")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self._seen.failed.setdefault(report.nodeid, _reason(report))
        elif report.skipped:
            self._seen.skipped.append(report.nodeid)
        if report.when == "teardown":
            self._seen.ended.append(report.nodeid)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self._seen.status = int(exitstatus)
        self._file.write_text(json.dumps(asdict(self._seen)))


def _reason(report: Any) -> str:
    """The line that says why a test failed."""
    if crash := getattr(report.longrepr, "reprcrash", None):
        return next(iter(crash.message.splitlines()), "")
    return next(reversed(report.longreprtext.strip().splitlines()), "")


def record(file: Path, words: list[str]) -> int:
    import pytest

    return pytest.main(words, plugins=[Recorder(file)])


def run(words: Iterable[str]) -> Outcomes:
    """In a process of its own: it may crash."""
    with tempfile.TemporaryDirectory(prefix="rankdbg-gate-") as folder:
        file = Path(folder, "outcomes.json")
        ended = subprocess.run([sys.executable, __file__, "--record", file, *words])
        if not file.exists():
            return Outcomes(crashed=[f"pytest (exit status {ended.returncode})"])
        return Outcomes(**json.loads(file.read_text()))


def run_tier(words: list[str], everything: bool) -> Outcomes:
    """Tests that need the whole machine after those that do not."""
    also = "" if everything else " and not extra"
    outcomes = run([*words, "-m", f"not machine{also}"])
    given = [word for word in words if Path(word.partition("::")[0]).exists()]
    files = [[]] if given else [[file] for file in files_with("mark.machine")]
    if files:
        with ThreadPoolExecutor() as beside:  # they wait more than they compute
            alone = [[*words, *file, "-n", "0", "-m", f"machine{also}"] for file in files]
            for of_machine in beside.map(run, alone):
                outcomes = outcomes.with_those_of(of_machine)
    return outcomes


def files_with(text: str) -> list[str]:
    """The files that may have tests with this mark: to collect all takes ten seconds."""
    files = sorted(Path(__file__).parent.rglob("test_*.py"))
    return [str(path) for path in files if text in path.read_text("utf-8")]


def run_alone(ids: Iterable[str]) -> Outcomes:
    """Each by its name: without a recorded failure `pytest --last-failed` runs everything."""
    with tempfile.NamedTemporaryFile("w", prefix="rankdbg-gate-") as file:
        file.writelines(f"{each}\n" for each in ids)
        file.flush()
        return run(["-n", "0", f"@{file.name}"])


class BadQuarantine(ValueError):
    """What is wrong with the list, and where."""


def read_quarantine(text: str) -> dict[str, str]:
    """The tests, and why they are in the list: above each id a line '# YYYY-MM-DD reason'."""
    tests: dict[str, str] = {}
    above = ""
    for number, line in enumerate(text.splitlines(), 1):
        if line and not line.startswith("#"):
            noted = re.fullmatch(r"# (20\d\d-[01]\d-[0-3]\d \S.*)", above)
            if not noted:
                raise BadQuarantine(f"line {number}: expected '# YYYY-MM-DD reason' above {line}")
            tests[line] = noted[1]
        above = line
    if len(tests) > QUARANTINE_LIMIT:
        raise BadQuarantine(f"{len(tests)} tests: expected at most {QUARANTINE_LIMIT}")
    return tests


@dataclass(frozen=True)
class Verdict:
    quarantine: dict[str, str]
    everything: bool  # no test was left out
    first: Outcomes
    second: Outcomes | None = None

    def deciding(self) -> dict[str, str]:
        """The tests that failed in the first run and are not in quarantine, and why."""
        return {each: why for each, why in self.first.failed.items() if each not in self.quarantine}

    def unsteady(self) -> dict[str, str]:
        passed = self.second.passed() if self.second else ()
        return {each: why for each, why in self.deciding().items() if each in passed}

    def red(self) -> dict[str, str]:
        return {each: why for each, why in self.deciding().items() if each not in self.unsteady()}

    def faults(self) -> list[str]:
        faults = self.first.faults() + (self.second.faults() if self.second else [])
        if len(self.deciding()) > UNSTEADY_LIMIT:
            faults.append(f"over {UNSTEADY_LIMIT} tests failed: they were not run again")
        return faults + [f"{QUARANTINE.name}: there is no test {each}" for each in self._gone()]

    def _gone(self) -> list[str]:
        """Those of the quarantine that none of the files has."""
        files = {each.partition("::")[0] for each in self.first.collected if self.everything}
        missing = {*self.quarantine} - {*self.first.collected}
        return sorted(each for each in missing if each.partition("::")[0] in files)

    def green(self) -> bool:
        return not (self.red() or self.faults())

    def lines(self) -> list[str]:
        """The last lines of the run, for people and for what counts tests."""
        failed = self.first.failed
        quarantined = {
            each: f"{failed.get(each, 'passed')} (since {why})"
            for each, why in self.quarantine.items()
            if each in self.first.collected
        }
        lines = [""]
        for title, tests in (
            ("failed", self.red()),
            ("unsteady", self.unsteady()),
            ("quarantined", quarantined),
        ):
            if tests:
                lines.append(f"{title}: {len(tests)}")
                lines += [f"  {each}\n    {why}" for each, why in tests.items()]
        lines += [f"fault: {each}" for each in self.faults()]
        passed = len(self.first.passed()) + len(self.unsteady())
        lines.append(
            f"{passed} passed, {len(self.red())} failed, {len(self.first.skipped)} skipped"
        )
        return lines


def main(words: list[str]) -> int:
    if words[:1] == ["--record"]:
        return record(Path(words[1]), words[2:])
    try:
        quarantine = read_quarantine(QUARANTINE.read_text())
    except BadQuarantine as error:
        print(f"{QUARANTINE}: {error}", file=sys.stderr)
        return 2
    everything = "--all" in words
    words = [word for word in words if word != "--all"]
    verdict = Verdict(quarantine, everything, run_tier(words, everything))
    failed = verdict.deciding()
    if failed and not verdict.faults():
        print(f"\n{len(failed)} failed: they are run once more, alone", flush=True)
        verdict = replace(verdict, second=run_alone(failed))
    print("\n".join(verdict.lines()), flush=True)
    return 0 if verdict.green() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
