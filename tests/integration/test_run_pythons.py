"""rankdbg run with Pythons of other environments, and with flags that keep the agent out."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from jobs import PROGRAMS, Job
from rankdbg.types import Rank
from rosters import all_wait

WAITING = PROGRAMS / "run_waiting.py"
BASE = str(Path(sys.base_prefix, "bin", "python3"))
PYENV = sorted(Path("~/.pyenv/versions").expanduser().glob("3.1[0-9].*/bin/python"))


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a virtual environment without rankdbg, and without pip."""
    home = tmp_path_factory.mktemp("bare")
    subprocess.run([BASE, "-m", "venv", "--without-pip", home], check=True)
    return home / "bin" / "python"


def line_of(job: Job, *command: object) -> str:
    result = job.cli("run", "--", *command)
    assert result.returncode == 0
    (line,) = result.stderr.splitlines()
    return line


def has_agent(ranks: Sequence[Rank]) -> bool:
    return all_wait(1)(ranks) and ranks[0].agent and ranks[0].state == "running"


# --- flags --------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", ["-S", "-uS", "-IS"])
def test_without_site(job: Job, flag: str) -> None:
    """With -S run says why there is no agent, also where rankdbg is installed."""
    line = line_of(job, sys.executable, flag, "-c", "pass")
    assert line == (
        f"rankdbg: job {job.name} has no agent (python was started with -S: no site module, "
        "so nothing can start the agent); rankdbg stacks reads it from outside"
    )


@pytest.mark.parametrize("flag", ["-I", "-E"])
def test_isolated(job: Job, bare: Path, flag: str) -> None:
    """With -I and -E there is an agent only where rankdbg is installed, and run says so."""
    reason = f"python was started with {flag}, and its environment has no rankdbg installed"
    assert f"has no agent ({reason})" in line_of(job, bare, flag, "-c", "pass")
    assert "look at it with" in line_of(job, sys.executable, flag, "-c", "pass")


def test_isolated_with_rankdbg(job: Job) -> None:
    """An isolated Python of an environment with rankdbg has an agent."""
    job.start(sys.executable, "-I", WAITING)
    job.wait_for(has_agent)


@pytest.mark.parametrize("flag", ["-S", "-I", "-E"])
def test_seen_from_outside(job: Job, bare: Path, flag: str) -> None:
    """A Python whose flags keep the agent out is listed with the reason, and its stack seen."""
    job.start(bare, flag, WAITING)
    job.wait_for(all_wait(1))
    (row,) = job.json("ps")["ranks"]
    assert (row["rank"], row["state"]) == (0, "no agent")
    assert row["detail"].startswith(f"python was started with {flag}")
    (group,) = job.json("stacks")["groups"]
    assert "waits" in [frame["function"] for frame in group["frames"]]


def test_flags_in_a_script(job: Job, tmp_path: Path) -> None:
    """Where a script starts python -S, run cannot know; ps says it."""
    script = tmp_path / "start.sh"
    script.write_text(f"#!/bin/sh\n{sys.executable} -S {WAITING}\n")
    script.chmod(0o755)
    process = job.start(script)
    job.wait_for(all_wait(1))
    (row,) = job.json("ps")["ranks"]
    assert row["state"] == "no agent"
    assert row["detail"].startswith("python was started with -S")
    process.kill()


# --- environments -------------------------------------------------------------------------


def test_venv_without_rankdbg(job: Job, bare: Path) -> None:
    """A Python of an environment without rankdbg has an agent."""
    job.start(bare, WAITING)
    job.wait_for(has_agent)


def test_nothing_else_is_lent(job: Job, bare: Path) -> None:
    """That Python finds no other package of rankdbg's environment, and no path of it."""
    code = "import sys, importlib.util as u; print(u.find_spec('pytest'), *sys.path)"
    result = job.cli("run", "--", bare, "-c", code)
    missing, *path = result.stdout.split()
    assert missing == "None"
    assert not any("rankdbg" in entry or "main/src" in entry for entry in path)


def test_its_own_sitecustomize(job: Job, bare: Path) -> None:
    """An environment's own sitecustomize runs too, and is the one that programs import."""
    (packages,) = bare.parent.parent.glob("lib/python*/site-packages")
    own = packages / "sitecustomize.py"
    own.write_text("import builtins; builtins.customized = __file__\n")
    code = "import rankdbg, sitecustomize; print(customized, sitecustomize.__file__)"
    result = job.cli("run", "--", bare, "-c", code)
    own.unlink()
    assert result.stdout.split() == [str(own), str(own)]


def test_sitecustomize_on_the_path(job: Job, bare: Path, tmp_path: Path) -> None:
    """So does one in a folder of PYTHONPATH."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os; 'RANKDBG_JOB' in os.environ and print('customized')\n"
    )
    result = job.cli("run", "--", bare, "-c", "pass", env={"PYTHONPATH": str(tmp_path)})
    assert result.stdout == "customized\n"


@pytest.mark.parametrize("python", PYENV, ids=lambda path: path.parent.parent.name)
def test_other_versions(job: Job, python: Path) -> None:
    """Pythons of other versions than rankdbg's own have agents."""
    job.start(python, WAITING)
    (rank,) = job.wait_for(has_agent)
    assert rank.python == python.parent.parent.name


def test_older_python(job: Job) -> None:
    """A Python older than 3.10 runs as ever; one line says why it has no agent."""
    found = sorted(Path("~/.pyenv/versions").expanduser().glob("3.[6-9].*/bin/python"))
    if not found:
        pytest.skip("there is no Python from 3.6 to 3.9 here")
    result = job.cli("run", "--", found[0], "-c", "print(1)")
    assert result.stdout == "1\n"
    assert len(result.stderr.splitlines()) == 2
    assert "is older than 3.10" in result.stderr


UV = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
needs_uv = pytest.mark.skipif(UV is None, reason="needs uv")


@needs_uv
def test_uv_run(job: Job) -> None:
    """The Python that `uv run` starts is the rank."""
    job.start(UV, "run", "--offline", "--no-project", "--python", BASE, WAITING)
    (rank,) = job.wait_for(has_agent)
    assert rank.number == 0


@needs_uv
def test_uv_venv(job: Job, tmp_path: Path) -> None:
    """The Python of an environment that uv made has an agent."""
    subprocess.run([UV, "venv", "-q", "--offline", "--python", BASE, tmp_path / "v"], check=True)
    job.start(tmp_path / "v" / "bin" / "python", WAITING)
    job.wait_for(has_agent)
