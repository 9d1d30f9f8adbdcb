"""Jobs that really crash on two hosts, and below the memory limit of a group. As a program it
records their logs anew, beside those of crashing_jobs.py:

    python tests/support/crashing_hosts.py [NAME ...]

The hosts are namespaces: each has its own network and name, and a cable joins them. Needs root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from crashing_clusters import ClusterJob, record
from crashing_jobs import RANK
from waiting import PATIENCE, wait_for

HOSTS = {"gpu-a": "10.78.0.1", "gpu-b": "10.78.0.2"}
ZONES = {"gpu-a": "UTC", "gpu-b": "America/New_York"}
PORT = 29544
EACH = 2  # ranks on a host
LIMIT = 96 << 20  # bytes; a rank without torch takes 12 MB
GROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class HostsJob(ClusterJob):
    """`action`: what is done to the job while it runs, a function in ACTIONS."""

    bad: int = 3  # the rank that has the fault
    zones: bool = False  # each host prints the time of its own zone
    steps: int = 30


CUT = ("gloo_timeout", "gloo_peer_closed", "network_link_down")
HOSTS_JOBS = {
    "hosts_exception_in_two_zones": HostsJob("raise_error", ("python_error",), 3, "gpu-b", zones=True),
    "hosts_network_cut": HostsJob("nothing", CUT, action="cut"),
    "hosts_network_cut_in_two_zones": HostsJob("nothing", CUT, action="cut", zones=True),
    "hosts_network_back_soon": HostsJob("nothing", (), action="cut_for_two_seconds"),
    "hosts_rank_killed_there": HostsJob("kill_itself", ("torchrun_child_sigkill",), 3, "gpu-b"),
}  # fmt: skip
OUT_OF_MEMORY = ("host_oom_kernel", "k8s_oomkilled")
GROUP_JOBS = {
    "group_limit": ClusterJob("eat_memory", OUT_OF_MEMORY, 1),
    "group_limit_of_all": ClusterJob("eat_memory", OUT_OF_MEMORY, 1, action="all"),
    "group_limit_of_another": ClusterJob("nothing", (), action="another"),
    "group_limit_beside_exception": ClusterJob(
        "raise_error", ("python_error",), 1, action="another"
    ),
    "group_limit_reclaims": ClusterJob("fill_the_cache", ()),
}


def missing() -> str:
    """What this machine lacks for it, or ``."""
    if os.geteuid() != 0:
        return "needs root, for namespaces and groups"
    absent = [name for name in ("unshare", "nsenter", "ip", "dmesg") if shutil.which(name) is None]
    return f"needs {', '.join(absent)}" if absent else ""


# --- two hosts ------------------------------------------------------------------------------------


class TwoHosts:
    """A network and a name for each; they end with their first process."""

    def __init__(self) -> None:
        script = 'hostname "$0" && ip link set lo up && echo ready && cat > /dev/null'
        words = ["unshare", "--net", "--uts", "--fork", "--kill-child", "sh", "-c", script]
        self._first = {
            host: subprocess.Popen([*words, host], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for host in HOSTS
        }
        with ExitStack() as undo:
            undo.callback(self.end)
            self._connect()
            undo.pop_all()

    def _connect(self) -> None:
        for first in self._first.values():
            assert first.stdout is not None
            assert first.stdout.readline() == b"ready\n"
        one, other = (str(self._inside(host)) for host in HOSTS)
        _call("ip", "link", "add", "eth0", "netns", one, "type", "veth", "peer", "name", "eth0", "netns", other)  # fmt: skip
        for host, address in HOSTS.items():
            _call(*self.enter(host), "ip", "addr", "add", f"{address}/24", "dev", "eth0")
            self.link(host, "up")

    def _inside(self, host: str) -> int:
        pid = self._first[host].pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

    def enter(self, host: str) -> list[str]:
        return ["nsenter", "-t", str(self._inside(host)), "--net", "--uts", "--"]

    def link(self, host: str, state: str) -> None:
        _call(*self.enter(host), "ip", "link", "set", "eth0", state)

    def end(self) -> None:
        for first in self._first.values():
            assert first.stdin is not None
            first.stdin.close()
            first.wait(PATIENCE)

    def __enter__(self) -> TwoHosts:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def _call(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, stdin=subprocess.DEVNULL)


def run_on_hosts(hosts: TwoHosts, job: HostsJob, folder: Path) -> None:
    """torchrun on each host: what it says, and what its ranks say, in a folder of the host."""
    running = [_torchrun(hosts, job, host, folder) for host in HOSTS]
    if job.action:
        wait_for(lambda: steps_in(folder, 3) >= EACH * len(HOSTS), "each rank has done steps")  # fmt: skip
        ACTIONS[job.action](hosts)
    for launcher in running:
        launcher.wait(PATIENCE)
    hosts.link("gpu-b", "up")
    for made in folder.glob("*/logs/*"):  # their names are random
        made.rename(made.with_name("run_x"))


def _torchrun(hosts: TwoHosts, job: HostsJob, host: str, folder: Path) -> subprocess.Popen[bytes]:
    own = folder / host
    own.mkdir()
    env = {**os.environ, "BAD": str(job.bad), "STEPS": str(job.steps), "PYTHONUNBUFFERED": "1"}
    env |= {"TZ": ZONES[host] if job.zones else "UTC", "OMP_NUM_THREADS": "1"}
    env |= {"GLOO_SOCKET_IFNAME": "eth0"}
    where = ["--nnodes=2", f"--node-rank={[*HOSTS].index(host)}", f"--nproc-per-node={EACH}"]
    where += [f"--master-addr={HOSTS['gpu-a']}", f"--master-port={PORT}"]
    words = [*hosts.enter(host), sys.executable, "-m", "torch.distributed.run", *where]
    words += ["--redirects=3", f"--log-dir={own / 'logs'}", str(RANK), job.fault, "-", "gloo"]
    with (own / "torchrun.log").open("w") as log:
        return subprocess.Popen(words, stdout=log, stderr=log, cwd=own, env=env)


def steps_in(folder: Path, step: int) -> int:
    """Files of ranks that have done it."""
    return sum(f" step {step} " in path.read_text() for path in folder.rglob("*.log"))


def _cut(hosts: TwoHosts) -> None:
    hosts.link("gpu-b", "down")


def _cut_for_two_seconds(hosts: TwoHosts) -> None:
    hosts.link("gpu-b", "down")
    time.sleep(2.0)  # that long is what is recorded
    hosts.link("gpu-b", "up")


ACTIONS: dict[str, Callable[[TwoHosts], None]] = {
    "cut": _cut,
    "cut_for_two_seconds": _cut_for_two_seconds,
}


# --- below a limit --------------------------------------------------------------------------------


@contextmanager
def memory_group(limit: int) -> Iterator[Path]:
    """A control group of this machine's, of version 1 or 2, that may have so much memory."""
    top = GROUPS / "memory" if (GROUPS / "memory").is_dir() else GROUPS
    group = top / f"job_{uuid.uuid4().hex[:8]}"
    group.mkdir()
    try:
        (first,) = (f for f in ("memory.limit_in_bytes", "memory.max") if (group / f).exists())
        (group / first).write_text(str(limit))
        yield group
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), 9)
        wait_for(lambda: not (group / "cgroup.procs").read_text().strip(), "an empty group")
        group.rmdir()


