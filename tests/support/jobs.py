"""Real jobs for tests: started under `rankdbg run`, looked at with `rankdbg`, ended by pid."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import warm_commands
from rankdbg import demo
from rankdbg.errors import RankdbgError
from rankdbg.frontends import cli
from rankdbg.session import Session
from rankdbg.types import Rank
from torch_ranks import PROGRAMS, fork_ranks
from waiting import ANSWER_SECONDS, PATIENCE, wait_for

TORCHRUN = (Path(sys.executable).with_name("torchrun"), "--standalone", "--nproc-per-node")


def command(*words: object, limit: str = "") -> list[str]:
    """The command line; `limit`, MODULE:NAME=SECONDS, in place of the one that it has."""
    program = [str(PROGRAMS / "impatient.py"), limit] if limit else ["-m", "rankdbg"]
    return [sys.executable, *program, *_patient(words)]


def _patient(words: tuple[object, ...]) -> list[str]:
    """The words of a command, with the time limit of the tests unless they state one."""
    told = [*map(str, words)]
    if "--timeout" in told or not _has_time_limit(told[0] if told else ""):
        return told
    return [told[0], "--timeout", f"{ANSWER_SECONDS:g}", *told[1:]]


@functools.cache
def _has_time_limit(verb: str) -> bool:
    return verb in cli.VERBS and "--timeout" in cli.verb_parser(verb).format_usage()


def rankdbg(*words: object, limit: str = "", **settings: Any) -> subprocess.CompletedProcess[str]:
    """One call of the command line, as a user makes it."""
    settings.setdefault("timeout", PATIENCE)
    if not limit and warm_commands.can_run(settings):
        return warm_commands.run(_patient(words), **settings)
    if memory := settings.pop("memory", 0):
        limits = (memory, memory)
        settings["preexec_fn"] = lambda: resource.setrlimit(resource.RLIMIT_AS, limits)
    return subprocess.run(
        command(*words, limit=limit), capture_output=True, text=True, check=False, **settings
    )


def meeting() -> dict[str, str]:
    """Where the ranks of one job meet; and no more threads than the machine can take."""
    meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    return {**meet, "OMP_NUM_THREADS": "1"}


def free_port() -> int:
    """Below those that the system hands out: nobody else gets it before it is used."""
    while True:
        port = random.randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


class Job:
    """A job under rankdbg, with a name of its own: many tests run on one machine at once."""

    def __init__(self, name: str, scratch: Path) -> None:
        self.name = name
        self.directory = scratch / "agents"
        own = {"RANKDBG_DIR": str(self.directory), "XDG_STATE_HOME": str(scratch / "state")}
        self.environment = {**os.environ, **own}
        self._started: list[subprocess.Popen[str]] = []

    def start(
        self,
        *command: object,
        options: tuple[str, ...] = (),
        agent: bool = True,
        **settings: Any,
    ) -> Any:
        """Without the agent the job's name alone, which starts none, keeps jobs apart."""
        words = [sys.executable, "-m", "rankdbg", "run", "--job", self.name, *options, "--"]
        environment = {**self.environment, "RANKDBG_JOB": self.name, **settings.pop("env", {})}
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(
            [*(words if agent else ()), *map(str, command)],
            env=environment,
            text=True,
            start_new_session=True,
            **{**pipes, **settings},
        )
        self._started.append(process)
        return process

    def start_ranks(self, *behaviours: str, **settings: Any) -> Any:
        """One rank for each behaviour, a function of programs/behave.py."""
        launcher, program = PROGRAMS / "launch.py", PROGRAMS / "behave.py"
        return self.start(
            sys.executable, launcher, len(behaviours), program, *behaviours, **settings
        )

    def start_torch(self, ranks: object, program: object, *words: object, **settings: Any) -> Any:
        """So many ranks of a program over gloo, which are forks and do not load torch."""
        settings["env"] = {**meeting(), **settings.get("env", {})}
        return self.start(*fork_ranks(ranks, program, *words), **settings)

    def cli(self, verb: str, *words: object, **settings: Any) -> subprocess.CompletedProcess[str]:
        environment = {**self.environment, **settings.pop("env", {})}
        return rankdbg(verb, "--job", self.name, *words, env=environment, **settings)

    def stacks_seen_by(self, sources: dict[str, str], *words: object) -> Any:
        """What stacks says, as soon as each rank is seen so: an agent that gets no processor for
        a while is not waited for."""
        last: list[Any] = []

        def found() -> Any:
            last[:] = [self.json("stacks", *words)]
            return last[0] if last[0]["sources"] == sources else None

        return wait_for(found, lambda: last)

    def json(self, verb: str, *words: object) -> Any:
        result = self.cli(verb, "--json", *words)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    def ranks(self, everything: bool = False, timeout: float = ANSWER_SECONDS) -> list[Rank]:
        with self.session(timeout) as session:
            return session.roster().jobs(everything).get(self.name, [])

    @contextlib.contextmanager
    def session(self, timeout: float = ANSWER_SECONDS) -> Iterator[Session]:
        before = os.environ.get("RANKDBG_DIR")
        os.environ["RANKDBG_DIR"] = str(self.directory)
        try:
            with Session(timeout=timeout) as session:
                yield session
        finally:
            os.environ.pop("RANKDBG_DIR")
            if before is not None:
                os.environ["RANKDBG_DIR"] = before

    def wait_for(
        self,
        wanted: Callable[[list[Rank]], bool],
        everything: bool = False,
        patience: float = PATIENCE,
    ) -> list[Rank]:
        """The roster, as soon as it is as wanted. A node that is late is asked anew."""
        ranks: list[Rank] = []
        refused: list[RankdbgError] = []

        def arrived() -> bool:
            nonlocal session
            try:
                roster = session.roster()
            except RankdbgError as error:
                refused[:] = [error]
                opened.close()
                session = opened.enter_context(self.session())
                return False
            ranks[:] = roster.jobs(everything).get(self.name, [])
            return wanted(ranks)

        def seen() -> str:
            status = self._started[-1].poll() if self._started else None
            return f"ranks as wanted (exit status {status}); last: {ranks} {refused or ''}"

        with contextlib.ExitStack() as opened:
            session = opened.enter_context(self.session())
            wait_for(arrived, seen, patience)
        return ranks

    def wait_at(self, *functions: str, patience: float = PATIENCE) -> list[Rank]:
        """The ranks, as soon as rank i stands in function i."""

        def arrived(ranks: list[Rank]) -> bool:
            places = {r.number: r.where.function for r in ranks if r.where}
            return places == dict(enumerate(functions))

        ranks = self.wait_for(arrived, patience=patience)
        return sorted(ranks, key=lambda rank: rank.number or 0)

    def end(self) -> None:
        """The job, and the clients, nodes and servers that look at it."""
        self._kill_all(f"RANKDBG_DIR={self.directory}")
        self.end_ranks()

    def end_ranks(self) -> None:
        """The job alone: who looks at it is to see that."""
        self._kill_all(f"RANKDBG_JOB={self.name}")
        for process in self._started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            # A rank in a session of its own (torchrun's) may live on and hold the pipes.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=ANSWER_SECONDS)

    def _kill_all(self, variable: str) -> None:
        """Also those in sessions of their own, as torchrun's workers are."""
        for entry in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if variable.encode() in entry.read_bytes().split(b"\0"):
                    os.kill(int(entry.parent.name), signal.SIGKILL)


def start_demo(job: Job, scratch: Path, **settings: Any) -> None:
    """The job of `rankdbg demo`: eight ranks, of which rank 5 reads a shard that never comes."""
    meeting = scratch / "meeting"
    meeting.mkdir()
    launcher = Path(demo.__file__).with_name("launch.py")
    job.start(sys.executable, launcher, 8, meeting, **settings)
    job.wait_for(lambda ranks: len(ranks) == 8)
