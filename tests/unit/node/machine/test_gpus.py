"""What NVML says, and that a driver that does not answer holds nobody up.

The library is tests/fakes/nvml.c; tests/integration/test_gpu.py asks a real one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fake_nvml import build_fake_nvml
from rankdbg.node.machine import gpus
from rankdbg.node.machine.gpus import UNKNOWN_PIDS, Gpus
from waiting import PATIENCE


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_fake_nvml(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def nvml(library: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Call it with the variables of the fake, and have what the node says."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))

    def look(**variables: object) -> Any:
        for name, value in variables.items():
            monkeypatch.setenv(f"FAKE_NVML_{name}", str(value))
        return Gpus().look(time.monotonic() + 60)

    return look


def test_every_gpu_with_its_figures(nvml: Any) -> None:
    """Watts, MHz, bytes and words; None for what a GPU does not tell."""
    answer = nvml()
    assert [gpu["index"] for gpu in answer["gpus"]] == [0, 1, 2]
    assert (answer["driver"], answer["why"], answer["pids"]) == ("580.159.04", "", "")
    assert answer["gpus"][2] == {
        "index": 2,
        "uuid": "GPU-2",
        "name": "Fake",
        "utilization": 20,
        "memory_used": 100,
        "memory_total": 1000,
        "power": 118.2,
        "power_limit": 700.0,
        "temperature": 40,
        "slowed_by": ["power limit", "heat, by the hardware"],
        "ecc_uncorrected": None,
        "clock": 100,
        "clock_limit": 1980,
        "memory_clock": 200,
        "processes": [],
    }


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty list, and the reason; or GPUs and none."""
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    answer = Gpus().look(time.monotonic() + 60)
    assert bool(answer["gpus"]) != bool(answer["why"])


def test_driver_that_refuses(nvml: Any) -> None:
    """In NVML's own words."""
    answer = nvml(INIT=18)
    assert (answer["gpus"], answer["why"]) == ([], "Driver/library version mismatch")


def test_gpu_that_hangs_is_named_and_those_before_it_are_told(nvml: Any) -> None:
    """Within the deadline, and what was said until then is not lost."""
    begun = time.monotonic()
    answer = nvml(HANGS=1)
    assert time.monotonic() - begun < gpus.SECONDS + PATIENCE
    assert [gpu["index"] for gpu in answer["gpus"]] == [0]
    assert answer["why"] == "NVML did not respond within 2 s about GPU 1"


def test_lost_gpu_is_told_beside_the_others(nvml: Any) -> None:
    """With the error in place of figures."""
    answer = nvml(LOST=1)
    assert answer["gpus"][1] == {"index": 1, "error": "GPU is lost", "processes": []}
    assert answer["gpus"][2]["utilization"] == 20


def test_nvml_that_crashes_takes_only_the_child_with_it(nvml: Any) -> None:
    """Which is said, with the GPU."""
    answer = nvml(DIES=2)
    assert len(answer["gpus"]) == 2
    assert answer["why"] == "NVML crashed the process that called it (signal 11) about GPU 2"


def test_wedged_driver_gets_no_second_child() -> None:
    """While one still hangs in it, the answer is that, at once; and when it has ended, another."""
    here = Gpus()
    with subprocess.Popen(["sleep", "60"]) as hanging:
        here._hanging = hanging  # as a child that SIGKILL does not end
        why = here.look(time.monotonic() + 60)["why"]
        hanging.kill()
    assert why == f"NVML still does not respond to process {hanging.pid}"
    assert here.look(time.monotonic() + 60)["why"] != why


# --- whose pids they are ------------------------------------------------------------------


@pytest.fixture
def device() -> Iterator[Path]:
    """A plain file with the name of a GPU."""
    device = Path(f"/dev/nvidia{os.getpid()}")
    try:
        device.touch()
    except OSError:
        pytest.skip("only root makes files in /dev")
    yield device
    device.unlink()


def test_process_called_by_the_number_of_a_thread(nvml: Any, device: Path) -> None:
    """It gets its own, and is there once."""
    program = (
        "import sys, threading; gpu = open(sys.argv[1]);"
        "threading.Thread(target=threading.Event().wait, daemon=True).start();"
        "print(threading.enumerate()[1].native_id, flush=True); threading.Event().wait()"
    )
    words = [sys.executable, "-c", program, str(device)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        thread = int(process.stdout.readline())
        assert thread != process.pid
        answer = nvml(PIDS=f"{thread},{process.pid}")
        process.kill()
    assert answer["pids"] == ""
    assert answer["gpus"][0]["processes"] == [{"pid": process.pid, "memory": 4096}]


def look_in_a_container(device: Path, pids: str) -> Any:
    """What a process says that has the GPU open and is number 1 of its PID namespace."""
    program = (
        "import json, sys, time; from rankdbg.node.machine.gpus import Gpus; gpu = open(sys.argv[1]);"
        "print(json.dumps(Gpus().look(time.monotonic() + 60)))"
    )
    words = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", program]
    ran = subprocess.run(
        [*words, str(device)],
        env={**os.environ, "FAKE_NVML_PIDS": pids},
        capture_output=True,
        text=True,
        check=False,
    )
    if "ermitted" in ran.stderr:
        pytest.skip("no PID namespaces for this user")
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_pids_that_a_driver_translates_are_ours(nvml: Any, device: Path) -> None:
    """In a container they are taken if all have a GPU open."""
    answer = look_in_a_container(device, "1")
    assert answer["pids"] == ""
    assert answer["gpus"][0]["processes"] == [{"pid": 1, "memory": 4096}]


def test_pids_of_the_host_are_left_out_in_a_container(nvml: Any, device: Path) -> None:
    """One that is none of ours puts all in doubt, also one that happens to fit."""
    answer = look_in_a_container(device, f"1,{2**22 + 1}")
    assert answer["pids"] == UNKNOWN_PIDS
    assert answer["gpus"][0]["processes"] == []


def test_process_without_a_gpu_is_a_chance_hit(nvml: Any) -> None:
    """It is there in the container, under the number that another has on the host."""
    assert look_in_a_container(Path("/dev/null"), "1")["pids"] == UNKNOWN_PIDS


def test_questions_at_the_same_time(nvml: Any) -> None:
    """Each has its own child."""
    answers: list[Any] = []
    here = Gpus()
    threads = [
        threading.Thread(target=lambda: answers.append(here.look(time.monotonic() + 60)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(answer["gpus"]) for answer in answers] == [3, 3, 3, 3]


def test_child_that_gets_no_turn_is_not_a_wedged_driver(tmp_path: Path) -> None:
    """Where it could not begin, NVML has not been asked."""
    mute = tmp_path / "mute.py"
    mute.write_text("import time; time.sleep(60)")
    answer = Gpus().look(time.monotonic() + 60, str(mute))
    assert answer["why"] == "the NVML process could not start within 2 s"
