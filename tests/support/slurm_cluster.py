"""A real Slurm of four nodes on this machine, for tests: its own munge, controller and daemons.

Nothing of it lies outside of its directory, and everything it starts is ended by its number.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs import free_port, rankdbg
from rankdbg.clusters import Options
from rankdbg.clusters.slurm import srun
from rankdbg.clusters.transport import channel
from rankdbg.session import Session
from waiting import ANSWER_SECONDS, PATIENCE, wait_for

NODES = 4
COMMANDS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol", "squeue", "scancel")

_CONFIGURATION = """\
ClusterName=rankdbg
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={munge}
CryptoType=crypto/munge
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool-%n
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd-%n.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_min_interval=0,defer_batch=0,bf_interval=1
ReturnToService=2
SlurmdTimeout=300
InactiveLimit=0
PropagateResourceLimits=NONE
SlurmdParameters=config_overrides
"""


class SlurmCluster:
    def __init__(self, place: Path, **settings: object) -> None:
        """`settings` of slurm.conf beside those that all clusters here have."""
        self.place = place
        # Two such clusters on one machine see each other's processes: their jobs differ.
        own = {"KillWait": 10, "FirstJobId": random.randrange(10_000, 10_000_000)}
        self._settings = {**own, **settings}
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "RANKDBG"))},
            "SLURM_CONF": str(place / "slurm.conf"),
            "RANKDBG_DIR": str(place / "agents"),
            "TMPDIR": str(place / "tmp"),
        }
        self.nodes = [f"node-{number}" for number in range(NODES)]
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    # --- its life -----------------------------------------------------------------------

    def start(self) -> None:
        self._start_munge()
        self._configure()
        self._start("slurmctld", "slurmctld", "-D", "-c")
        for node in self.nodes:
            self.start_node(node)
        self.wait_for_nodes("idle")

    def _start_munge(self) -> None:
        """It insists on a directory of its own user, and on not being root."""
        user = pwd.getpwnam("munge")
        home = self.place / "munge"
        home.mkdir(mode=0o755)
        (home / "key").write_bytes(os.urandom(128))
        (home / "key").chmod(0o400)
        for path in (home, home / "key"):
            os.chown(path, user.pw_uid, user.pw_gid)
        files = [f"--{name}-file={home / name}" for name in ("key", "pid", "log", "seed")]
        self._start(
            "munged", "munged", "--foreground", "--force", f"--socket={home / 'socket'}", *files,
            user="munge", group="munge", extra_groups=[],
        )  # fmt: skip
        wait_for(lambda: (home / "socket").exists(), "munged has made its socket")

    def _configure(self) -> None:
        host = os.uname().nodename
        controller, *ports = (free_port() for _ in range(1 + NODES))
        text = _CONFIGURATION.format(
            host=host,
            controller_port=controller,
            munge=self.place / "munge/socket",
            place=self.place,
        )
        self._ports = dict(zip(self.nodes, ports, strict=True))
        for node, port in self._ports.items():
            text += (
                f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} "
                f"CPUs=16 RealMemory=100 State=UNKNOWN\n"
            )
        text += f"PartitionName=all Nodes={','.join(self.nodes)} Default=YES MaxTime=INFINITE\n"
        text += "".join(f"{name}={value}\n" for name, value in self._settings.items())
        (self.place / "slurm.conf").write_text(text)
        for name in ("state", "tmp", *(f"spool-{node}" for node in self.nodes)):
            (self.place / name).mkdir()

    def start_node(self, node: str) -> None:
        self._start(node, "slurmd", "-D", "-N", node)
        output = self.place / f"{node}.out"
        wait_for(lambda: b"slurmd started" in output.read_bytes(), f"{node} is up")

    def kill_node(self, node: str) -> None:
        """Its slurmd; what runs there runs on. A child that it was just making may have its port
        for a moment longer."""
        daemon = self._daemons[node]
        daemon.kill()
        daemon.wait(PATIENCE)
        wait_for(lambda: _refuses(self._ports[node]), f"nobody listens for {node}")

    def freeze_controller(self) -> None:
        self._daemons["slurmctld"].send_signal(signal.SIGSTOP)

    def thaw_controller(self) -> None:
        self._daemons["slurmctld"].send_signal(signal.SIGCONT)

    def kill_controller(self, job: int | str) -> None:
        """As soon as it has written down this job; it does so every few seconds, and forgets what it
        has not written."""
        mark = f"marked-{os.urandom(4).hex()}"
        self.call("scontrol", "update", f"jobid={job}", f"comment={mark}")
        written = self.place / "state/job_state"
        wait_for(lambda: mark.encode() in written.read_bytes(), f"{job} is written down")
        daemon = self._daemons["slurmctld"]
        daemon.kill()
        daemon.wait(PATIENCE)

    def start_controller(self) -> None:
        """With the jobs that the last one knew."""
        self._start("slurmctld", "slurmctld", "-D")

    def freeze_node(self, node: str) -> None:
        self._daemons[node].send_signal(signal.SIGSTOP)

    def wait_for_nodes(self, state: str) -> None:
        def arrived() -> bool:
            states = self.call("sinfo", "-h", "-N", "-o", "%T").split()
            return len(states) == NODES and set(states) == {state}

        wait_for(arrived, f"all nodes are {state}")

    def _start(self, name: str, *command: str, **settings: Any) -> None:
        with open(self.place / f"{name}.out", "wb") as output:
            self._daemons[name] = subprocess.Popen(
                _found(command),
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                **settings,
            )

    def end(self) -> None:
        self._kill_what_is_left()
        for daemon in self._daemons.values():
            daemon.send_signal(signal.SIGKILL)
        for daemon in self._daemons.values():
            daemon.wait(PATIENCE)
        self._kill_what_is_left()

    def _kill_what_is_left(self) -> None:
        """Step daemons and their tasks have this cluster's configuration in their environment."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    # --- what users do --------------------------------------------------------------------

    def call(self, *command: object) -> str:
        return self.run(*command).stdout.strip()

    def run(self, *command: object, **settings: Any) -> subprocess.CompletedProcess[str]:
        settings.setdefault("env", self.environment)
        words = [str(word) for word in command]
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=PATIENCE, check=False, **settings
        )
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done

    def submit(self, *command: object, options: tuple[str, ...] = ("-N4", "-n8")) -> str:
        """The number of a job that runs this in its first step."""
        script = '#!/bin/sh\nexec srun --mpi=none "$@"\n'
        words = ("sbatch", "--parsable", "--output=/dev/null", *options, "/dev/stdin")
        return self.run(*words, *command, input=script).stdout.strip()

    def submit_script(self, script: str, *options: str) -> str:
        """The number of a job whose batch script this is, after its first line."""
        words = ("sbatch", "--parsable", *options, "/dev/stdin")
        return self.run(*words, input=f"#!/bin/bash\n{script}").stdout.strip()

    def submit_ranks(self, program: Path, *words: object, options: tuple[str, ...]) -> str:
        python = sys.executable
        return self.submit(
            python, "-m", "rankdbg", "run", "--", python, program, *words, options=options
        )

    def cancel(self, job: str) -> None:
        self.call("scancel", job)
        wait_for(lambda: self.state(job) not in ("RUNNING", "PENDING"), f"{job} is cancelled")

    def state(self, job: str) -> str:
        return self.call("squeue", "-h", "--states=all", "-j", job, "-o", "%T")

    def cli(self, *words: object, **settings: Any) -> subprocess.CompletedProcess[str]:
        environment = {**self.environment, **settings.pop("env", {})}
        return rankdbg(*words, env=environment, **settings)

    @contextlib.contextmanager
    def session(self, target: str, options: Options | None = None) -> Iterator[Session]:
        with pytest.MonkeyPatch.context() as patch:
            for name in ("SLURM_CONF", "RANKDBG_DIR", "TMPDIR"):
                patch.setenv(name, self.environment[name])
            # On a busy machine one node is later than the others, and they would be reached anew.
            patch.setattr(srun, "STALLED_SECONDS", channel.CONNECT_SECONDS)
            with Session(target, ANSWER_SECONDS, options or Options()) as session:
                yield session

    def json(self, *words: object) -> Any:
        result = self.cli(*words, "--json")
        assert result.returncode in (0, 1), result.stderr
        return json.loads(result.stdout)

    def roster(self, *jobs: str) -> Any:
        """What `ps` says about these jobs, as soon as each node has answered: one that gets no
        processor for a while is late."""
        seen: list[Any] = []
        targets = [word for job in jobs for word in ("-t", f"slurm:{job}")]

        def all_answer() -> Any:
            seen[:] = [self.json("ps", *targets)]
            return None if seen[0]["no_response_nodes"] else seen[0]

        return wait_for(all_answer, lambda: seen)

    def wait_for_ranks(self, job: str, count: int, function: str) -> None:
        """Until so many of its ranks stand in that function."""

        def places(*target: str) -> list[str]:
            result = self.cli("ps", *target, "--json")
            ranks = json.loads(result.stdout)["ranks"] if result.returncode == 0 else []
            return [r["where"] and r["where"]["function"] for r in ranks]

        what = f"{count} ranks of {job} are in {function}"
        # All nodes are this machine, and to look at that takes a tenth of the processor's time.
        wait_for(lambda: places("-t", "local").count(function) >= count, what)
        wait_for(lambda: places("-t", f"slurm:{job}") == [function] * count, what)

    # --- what there is --------------------------------------------------------------------

    def processes(self, *also: str) -> list[int]:
        """Those that carry this cluster's configuration and these words, but its daemons."""
        found = []
        daemons = [daemon.pid for daemon in self._daemons.values()]
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes() + b"\0" + (entry / "environ").read_bytes()
                if all(word.encode() in words for word in (str(self.place), *also)):
                    found.append(int(entry.name))
        return [pid for pid in found if pid not in (os.getpid(), *daemons)]

    def node_processes(self, *also: str) -> list[int]:
        return self.processes("rankdbg.node\0", *also)

    @staticmethod
    def parents(pids: list[int]) -> set[int]:
        return {
            int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) for pid in pids
        }

    def landed(self) -> list[Path]:
        return list((self.place / "tmp").glob("rankdbg-node-*"))


def _found(command: tuple[str, ...]) -> list[str]:
    """Daemons lie in /usr/sbin, which users' PATH may lack."""
    return [_which(command[0]) or command[0], *command[1:]]


def _which(command: str) -> str | None:
    return shutil.which(command, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


@contextlib.contextmanager
def running_cluster(**settings: object) -> Iterator[SlurmCluster]:
    missing = [command for command in COMMANDS if not _which(command)]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs {', '.join(missing) or 'root, to start slurmd'}")
    # pytest's own directories are closed to other users, and munged is one.
    with tempfile.TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True) as place:
        os.chmod(place, 0o755)
        cluster = SlurmCluster(Path(place), **settings)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.end()


def _refuses(port: int) -> bool:
    with socket.socket() as trying:
        return trying.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED
