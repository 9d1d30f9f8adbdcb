"""A kernel that never ends on a real GPU: cuda-gdb, NVML and py-spy tell the same story."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs import PROGRAMS, Job, meeting
from rankdbg.node.machine import nccl_ras, processes
from rankdbg.node.machine.gpus import Gpus
from rankdbg.node.probes import attaching, cudagdb, pyspy
from rankdbg.session import Session
from rankdbg.verdicts.hangs.gpu_signs import signs, used_by
from rankdbg.wire.decoding import decode
from rankdbg.wire.node_answers import GpuFigures, NcclState
from waiting import PATIENCE, wait_for

HERE = Gpus().look(time.monotonic() + 10)

pytestmark = [
    pytest.mark.skipif(not HERE["gpus"], reason=f"no GPU on this machine: {HERE['why']}"),
    pytest.mark.slow,
]
with_cudagdb = pytest.mark.skipif(cudagdb.executable() is None, reason="no cuda-gdb here")


class Stuck:
    """programs/stuck_kernel.py, as soon as its kernel runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid

    def wait_until_stuck(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "stuck\n"

    def is_alive(self) -> bool:
        stat = processes.read_stat(self.pid)
        return stat is not None and stat.state in "RS"

    def tracer(self) -> int:
        return int(processes.status_field(self.pid, "TracerPid") or 0)

    def end(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=PATIENCE)


@pytest.fixture(scope="module")
def stuck() -> Iterator[Stuck]:
    words = [sys.executable, str(PROGRAMS / "stuck_kernel.py")]
    stuck = Stuck(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
    try:
        stuck.wait_until_stuck()
        yield stuck
    finally:
        stuck.end()


def look_with_cudagdb(pid: int) -> Any:
    assert cudagdb.available(pid) is None
    return cudagdb.probe(pid, seconds=PATIENCE, all_threads=False, with_locals=False)


def gpu_of(pid: int) -> Any:
    """The one GPU on which this process computes, as soon as its use of the last second is
    that of the kernel."""

    def look() -> Any:
        told = decode(GpuFigures, Gpus().look(time.monotonic() + 5))
        found = used_by(pid, told.gpus)
        return found[0] if found and (found[0].utilization or 0) >= 99 else None

    return wait_for(look, "full use")


@with_cudagdb
def test_cuda_gdb_names_the_kernel_and_the_process_lives_on(stuck: Stuck) -> None:
    """Its name, grid and block, the call of CUDA and the line of Python that wait for it; and
    afterwards nobody traces the process, it runs, and can be looked at again."""
    for _ in range(3):
        seen = look_with_cudagdb(stuck.pid)
        (kernel,) = seen["kernels"]
        assert kernel["name"] == "at::cuda::spin_kernel"
        assert (kernel["grid"], kernel["block"]) == ((1, 1, 1), (1, 1, 1))
        assert (kernel["sms"], kernel["state"]) == (1, "active")
        functions = [frame[0] for frame in seen["threads"][0]["frames"]]
        assert any(function.startswith("cuda") for function in functions), functions
        assert "wait_for_the_gpu" in functions
        assert attaching.refusal(stuck.pid) is None
        assert stuck.is_alive()


@with_cudagdb
def test_node_killed_while_cuda_gdb_attaches(stuck: Stuck) -> None:
    """At whatever moment: the process runs on, and the next look sees the same kernel. (cuda-gdb
    that is killed then takes the process with it.)"""
    program = (
        "import sys; from rankdbg.node.probes.cudagdb import probe;"
        "probe(int(sys.argv[1]), seconds=60, all_threads=False, with_locals=False)"
    )
    for moment in range(10):
        node = subprocess.Popen([sys.executable, "-c", program, str(stuck.pid)])
        wait_for(stuck.tracer, "cuda-gdb")
        with contextlib.suppress(subprocess.TimeoutExpired):
            node.wait(timeout=moment * 0.05)
        node.kill()
        node.wait()
        wait_for(lambda: not stuck.tracer(), "the end of cuda-gdb")
        assert wait_for(lambda: attaching.refusal(stuck.pid) is None, "left alone")
        assert stuck.is_alive()
    assert look_with_cudagdb(stuck.pid)["kernels"][0]["name"] == "at::cuda::spin_kernel"


def test_nvml_sees_full_use_at_little_power(stuck: Stuck) -> None:
    """The sign of a kernel that waits; and the process is named as the one that computes."""
    gpu = gpu_of(stuck.pid)
    assert [sign.name for sign in signs(gpu)] == ["spinning"], gpu
    assert gpu.name and gpu.uuid.startswith("GPU-")
    assert gpu.memory_total > gpu.memory_used > 0


def test_pyspy_shows_where_the_host_waits(stuck: Stuck) -> None:
    """The line that asked for the result."""
    seen = pyspy.probe(stuck.pid, seconds=PATIENCE, all_threads=False, with_locals=False)
    assert seen["threads"][0]["frames"][0][0] == "wait_for_the_gpu"


@pytest.mark.skipif(not Path("/usr/bin/unshare").exists(), reason="no unshare here")
def test_pids_are_those_of_the_container() -> None:
    """In a PID namespace of its own NVML's numbers are the ones that are valid there, or none."""
    look = (
        "import json, time; from rankdbg.node.machine.gpus import Gpus;"
        "print(json.dumps(Gpus().look(time.monotonic() + 5)))"
    )
    script = f"""
        {sys.executable} {PROGRAMS / "stuck_kernel.py"} > "$0" & kernel=$!
        until grep -q stuck "$0"; do kill -0 $kernel || exit 1; done
        {sys.executable} -c '{look}'; echo $kernel; kill $kernel
    """
    with tempfile.NamedTemporaryFile() as said:
        words = ["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", script, said.name]
        ran = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if "ermitted" in ran.stderr:
        pytest.skip("no PID namespaces for this user")
    answer, pid = json.loads(ran.stdout.splitlines()[0]), int(ran.stdout.splitlines()[1])
    named = [entry["pid"] for gpu in answer["gpus"] for entry in gpu["processes"]]
    assert answer["pids"] or pid in named


def test_session_has_the_gpus_of_each_node_and_saves_them(job: Job, tmp_path: Path) -> None:
    """One answer a node, live and from a snapshot."""
    job.start_ranks("waits")
    ranks = job.wait_for(lambda ranks: len(ranks) == 1)
    with job.session() as session:
        live = session.gpus()
        session.collect_all(ranks)
        session.save(tmp_path / "saved")
    (answer,) = live.values()
    assert isinstance(answer, GpuFigures)
    assert answer.gpus[0].uuid

    with Session(f"snapshot:{tmp_path / 'saved'}") as session:
        (saved,) = session.gpus().values()
    assert isinstance(saved, GpuFigures)
    assert saved.gpus[0].uuid == answer.gpus[0].uuid


def test_stuck_kernel_before_a_collective(job: Job) -> None:
    """The flight recorder has the collective as entered and not finished."""
    process = job.start(sys.executable, PROGRAMS / "stuck_kernel.py", "nccl")
    while process.stdout.readline() not in ("stuck\n", ""):
        pass
    found = wait_for(
        lambda: (seen := job.json("collectives")) and seen["state"] == "held up" and seen,
        "held up",
    )
    assert found["culprit"] == "0"
    assert found["culprits"][0]["entered"]["operation"] == "all_reduce"


def test_process_behind_a_stuck_kernel_obeys_sigterm(stuck: Stuck) -> None:
    """Last, since it ends it: whatever was done to it, it reacts as it would have."""
    stuck.process.send_signal(signal.SIGTERM)
    assert stuck.process.wait(timeout=PATIENCE) == -signal.SIGTERM


def test_why_names_the_kernel(tmp_path: Path) -> None:
    """The verdict rests on the GPU's figures and on where the host waits."""
    job = Job("stuck-kernel", tmp_path)
    try:
        process = job.start(sys.executable, PROGRAMS / "stuck_kernel.py")
        assert process.stdout.readline() == "stuck\n"
        for options in ((), ("--outside",)):
            verdict = job.json("why", *options)
            assert verdict["stuck"] is True, verdict
            assert (verdict["culprit"], verdict["cause"]) == ("0", "kernel-never-ends")
            assert any("does little" in text for text in verdict["evidence"]), verdict
            assert (
                "spin_kernel (grid 1x1x1, block 1x1x1) does not end"
                in verdict["findings"][0]["says"]
            ), verdict
    finally:
        job.end()


@pytest.mark.parametrize("how", ["stop", "go"])
def test_stop_holds_the_timeout_of_nccl(job: Job, how: str) -> None:
    """A collective that begins while a thread is stopped may last longer than its group's timeout;
    without a stop the watchdog of NCCL ends the job as ever."""
    process = job.start(sys.executable, PROGRAMS / "held_nccl.py", how)
    output, errors = process.communicate(timeout=PATIENCE)
    if how == "stop":
        assert (process.returncode, output) == (0, "survived\n"), errors
    else:
        assert process.returncode != 0
        assert "Watchdog caught collective operation timeout" in errors


def test_nccl_tells_what_it_has_counted(job: Job) -> None:
    """From outside, through NCCL's own thread: rank 1 has launched one operation less."""
    launcher, program = PROGRAMS / "launch.py", PROGRAMS / "nccl_counts.py"
    process = job.start(sys.executable, launcher, 2, program, env=meeting())
    assert [process.stdout.readline() for _ in range(2)] == ["reduced\n"] * 2
    job.wait_at("<module>", "wait_for_input_files", patience=PATIENCE)
    ranks = job.ranks()
    found = nccl_ras.ask([rank.pid for rank in ranks], time.monotonic() + 10)
    ((_, told),) = found.items()
    (communicator,) = decode(NcclState, {"communicators": told}).communicators
    assert communicator.size == 2
    counted = {each.pid: each.launched["AllReduce"] for each in communicator.ranks}
    assert counted == {rank.pid: 4 - (rank.number or 0) for rank in ranks}
    verdict = job.json("why", "--outside")
    assert (verdict["stuck"], verdict["culprit"]) == (True, "1"), verdict
    assert any("all_reduce" in text for text in verdict["evidence"]), verdict
