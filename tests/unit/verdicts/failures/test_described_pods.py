"""What `kubectl describe`, `get pods` and `get events` print, beside logs without any clock in common."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankdbg.investigations.logs.log_sources import given_logs
from rankdbg.verdicts.failures.root_causes import Diagnosis, diagnose
from rankdbg.verdicts.rules.log_rules import load_rules

RULES = load_rules()
FAILED = """\
    {word}:          Terminated
      Reason:       {reason}
      Exit Code:    {code}
      Started:      Tue, 17 Nov 2026 10:00:00 +0000
      Finished:     Tue, 17 Nov 2026 10:00:04 +0000
"""
RUNS = """\
    State:          Running
      Started:      Tue, 17 Nov 2026 10:00:30 +0000
"""
WAITS = """\
    State:          Waiting
      Reason:       CrashLoopBackOff
"""
DELETED = "10s   Normal   Killing   pod/llama-1   Stopping container main\n"
STARTED = "5s   Normal   Started   pod/llama-1   Started container main\n"
LOST = (
    "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.2]:44264. "
    "This is typically caused by a remote worker crashing.\n"
)


def end(code: int, reason: str = "Error", word: str = "State") -> str:
    return FAILED.format(code=code, reason=reason, word=word)


def described(pod: str, *states: str, rank: int | None = None) -> str:
    variables = "" if rank is None else f"    Environment:\n      RANK:              {rank}\n"
    return f"Name:             {pod}\nContainers:\n  main:\n{''.join(states)}{variables}\n"


def steps(rank: int, last: int, *more: str) -> str:
    lines = [
        f"2026-11-17 10:00:{n:02},000 INFO [rank{rank}] step {n} loss 2.9 lr 1e-4\n"
        for n in range(1, last + 1)
    ]
    return "".join([*lines, *more])


def judged(folder: Path, **files: str) -> Diagnosis:
    for name, text in files.items():
        (folder / name.replace("__", "-").replace("_", ".")).write_text(text)
    return diagnose(given_logs([str(folder)], RULES.patterns()).scan(), RULES)


def roots(found: Diagnosis) -> list[tuple[str, tuple[int, ...], str]]:
    return [(f.mode, f.ranks, f.host) for f in found.failures if f.role == "root"]


# --- how a container ended ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("states", "mode"),
    [
        ([end(137)], "k8s_container_killed"),
        ([end(1)], "k8s_container_failed"),
        ([end(137, "OOMKilled")], "k8s_oomkilled"),
        ([WAITS, end(137, word="Last State")], "k8s_container_killed"),
    ],
)
def test_container_that_failed(tmp_path: Path, states: list[str], mode: str) -> None:
    """The lines below its state say how it ended; its variables say which rank it was."""
    text = described("llama-0", RUNS, rank=0) + described("llama-1", *states, rank=1)
    assert roots(judged(tmp_path, describe_txt=text)) == [(mode, (1,), "llama-1")]


@pytest.mark.parametrize(
    "states",
    [[RUNS], [end(0, "Completed")], [RUNS, end(1, word="Last State")]],
    ids=["runs", "completed", "runs again"],
)
def test_container_that_did_not_fail(tmp_path: Path, states: list[str]) -> None:
    """One that was started again and runs is no failure."""
    text = described("llama-0", RUNS, rank=0) + described("llama-1", *states, rank=1)
    assert roots(judged(tmp_path, describe_txt=text)) == []


def test_time_of_the_end(tmp_path: Path) -> None:
    """It is the one that is told with its zone."""
    (failure,) = judged(tmp_path, describe_txt=described("llama-1", end(137))).failures
    assert failure.time == 1794909604.0


def test_row_of_a_pod(tmp_path: Path) -> None:
    """A table of pods alone tells which has failed; one that runs has not."""
    head = "NAME      READY   STATUS    RESTARTS   AGE\n"
    rows = "llama-0   1/1     Running   0          9s\nllama-1   0/1     Error     0          9s\n"
    found = judged(tmp_path, pods_txt=head + rows)
    assert [failure.mode for failure in found.failures] == ["k8s_container_failed"]
    assert roots(judged(tmp_path, pods_txt=head + rows.replace("Error  ", "Running"))) == []


# --- pods that were deleted -----------------------------------------------------------------------


def test_deleted_pod(tmp_path: Path) -> None:
    """It is why its peers have lost a connection, though no clock says when."""
    logs = {f"llama__{rank}_log": steps(rank, 5, LOST) for rank in (0, 2)}
    found = judged(tmp_path, events_txt=DELETED, **logs)
    assert roots(found) == [("k8s_pod_deleted", (), "llama-1")]


def test_deleted_pod_that_nobody_misses(tmp_path: Path) -> None:
    """Where nothing else has failed, it was deleted on purpose."""
    logs = {f"llama__{rank}_log": steps(rank, 30) for rank in (0, 2)}
    assert roots(judged(tmp_path, events_txt=DELETED, **logs)) == []


def test_deleted_pod_that_came_back(tmp_path: Path) -> None:
    """What was lost later has another cause."""
    logs = {f"llama__{rank}_log": steps(rank, 5, LOST) for rank in (0, 2)}
    found = judged(tmp_path, events_txt=DELETED + STARTED, **logs)
    assert [mode for mode, _, _ in roots(found)] == ["gloo_peer_closed"]


# --- one rank that did not finish -----------------------------------------------------------------

ERROR = 'Traceback (most recent call last):\n  File "/job/train.py", line 3, in main\nKeyError: 7\n'


def finished(rank: int) -> str:
    return steps(rank, 12, f"2026-11-17 10:00:13,000 INFO [rank{rank}] Training completed\n")


def test_rank_that_alone_did_not_finish(tmp_path: Path) -> None:
    """The others finish without it, and say so: it has failed all the same."""
    logs = {"llama__0_log": finished(0), "llama__2_log": finished(2)}
    found = judged(tmp_path, llama__1_log=steps(1, 5, ERROR), **logs)
    assert [root[:2] for root in roots(found)] == [("python_error", (1,))]


def test_rank_that_finished_later(tmp_path: Path) -> None:
    """It was started again, and has finished like the others."""
    logs = {f"llama__{rank}_log": finished(rank) for rank in (0, 1, 2)}
    found = judged(tmp_path, llama__1_previous_log=steps(1, 5, ERROR), **logs)
    assert roots(found) == []


def test_rank_that_lets_another_speak(tmp_path: Path) -> None:
    """Where one rank alone says that the job has finished, it says it for all."""
    found = judged(tmp_path, llama__0_log=finished(0), llama__1_log=steps(1, 5, ERROR))
    assert roots(found) == []


# --- kills of others, and hosts that do not reach each other --------------------------------------

KILL = "[Tue Nov 17 10:00:05 2026] Memory cgroup out of memory: Killed process {pid} (python) total-vm:9kB\n"
STARTS = "started rank 0 as pid 4710\nstarted rank 1 as pid 4711\n"


@pytest.mark.parametrize(
    ("pid", "launcher", "mode"),
    [
        (4711, STARTS, "host_oom_kernel"),
        (4999, STARTS, "python_error"),
        (4999, "", "host_oom_kernel"),  # it may be a rank: no line says which pids they have
    ],
)
def test_whom_the_kernel_killed(tmp_path: Path, pid: int, launcher: str, mode: str) -> None:
    """A process that is none of the ranks was not killed for this job's error."""
    logs = {"rank__0_log": steps(0, 5), "rank__1_log": steps(1, 5, ERROR)}
    found = judged(tmp_path, dmesg_txt=KILL.format(pid=pid), launcher_log=launcher, **logs)
    assert roots(found)[0][0] == mode


TIMED_OUT = (
    "RuntimeError: [gloo/buffer.cc:78] Timed out waiting 20000ms for recv operation to complete\n"
)


@pytest.mark.parametrize(("waiting", "host"), [((0, 1, 2, 3), ""), ((0, 1, 2), "gpu-2")])
def test_all_ranks_waited(tmp_path: Path, waiting: tuple[int, ...], host: str) -> None:
    """If no rank is missing, no host is accused; else the one that is missing is."""
    for rank in range(4):
        folder = tmp_path / f"gpu-{rank // 2 + 1}"
        folder.mkdir(exist_ok=True)
        text = steps(rank, 5, *([TIMED_OUT] if rank in waiting else []))
        (folder / f"rank_{rank}.log").write_text(text)
    found = judged(tmp_path)
    (root,) = roots(found)
    assert (root[0], root[2]) == ("gloo_timeout", host)
    assert found.confidence is not None
    assert any("network between" in why for why in found.confidence.reasons) == (not host)
