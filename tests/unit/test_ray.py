"""rankdbg.ray: a runtime environment with the agent, and how a head node is known."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rankdbg import ray
from rankdbg.agent.nsys import nsys_program, nsys_writers, under_nsys
from rankdbg.clusters import here
from rankdbg.node.logs import ray_sessions
from rankdbg.process import nsys_config


def test_variables_of_this_process_go_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """And RANKDBG=1; others do not, and what is given stays as it is."""
    monkeypatch.setenv("RANKDBG_JOB", "ppo")
    monkeypatch.setenv("RANKDBG_MESH", "dp=2")
    monkeypatch.setenv("RANKDBG", "0")
    given = {"pip": ["einops"], "env_vars": {"RANKDBG_JOB": "mine", "A": "b"}}
    made = ray.runtime_env(given)
    assert made["pip"] == ["einops"]
    wanted = {"RANKDBG": "1", "RANKDBG_JOB": "mine", "RANKDBG_MESH": "dp=2", "A": "b"}
    assert {name: made["env_vars"].get(name) for name in wanted} == wanted
    assert "HOME" not in made["env_vars"]
    assert given["env_vars"] == {"RANKDBG_JOB": "mine", "A": "b"}


def test_variables_about_one_process_stay_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a driver under nsys has in its environment about itself is nothing to its workers."""
    for name in nsys_config.OF_ONE_PROCESS:
        monkeypatch.setenv(name, "4711")
    monkeypatch.setenv("RANKDBG_NSYS_WAIT", "60")
    assert names_of(ray.runtime_env()) == {"RANKDBG_NSYS_WAIT": "60"}


def test_which_variables_are_about_one_process() -> None:
    """All that rankdbg itself sets in ranks and nodes, as the reference has them."""
    text = (Path(__file__).parents[2] / "docs/reference/environment.md").read_text()
    rows = [line for line in text.splitlines() if "set by rankdbg itself" in line]
    documented = {name for row in rows for name in re.findall(r"`(RANKDBG_\w+)`", row)}
    assert {*nsys_config.OF_ONE_PROCESS} == documented | {under_nsys.NAME}
    ours = {under_nsys.PROFILED, under_nsys.REPORT, under_nsys.REPORTED, under_nsys.NAME}
    ours |= {nsys_writers.WORKER, nsys_program.TURN, ray_sessions.RAYLET}
    assert ours <= {*nsys_config.OF_ONE_PROCESS}


def names_of(made: dict[str, Any]) -> dict[str, str]:
    return {key: value for key, value in made["env_vars"].items() if "NSYS" in key}


def test_named_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets its name if a pattern fits that, also one of NeMo RL's; others get none."""
    monkeypatch.setenv("NRL_NSYS_WORKER_PATTERNS", "*policy*,vllm*")
    monkeypatch.setenv("NRL_NSYS_PROFILE_STEP_RANGE", "3:7")
    assert names_of(ray.runtime_env(name="vllm_generation_worker")) == {
        "RANKDBG_NSYS_NAME": "vllm_generation_worker",
        "RANKDBG_NSYS_WORKERS": "*policy*,vllm*",
        "RANKDBG_NSYS_STEPS": "3:7",
        "RANKDBG_NSYS_OPTIONS": "",
    }
    assert names_of(ray.runtime_env(name="reward_model")) == {}
    given = {"nsight": "default"}
    assert names_of(ray.runtime_env(given, name="vllm_generation_worker")) == {}


def test_named_worker_of_rays_own_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    """What NeMo RL gives it, where the user does not say otherwise."""
    monkeypatch.setenv("RANKDBG_NSYS_WORKERS", "*policy*")
    monkeypatch.setenv("RANKDBG_NSYS_STEPS", "3:7")
    monkeypatch.setenv("RANKDBG_NSYS_OPTIONS", '{"t": "cuda"}')
    made = ray.runtime_env(name="dtensor_policy_worker", plugin=True)
    assert "RANKDBG_NSYS_NAME" not in made["env_vars"]
    assert made["nsight"] == {
        "o": "'dtensor_policy_worker_3:7_%p'",
        "trace": "cuda",
        "sample": "none",
        "stop-on-exit": "true",
        "force-overwrite": "true",
        "capture-range": "cudaProfilerApi",
        "capture-range-end": "stop",
        "cuda-graph-trace": "node",
    }


def test_no_worker_fits() -> None:
    """Said when the driver ends, with the names that there were."""
    code = (
        "import rankdbg.ray; rankdbg.ray.runtime_env(name='b'); rankdbg.ray.runtime_env(name='a')"
    )
    environment = {**os.environ, "RANKDBG": "0", "RANKDBG_NSYS_WORKERS": "polcy, x*"}
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == (
        "rankdbg: nothing was profiled: no worker matches polcy, x*; the workers were: a, b\n"
    )


def test_the_agent_is_found_where_it_is_not_installed(tmp_path: Path) -> None:
    """Then its folder comes before the PYTHONPATH that workers have anyway."""
    source = Path(ray.__file__).parents[1]
    code = "import rankdbg.ray; print(rankdbg.ray.runtime_env()['env_vars']['PYTHONPATH'])"
    words = [sys.executable, "-S", "-c", code]
    environment = {"PYTHONPATH": str(source), "RANKDBG": "0"}
    found = subprocess.check_output(words, env=environment, text=True, cwd=tmp_path).strip()
    assert found == f"{source}/rankdbg/agent/bootstrap:${{PYTHONPATH}}"


def test_head_node(tmp_path: Path) -> None:
    """The cluster that `ray start` has noted, if it is on this machine and listens."""
    environment = {"PATH": os.environ["PATH"], "RAY_TMPDIR": str(tmp_path)}
    note = tmp_path / "ray" / "ray_current_cluster"
    note.parent.mkdir()
    assert here.find_target(environment) is None
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        note.write_text(f"127.0.0.1:{port}")
        found = here.find_target(environment)
        note.write_text(f"192.0.2.1:{port}")  # of another machine
        assert here.find_target(environment) is None
    note.write_text(f"127.0.0.1:{port}")
    assert here.find_target(environment) is None
    pytest.importorskip("ray", reason="needs Ray")
    assert found == ("ray:auto", "on its head node")


def test_address_in_the_environment() -> None:
    """RAY_ADDRESS is the target, unless it is one for submitting jobs or for Ray Client."""
    pytest.importorskip("ray", reason="needs Ray")
    environment = {"PATH": os.environ["PATH"], "RAY_TMPDIR": "/nowhere"}
    named = here.find_target({**environment, "RAY_ADDRESS": "10.0.0.1:6379"})
    assert named == ("ray:10.0.0.1:6379", "from RAY_ADDRESS")
    for other in ("http://10.0.0.1:8265", "ray://10.0.0.1:10001"):
        assert here.find_target({**environment, "RAY_ADDRESS": other}) is None
