"""nsys and Ray's workers: by the agent, and by Ray's own plugin with its fix."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ray_cluster
from jobs import PROGRAMS, Job, rankdbg
from profilers import Nsight, needs_nsys
from ray_cluster import OTHER, RayCluster
from waiting import TEST_SECONDS, wait_for

pytestmark = [needs_nsys, pytest.mark.skipif(bool(ray_cluster.missing()), reason="needs Ray")]
# In namespaces of its own, as in a container: what is left there is killed when the driver ends.
INSIDE = 'ip link set lo up; "$@"; exit'
UNSHARE = ("unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")


@pytest.fixture
def short_path() -> Iterator[Path]:
    """Ray has sockets in there."""
    folder = Path(tempfile.mkdtemp(prefix="rd", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.extra
@pytest.mark.slow
@pytest.mark.timeout(2 * TEST_SECONDS)
def test_workers_under_nsys(short_path: Path, tmp_path: Path) -> None:
    """By the agent and by Ray's own plugin: they keep their interpreter. The report of a range of
    steps is there while the job goes on, one of a range that has not ended when the driver has;
    others run without."""
    python = short_path / "my python"
    python.write_text(f'#!/bin/sh\nMY_PYTHON=yes exec {sys.executable} "$@"\n')
    python.chmod(0o700)
    nsight = Nsight(tmp_path / "nsight")
    options = ("--nsys", "vllm*", "--nsys-steps", "2:3")
    words = [sys.executable, "-m", "rankdbg", "run", *options, "--", sys.executable]
    words += [str(PROGRAMS / "ray_nsight.py"), str(short_path / "ray"), shlex.quote(str(python))]
    with open(tmp_path / "stderr", "w") as told:
        process = subprocess.Popen(
            [*UNSHARE, "sh", "-c", INSIDE, "-", *words],
            env={**ray_environment(), **nsight.environment, "FAKE_NSYS_SLOW": "3"},
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=told,
            text=True,
        )
    assert process.stdout is not None
    try:
        answer = next((line for line in process.stdout if line.startswith("{")), "")
        assert answer, (tmp_path / "stderr").read_text()
        workers = json.loads(answer)
        check_workers(workers)
        first = f"vllm_generation_worker_2:3_{workers['named']['pid']}.nsys-rep"
        second = f"vllm by plugin_2:3_{workers['plugin']['pid']}.nsys-rep"
        wait_for(lambda: reports(short_path) == {first}, lambda: reports(short_path))
    finally:
        process.communicate(timeout=TEST_SECONDS)
    assert reports(short_path) == {first, second}


@pytest.mark.extra
@pytest.mark.slow
@pytest.mark.timeout(2 * TEST_SECONDS)
def test_driver_and_workers_under_nsys(short_path: Path, tmp_path: Path) -> None:
    """A pattern that fits the driver too, by NeMo RL's variables: the driver runs under nsys, and
    so do the workers of the Ray that it has started, each under one of its own."""
    nsight = Nsight(tmp_path / "nsight")
    words = [sys.executable, "-m", "rankdbg", "run", "--", sys.executable]
    words += [str(PROGRAMS / "ray_nsight_driver.py"), str(short_path / "ray")]
    asked = {"NRL_NSYS_WORKER_PATTERNS": "*", "NRL_NSYS_PROFILE_STEP_RANGE": "2:3"}
    asked["RANKDBG_NSYS_WAIT"] = "2"  # no step is made, and so there is no report to wait for
    result = subprocess.run(
        [*UNSHARE, "sh", "-c", INSIDE, "-", *words],
        env={**ray_environment(), **nsight.environment, **asked},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TEST_SECONDS,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    above = json.loads(result.stdout.splitlines()[-1])
    outputs = {who: [w for w in words if w.startswith("--output=")] for who, words in above.items()}
    ends = {who: [o.rpartition("/")[2] for o in found] for who, found in outputs.items()}
    assert ends == {
        "driver": ["ray_nsight_driver_2:3_%p"],
        "worker": ["vllm_generation_worker_2:3_%p"],
    }


def reports(folder: Path) -> set[str]:
    """Of the one session that was there."""
    found = folder.glob("ray/session_2*/logs/nsight/*.nsys-rep")
    return {path.name for path in found}


def check_workers(workers: dict[str, Any]) -> None:
    assert not any("nsys" in word for word in workers["other"]["above"])
    assert any("--output=" in word for word in workers["named"]["above"])
    assert any(word.endswith("/vllm by plugin_2:3_%p") for word in workers["plugin"]["above"])
    assert [workers[name]["mine"] for name in ("other", "named", "plugin")] == [None, "yes", "yes"]


def ray_environment() -> dict[str, str]:
    return {**os.environ, "RAY_AUTH_MODE": "disabled"}


# --- the fix ----------------------------------------------------------------------------------


@pytest.fixture
def ray_beside(tmp_path: Path) -> dict[str, str]:
    """The Ray that is here, as if it were installed elsewhere."""
    found = importlib.util.find_spec("ray")
    assert found is not None
    assert found.origin is not None
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "ray").symlink_to(Path(found.origin).parent)
    return {**ray_environment(), "PYTHONPATH": str(folder)}


def test_fix_is_shown_made_and_undone(ray_beside: dict[str, str]) -> None:
    """Made twice it is made once; the status says what there is, and by its number."""
    place = Path(ray_beside["PYTHONPATH"]) / "rankdbg_ray_fix.pth"
    status = rankdbg("ray-fix", "--status", env=ray_beside)
    assert status.returncode == 1
    assert status.stdout.endswith(f"runs nsys with `python`; it is not fixed\n  {place}\n")
    assert not place.exists()
    for _ in range(2):
        made = rankdbg("ray-fix", env=ray_beside)
        assert (made.returncode, made.stderr) == (0, "")
        assert made.stdout.endswith(f"it is fixed\n  {place}\n")
    told = json.loads(rankdbg("ray-fix", "--status", "--json", env=ray_beside).stdout)
    assert (told["schema"], told["needs_fix"], told["has_fix"]) == ("rankdbg.ray_fix/1", True, True)
    for _ in range(2):
        undone = rankdbg("ray-fix", "--undo", env=ray_beside)
        assert (undone.returncode, undone.stderr) == (0, "")
    assert list(place.parent.iterdir()) == [place.parent / "ray"]


def test_fix_works_in_rays_agent_alone(ray_beside: dict[str, str]) -> None:
    """The line takes effect in Ray's runtime environment agent, and in no other Python."""
    assert rankdbg("ray-fix", env=ray_beside).returncode == 0
    code = (
        "import site, sys; site.addsitedir(sys.argv[1]);"
        "print('rankdbg.agent.nsys.ray_nsight' in sys.modules)"
    )
    folder = ray_beside["PYTHONPATH"]
    for script, fixed in ((f"{folder}/ray/_private/runtime_env/agent/main.py", True), ("x", False)):
        words = [sys.executable, "-c", code, folder, script]
        printed = subprocess.check_output(words, env={**ray_beside, "RANKDBG": "0"}, text=True)
        assert printed == f"{fixed}\n"