def run_in_group(job: ClusterJob, folder: Path) -> None:
    """Four ranks of a shell, whose logs have their pids; and what the kernel says meanwhile."""
    before = _kernel_lines()[-1:]
    with memory_group(LIMIT) as group:
        limited = {"": (1,), "all": (0, 1, 2, 3), "another": ()}[job.action]
        running = [
            _rank(job, rank, folder, group if rank in limited else None) for rank in range(4)
        ]
        if job.action == "another":
            wait_for(lambda: steps_in(folder, 3) == len(running), "each rank has done steps")
            eats = [sys.executable, "-c", "x = [bytearray(1 << 20) for _ in range(400)]"]
            subprocess.run(eats, preexec_fn=_joins(group), check=False)
        _wait_as_a_shell(running, folder)
    lines = _kernel_lines()
    lines = lines[lines.index(before[0]) + 1 :] if before else lines
    (folder / "dmesg.txt").write_text("".join(f"{line}\n" for line in lines))


def _rank(job: ClusterJob, rank: int, folder: Path, group: Path | None) -> subprocess.Popen[bytes]:
    env = {**os.environ, "BAD": "1", "RANK": str(rank), "PYTHONUNBUFFERED": "1", "TZ": "UTC"}
    with (folder / f"rank_{rank}.log").open("w") as log:
        return subprocess.Popen(
            [sys.executable, str(RANK), job.fault, str(rank)],
            stdout=log,
            stderr=log,
            cwd=folder,
            env=env,
            preexec_fn=_joins(group) if group else None,
        )


def _joins(group: Path) -> Callable[[], None]:
    def join() -> None:
        (group / "cgroup.procs").write_text("0")

    return join


def _wait_as_a_shell(ranks: Sequence[subprocess.Popen[bytes]], folder: Path) -> None:
    """The first that fails ends the others."""
    log = (folder / "launcher.log").open("w")
    with log:
        for number, rank in enumerate(ranks):
            log.write(f"started rank {number} as pid {rank.pid}\n")
        wait_for(lambda: any(r.poll() for r in ranks) or all(r.poll() == 0 for r in ranks), "the end")  # fmt: skip
        for number, rank in enumerate(ranks):
            if rank.poll():
                log.write(f"rank {number} (pid {rank.pid}) ended with {rank.returncode}\n")
        for rank in ranks:
            rank.kill() if rank.poll() is None else None
            rank.wait()


def _kernel_lines() -> list[str]:
    words = ["dmesg", "--ctime"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()


# --- records --------------------------------------------------------------------------------------


def main(names: list[str]) -> None:
    chosen = [name for name in HOSTS_JOBS if name in names]
    if chosen:
        with TwoHosts() as hosts:
            for name in chosen:
                record(name, partial(run_on_hosts, hosts, HOSTS_JOBS[name]))
    for name in GROUP_JOBS:
        if name in names:
            record(name, partial(run_in_group, GROUP_JOBS[name]))


if __name__ == "__main__":
    main(sys.argv[1:] or [*HOSTS_JOBS, *GROUP_JOBS])
