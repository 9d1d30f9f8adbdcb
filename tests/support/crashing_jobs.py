"""Jobs that really crash, and what is true of each. Run as a program it records their logs anew:

    python tests/support/crashing_jobs.py [NAME ...]

The records are in tests/fixtures/crash_logs, without the names of the machine that made them."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from waiting import TEST_SECONDS, wait_for

TESTS = Path(__file__).parents[1]
RECORDS = TESTS / "fixtures/crash_logs"
RANK = TESTS / "programs/crashing_rank.py"
RANKS = 4
# What a shell does that starts ranks: the first one that fails ends the others.
SHELL = """
for rank in $(seq 0 {last}); do
  RANK=$rank {zone} {python} {program} {fault} $rank >> rank_$rank.log 2>&1 &
done
failed=0
for rank in $(seq 0 {last}); do
  wait -n || {{ failed=$?; break; }}
done
if [ $failed != 0 ]; then
  echo "a rank exited with $failed, ending the others"
  kill $(jobs -p) 2> /dev/null
fi
wait
exit $failed
"""


@dataclass(frozen=True)
class Job:
    """`modes`: those that are right; empty where nothing failed. `rank`: where, if it is known."""

    fault: str
    modes: tuple[str, ...]
    rank: int | None = 1
    launcher: str = "shell"
    zone: bool = False  # one rank prints another zone's time
    restarts: int = 0
    signal: int = 0  # that the launcher gets while the ranks train
    alone: bool = False  # torchrun's ranks do not talk with each other
    port_taken: bool = False  # the one at which the ranks are to meet


JOBS: dict[str, Job] = {
    "exception": Job("raise_error", ("python_error",)),
    "exception_in_another_zone": Job("raise_error", ("python_error",), zone=True),
    "exception_caught": Job("catch_an_error", (), None),
    "killed": Job("kill_itself", ("torchrun_child_sigkill",), None),
    "segfault": Job("crash_in_c", ("segfault",)),
    "abort": Job("abort", ("process_aborted",)),
    "bus_error": Job("touch_a_cut_file", ("shm_bus_error_dataloader",)),
    "memory_limit": Job("use_all_memory", ("host_oom_kernel", "python_error")),
    "file_limit": Job("open_all_files", ("file_descriptor_limit",)),
    "full_disk": Job("fill_the_disk", ("disk_full",)),
    "full_disk_behind_another": Job("chain_errors", ("disk_full",)),
    "missing_file": Job("read_a_missing_file", ("python_error",)),
    "cut_checkpoint": Job("read_a_cut_checkpoint", ("checkpoint_corrupt",)),
    "missing_module": Job("import_what_is_missing", ("import_failed",)),
    "port_in_use": Job("take_a_port_that_is_taken", ("port_in_use",)),
    "unknown_name": Job("resolve_an_unknown_name", ("python_error", "rendezvous_connect_timeout")),
    "gpu_memory": Job("run_out_of_gpu_memory", ("cuda_oom",)),
    "interrupted": Job("be_interrupted", ("interrupted",)),
    "loss_nan": Job("become_nan", ("nan_loss",)),
    "finished": Job("nothing", (), None),
    "torchrun_exception": Job("raise_error", ("python_error",), launcher="torchrun"),
    "torchrun_killed": Job("kill_itself", ("torchrun_child_sigkill",), launcher="torchrun"),
    "torchrun_segfault": Job("crash_in_c", ("segfault",), launcher="torchrun"),
    "torchrun_full_disk": Job("fill_the_disk", ("disk_full",), launcher="torchrun"),
    "torchrun_leaves_early": Job("leave_early", ("gloo_peer_closed",), launcher="torchrun"),
    "torchrun_hangs": Job("hang", ("gloo_timeout", "gloo_peer_closed"), launcher="torchrun"),
    "torchrun_other_shape": Job(
        "reduce_another_shape", ("collective_mismatch",), None, launcher="torchrun"
    ),
    "torchrun_small_disk": Job("fill_a_small_disk", ("disk_full",), launcher="torchrun"),
    "torchrun_restart_helps": Job(
        "fail_once", (), None, launcher="torchrun", restarts=2, alone=True
    ),
    "torchrun_restarts_in_vain": Job(
        "raise_error", ("python_error",), launcher="torchrun", restarts=2
    ),
    "torchrun_other_zone": Job("raise_error", ("python_error",), launcher="torchrun", zone=True),
    "torchrun_terminated": Job(
        "nothing", ("torchrun_sigterm_external",), None, launcher="torchrun", signal=signal.SIGTERM
    ),
    "torchrun_hung_up": Job(
        "nothing", ("torchrun_sighup",), None, launcher="torchrun", signal=signal.SIGHUP
    ),
    "torchrun_port_taken": Job(
        "nothing", ("port_in_use",), None, launcher="torchrun", port_taken=True
    ),
    "torchrun_finished": Job("nothing", (), None, launcher="torchrun"),
}


def run(job: Job, folder: Path) -> None:
    """Leaves the logs of the job in the folder."""
    env = {**os.environ, "BAD": "1", "TZ": "UTC", "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
    env |= {"STEPS": "3000"} if job.signal else {}
    command = _torchrun(job) if job.launcher == "torchrun" else _shell(job, folder)
    with open(folder / "launcher.log", "w") as log, _taken_port() as port:
        words = [word.replace("PORT", str(port)) for word in command]
        launcher = subprocess.Popen(words, cwd=folder, env=env, stdout=log, stderr=log)
        if job.signal:
            wait_for(lambda: _steps(folder) >= RANKS, "each rank has done a step")
            launcher.send_signal(job.signal)
        launcher.wait(TEST_SECONDS)
    (folder / "run.sh").unlink(missing_ok=True)
    for path in [*folder.rglob("*.log")]:
        if path.stat().st_size == 0:
            path.unlink()


def _shell(job: Job, folder: Path) -> list[str]:
    zone = '$([ $rank = 2 ] && echo "env TZ=Asia/Tokyo")' if job.zone else ""
    text = SHELL.format(
        last=RANKS - 1, zone=zone, python=sys.executable, program=RANK, fault=job.fault
    )
    (folder / "run.sh").write_text(text)
    return ["bash", "run.sh"]


def _torchrun(job: Job) -> list[str]:
    meets = (
        ["--master-addr=127.0.0.1", "--master-port=PORT"] if job.port_taken else ["--standalone"]
    )
    program = [str(RANK), job.fault, "-", "" if job.alone else "gloo", "zone" if job.zone else ""]
    return [
        sys.executable, "-m", "torch.distributed.run", *meets, f"--nproc-per-node={RANKS}",
        "--redirects=3", "--log-dir=logs", f"--max-restarts={job.restarts}", *program,
    ]  # fmt: skip


@contextmanager
def _taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield taken.getsockname()[1]


def _steps(folder: Path) -> int:
    """Ranks that have done one."""
    return sum(" step 1 " in path.read_text() for path in folder.rglob("std*.log"))


def record(name: str) -> None:
    target = RECORDS / name
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        run(JOBS[name], folder)
        for path in sorted(folder.rglob("*.log")):
            inside = target / re.sub(r"logs/[^/]*/", "logs/run_x/", str(path.relative_to(folder)))
            inside.parent.mkdir(parents=True, exist_ok=True)
            inside.write_text(neutral(path.read_text(errors="replace"), folder))


def neutral(text: str, folder: Path) -> str:
    """Without the names of this machine."""
    for own, other in (
        (str(folder), "/job"),
        (str(TESTS), "/work/tests"),
        (sys.prefix, "/opt/venv"),
        (packages(), "/opt/venv/lib/python3.11/site-packages"),
        (str(TESTS.parent), "/work"),
        (sys.base_prefix, "/usr"),
        (str(Path.home()), "/home/user"),
        (socket.gethostname(), "node-1"),
        (os.uname().release, "6.1.0-generic"),
    ):
        text = text.replace(own, other)
    return re.sub(r"/tmp/(?:rd|tmp)\w{6,10}", "/tmp/scratch", text)


def packages() -> str:
    """Where torch is, if the packages of this Python are links."""
    found = importlib.util.find_spec("torch")
    assert found is not None and found.origin is not None
    return str(Path(os.path.realpath(found.origin)).parents[1])


if __name__ == "__main__":
    for chosen in sys.argv[1:] or JOBS:
        record(chosen)
        print(chosen, flush=True)