def test_fix_of_what_cannot_be_written(ray_beside: dict[str, str]) -> None:
    """Nothing is changed, and the way without is named."""
    folder = ray_beside["PYTHONPATH"]
    mount = f"mount --bind {folder} {folder} && mount -o remount,ro,bind {folder} && exec "
    command = shlex.join([sys.executable, "-m", "rankdbg", "ray-fix"])
    words = ["unshare", "--mount", "sh", "-c", mount + command]
    result = subprocess.run(words, env=ray_beside, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "rankdbg_ray_fix.pth: Read-only file system\n  hint: start Ray with" in result.stderr


def test_version_that_needs_no_fix(tmp_path: Path) -> None:
    """Is left alone."""
    plugin = tmp_path / "ray" / "_private" / "runtime_env" / "nsight.py"
    plugin.parent.mkdir(parents=True)
    (tmp_path / "ray" / "__init__.py").touch()
    plugin.write_text('context.py_executable = f"{command} {context.py_executable}"\n')
    result = rankdbg("ray-fix", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.endswith(" keeps the interpreter: nothing to fix\n")
    assert list(tmp_path.iterdir()) == [tmp_path / "ray"]


def test_fix_without_ray(tmp_path: Path) -> None:
    """One sentence, and where to call it."""
    words = [sys.executable, "-S", "-m", "rankdbg", "ray-fix"]
    source = str(Path(__file__).parents[2] / "src")
    environment = {"PYTHONPATH": source, "RANKDBG": "0"}
    result = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    said = (
        f"Ray is not installed for {sys.executable}\n  hint: install rankdbg in Ray's environment"
    )
    assert said in result.stderr


# --- two nodes --------------------------------------------------------------------------------


@pytest.mark.extra
@pytest.mark.slow
@pytest.mark.timeout(2 * TEST_SECONDS)
def test_report_on_another_node(job: Job, tmp_path: Path) -> None:
    """When the driver has ended it is there: the driver cannot see that node's processes, and so
    asks it."""
    nsight = Nsight(tmp_path / "nsight")
    options = ("--nsys", "vllm*")
    with RayCluster(apart=True) as cluster:
        words = [*cluster.enter(), sys.executable, PROGRAMS / "ray_nsight_there.py"]
        words += [cluster.address, OTHER]
        environment = {**nsight.environment, "FAKE_NSYS_SLOW": "6"}
        driver = job.start(*words, options=options, env=environment, cwd=cluster.scratch)
        output, _ = driver.communicate(timeout=TEST_SECONDS)
        found = {
            path.name: path.stat().st_size > 0  # it is empty until it is written
            for path in (cluster.scratch / OTHER).rglob("*.nsys-rep")
        }
    assert found == {f"vllm_worker_{int(output)}.nsys-rep": True}
