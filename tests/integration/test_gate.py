"""tests/gate.py, run for real on small folders of tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from waiting import PATIENCE

GATE = Path(__file__).parents[1] / "gate.py"
STEADY = "def test_steady(): pass\n"
FAILS = "def test_fails(): assert 1 == 2\n"
FAILS_FIRST = """
from pathlib import Path
def test_fails_first():
    seen = Path("seen")
    if not seen.exists():
        seen.touch()
        raise ValueError("no processor")
"""
CRASHES = "import os\ndef test_crashes(): os._exit(3)\ndef test_after(): pass\n"


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


class Gate:
    """A copy of it, with tests and a quarantine list of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "pytest.ini").write_text(
            "[pytest]\naddopts = -q -p xdist\nmarkers =\n  machine\n  extra\n"
        )
        shutil.copy(GATE, folder / "gate.py")
        self.quarantine = folder / "quarantine.txt"
        self.quarantine.touch()

    def run(self, *words: str, **files: str) -> tuple[int, str]:
        """The exit status, and what is printed from the closing lines on."""
        for name, text in files.items():
            (self._folder / f"test_{name}.py").write_text(text)
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
        # Each pytest would load plug-ins for longer than its tests take.
        inherited["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        result = subprocess.run(
            [sys.executable, "gate.py", "-p", "no:cacheprovider", *words],
            cwd=self._folder,
            env=inherited,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return result.returncode, result.stdout + result.stderr


def test_green(gate: Gate) -> None:
    """The last line counts tests, also those that were skipped."""
    skips = "import pytest\n@pytest.mark.skip\ndef test_skips(): pass\n"
    status, said = gate.run("-n", "2", steady=STEADY, skips=skips)
    assert (status, said.splitlines()[-1]) == (0, "1 passed, 0 failed, 1 skipped")


def test_what_passes_alone_is_unsteady(gate: Gate) -> None:
    """It is named with the reason why it failed, and the run is green."""
    status, said = gate.run("-n", "2", steady=STEADY, once=FAILS_FIRST)
    assert status == 0
    closing = said.splitlines()[-4:]
    assert closing[:2] == ["unsteady: 1", "  test_once.py::test_fails_first"]
    assert closing[2:] == ["    ValueError: no processor", "2 passed, 0 failed, 0 skipped"]


def test_what_fails_twice_is_red(gate: Gate) -> None:
    """And what passed before is not run again."""
    counts = "def test_counts(): open('count', 'a').write('x')\n"
    status, said = gate.run("-n", "2", fails=FAILS, counts=counts)
    assert (status, said.splitlines()[-1]) == (1, "1 passed, 1 failed, 0 skipped")
    assert "failed: 1\n  test_fails.py::test_fails\n    assert 1 == 2" in said
    assert (gate.quarantine.parent / "count").read_text() == "x"


def test_those_of_the_machine_have_no_worker(gate: Gate) -> None:
    """They are counted with the others, and decide as they do."""
    machine = (
        "import os, pytest\n"
        "@pytest.mark.machine\ndef test_alone(): assert 'PYTEST_XDIST_WORKER' not in os.environ\n"
        "@pytest.mark.machine\ndef test_fails(): assert 1 == 2\n"
        "def test_beside(): assert 'PYTEST_XDIST_WORKER' in os.environ\n"
    )
    status, said = gate.run("-n", "2", machine=machine)
    assert (status, said.splitlines()[-1]) == (1, "2 passed, 1 failed, 0 skipped")


def test_extra_tests_are_run_with_all(gate: Gate) -> None:
    """Without it they are left out, and may be in the quarantine."""
    extra = "import pytest\n@pytest.mark.extra\ndef test_extra(): pass\n"
    gate.quarantine.write_text("# 2026-11-18 a race\ntest_extra.py::test_extra\n")
    status, said = gate.run("-n", "0", steady=STEADY, extra=extra)
    assert (status, said.splitlines()[-1]) == (0, "1 passed, 0 failed, 0 skipped")
    status, said = gate.run("--all", "-n", "0")
    assert (status, said.splitlines()[-1]) == (0, "2 passed, 0 failed, 0 skipped")


def test_no_test_at_all_is_red(gate: Gate) -> None:
    status, said = gate.run("-n", "0", nothing="")
    assert (status, said.splitlines()[-1]) == (1, "0 passed, 0 failed, 0 skipped")


def test_odd_names_are_found_again(gate: Gate) -> None:
    """Parameters with blanks, brackets, colons and hashes."""
    odd = (
        "import pytest\nfrom pathlib import Path\n"
        "@pytest.mark.parametrize('x', ['a b', '[c]::d', '# e', '@f'])\n"
        "def test_odd(x):\n"
        "    with open('seen', 'a') as file: file.write('x')\n"
        "    assert len(Path('seen').read_text()) > 4\n"
    )
    status, said = gate.run("-n", "0", odd=odd)
    assert (status, said.splitlines()[-1]) == (0, "4 passed, 0 failed, 0 skipped")


def test_a_worker_that_crashes_is_red(gate: Gate) -> None:
    """Also where all that is run again would pass."""
    status, said = gate.run("-n", "1", crashes=CRASHES)
    assert status == 1
    assert "fault: crashed: worker gw0" in said
    assert "once more" not in said


def test_a_test_that_is_not_run_is_red(gate: Gate) -> None:
    """Whatever has dropped it."""
    drops = "def pytest_runtest_protocol(item):\n    return 'dropped' in item.name or None\n"
    (gate.quarantine.parent / "conftest.py").write_text(drops)
    status, said = gate.run("-n", "0", steady=STEADY, more="def test_dropped(): pass\n")
    assert status == 1
    assert "fault: collected and not run: 1 tests, test_more.py::test_dropped the first" in said


def test_an_import_that_fails_is_red(gate: Gate) -> None:
    """pytest ran nothing of it."""
    status, said = gate.run("-n", "2", steady=STEADY, broken="import nothing_of_this_name\n")
    assert status == 1
    assert "fault: cannot be collected: test_broken.py" in said


def test_over_ten_are_not_run_again(gate: Gate) -> None:
    """That many are no accident."""
    many = "import pytest\n@pytest.mark.parametrize('n', range(11))\ndef test_many(n): assert 0\n"
    status, said = gate.run("-n", "0", many=many)
    assert (status, said.splitlines()[-1]) == (1, "0 passed, 11 failed, 0 skipped")
    assert "fault: over 10 tests failed: they were not run again" in said


def test_quarantine(gate: Gate) -> None:
    """A test in it runs, is reported and does not decide; one that has gone has to leave it."""
    gate.quarantine.write_text("# 2026-11-18 a race\ntest_fails.py::test_fails\n")
    status, said = gate.run("-n", "0", steady=STEADY, fails=FAILS)
    assert (status, said.splitlines()[-1]) == (0, "1 passed, 0 failed, 0 skipped")
    assert "quarantined: 1\n  test_fails.py::test_fails\n    assert 1 == 2" in said
    assert "(since 2026-11-18 a race)" in said
    status, said = gate.run("--all", "-n", "0", fails=STEADY)
    assert status == 1
    assert "fault: quarantine.txt: there is no test test_fails.py::test_fails" in said


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("test_a.py::test_a\n", "line 1: expected '# YYYY-MM-DD reason' above test_a.py::test_a"),
        ("# soon\ntest_a.py::test_a\n", "line 2: expected '# YYYY-MM-DD reason'"),
        ("# 2026-11-18\ntest_a.py::test_a\n", "line 2: expected '# YYYY-MM-DD reason'"),
        (
            "".join(f"# 2026-11-18 why\ntest_a.py::test_{n}\n" for n in range(11)),
            "11 tests: expected at most 10",
        ),
    ],
)
def test_a_quarantine_without_reasons(gate: Gate, text: str, why: str) -> None:
    """Nothing is run; the place is said."""
    gate.quarantine.write_text(text)
    status, said = gate.run(steady=STEADY)
    assert status == 2
    assert why in said
    assert "passed" not in said
