"""rankdbg's shell beside Monarch's debugger, on one mesh of Monarch's actors, prompt to prompt.

In each proc of the mesh one actor is stopped at a breakpoint in rankdbg, and one in Monarch's
own debugger. Both prompts are open all the time, rankdbg's in a terminal and Monarch's over the
TCP connection that nc would make. The same is typed at both, in turns, and measured is the time
until the prompt is back.

Monarch's cast does not gather what the ranks print, and its prompt is back once the command is
queued. So there are two figures for it: the first cast to ranks that wait, until it is queued;
and one right after it, which is queued as soon as every rank has run the one before. Ours are
run, gathered and grouped.

What our list takes beside its question (1 ms, of which the node looks up every process in /proc) is
the prompt: prompt_toolkit reads the keys, draws the line as done, and draws the next prompt, all in
Python. Monarch's prompt is a line from a socket, without editing, history or completion; one row
compares it with our shell that reads a pipe, and has none of these either. GNU readline took 0.2 ms
for the same, but cannot print late answers above the line that is being typed.

Monarch is looked for in the Python that RANKDBG_MONARCH_PYTHON names, else in this one.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from _measuring import BIN, command, milliseconds, seconds, table
from _prompts import PATIENCE, MonarchPrompt, ShellPrompt, piped_shell, shell
from _worlds import HERE, measure_worlds

PYTHON = os.environ.get("RANKDBG_MONARCH_PYTHON", sys.executable)
INSTALL = (
    "pip install torch==2.13.0 cloudpickle lark numpy opentelemetry-api pyarrow pyre-extensions"
    " pyzmq requests tabulate xxhash; pip install --no-deps torchmonarch==0.7.0 clusterscope"
)
JOB = "bench"
# Nothing tells when all have run a cast and wait again; most need less than half of this.
SETTLING_SECONDS = 1.0
Figures = dict[str, list[float]]
EMPTY, LIST, ATTACH, CAST = "an empty line", "list", "attach 1, where", "cast ranks(:) p x"
PIPED = "list, ours without a line editor too"
QUEUED, WHOLE = "  theirs is only queued", "list, with its client started for it"


@contextlib.contextmanager
def mesh(world: int) -> Iterator[tuple[MonarchPrompt, ShellPrompt, int, Mapping[str, str]]]:
    """Both prompts on one mesh that is stopped, Monarch's port, and rankdbg's environment."""
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    with contextlib.ExitStack() as opened:
        scratch = opened.enter_context(tempfile.TemporaryDirectory(prefix="rankdbg-bench-"))
        own = {"RANKDBG_DIR": f"{scratch}/agents", "XDG_STATE_HOME": f"{scratch}/state"}
        environment = {**os.environ, **own}
        said = opened.enter_context(Path(scratch, "said").open("w+"))
        run = (BIN / "rankdbg", "run", "--job", JOB, "--")
        actors = subprocess.Popen(
            [*run, PYTHON, HERE / "_monarch_actors.py", str(world)],
            env={**environment, "MONARCH_DEBUG_SERVER_PORT": str(port)},
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
        try:
            monarch = MonarchPrompt(connect(port, actors, said))
            wait_for_monarch(monarch, world)
            words = (BIN / "rankdbg", "shell", "-t", "monarch", "--job", JOB, "--timeout", 30)
            with shell(words, environment) as ours:
                wait_for_ours(ours, world)
                yield monarch, ours, port, environment
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(actors.pid, signal.SIGKILL)
            actors.wait()


def connect(port: int, actors: subprocess.Popen[bytes], said: IO[str]) -> socket.socket:
    """The server comes with the first breakpoint."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and actors.poll() is None:
        with contextlib.suppress(OSError):
            return socket.create_connection(("localhost", port), timeout=PATIENCE)
        time.sleep(0.2)
    said.seek(0)
    errors = [line for line in said if "Error: " in line]
    sys.exit(f"Monarch's actors did not start: {''.join(errors[:1]).strip()}")


def wait_for_monarch(monarch: MonarchPrompt, world: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if len(re.findall(r"^\| theirs\S* +\|", monarch.type("list"), re.MULTILINE)) == world:
            return
        time.sleep(0.5)  # they need the processors more than we do
    sys.exit(f"{world} Monarch actors did not stop in {PATIENCE:.0f} s")


def wait_for_ours(ours: ShellPrompt, world: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        rows = re.findall(r"^([0-9,-]+) +breakpoint", ours.type("list"), re.MULTILINE)
        if sum(map(ranks_in, rows)) == world:
            return
        time.sleep(0.5)
    sys.exit(f"{world} ranks did not stop in {PATIENCE:.0f} s")


def ranks_in(text: str) -> int:
    """How many `0-2,7` are."""
    ends = [[int(end) for end in part.split("-")] for part in text.split(",")]
    return sum(end[-1] - end[0] + 1 for end in ends)


def actor_name(monarch: MonarchPrompt) -> str:
    (name, *_) = re.findall(r"^\| (theirs\S*) +\|", monarch.type("list"), re.MULTILINE)
    return str(name)


def attach_there(monarch: MonarchPrompt, name: str) -> float:
    def attach() -> None:
        monarch.type(f"attach {name} 1", "(Pdb) ")
        assert "steps" in monarch.type("where", "(Pdb) ")

    taken = seconds(attach)
    monarch.type("detach")
    return taken


def attach_here(ours: ShellPrompt) -> float:
    def attach() -> None:
        ours.type("attach 1", "(rank 1) ")
        assert "steps" in ours.type("where", "(rank 1) ")

    taken = seconds(attach)
    ours.type("detach")
    return taken


def list_from_outside(port: int) -> None:
    """What `nc localhost PORT` does for one command."""
    with socket.create_connection(("localhost", port), timeout=PATIENCE) as connection:
        assert "theirs" in MonarchPrompt(connection).type("list")


def take_turns(world: int, rounds: int) -> tuple[Figures, Figures]:
    here: Figures = defaultdict(list)
    there: Figures = defaultdict(list)
    with mesh(world) as (monarch, ours, port, environment):
        actor = actor_name(monarch)
        cast = f"cast {actor} ranks(:) p x"
        for _ in range(rounds):
            time.sleep(SETTLING_SECONDS)
            there[EMPTY].append(seconds(lambda: monarch.type("")))
            here[EMPTY].append(seconds(lambda: ours.type("")))
            there[LIST].append(seconds(lambda: monarch.type("list")))
            here[LIST].append(seconds(lambda: ours.type("list")))
            there[ATTACH].append(attach_there(monarch, actor))
            here[ATTACH].append(attach_here(ours))
            there[QUEUED].append(seconds(lambda: monarch.type(cast)))
            there[CAST].append(seconds(lambda: monarch.type(cast)))
            time.sleep(SETTLING_SECONDS)
            here[CAST].append(seconds(lambda: ours.type("cast ranks(:) p x")))
        here[QUEUED] = here[CAST]
        words = ("-t", "monarch", "--job", JOB, "--timeout", 30)
        with piped_shell((BIN / "rankdbg", "shell", *words), environment) as piped:
            stops = "breakpoint", ours.type("list").count("breakpoint")
            piped.type("list", *stops)
            for _ in range(rounds):
                there[PIPED].append(seconds(lambda: monarch.type("list")))
                here[PIPED].append(seconds(lambda: piped.type("list", *stops)))
        whole = command(BIN / "rankdbg", "list", *words, **environment)
        for _ in range(rounds):  # last: Monarch's open prompt is closed by another one
            there[WHOLE].append(seconds(lambda: list_from_outside(port)))
            here[WHOLE].append(seconds(whole))
    return here, there


def measure(world: int, rounds: int) -> None:
    here, there = take_turns(world, rounds)
    rows = [[f"{world} procs: best, median", "rankdbg", "Monarch", "theirs / ours"]]
    for name in (EMPTY, LIST, PIPED, ATTACH, CAST, QUEUED, WHOLE):
        ours, theirs = (statistics.median(figures[name]) for figures in (here, there))
        shown = [
            f"{milliseconds(min(figures[name]))}, {milliseconds(middle)}"
            for figures, middle in ((here, ours), (there, theirs))
        ]
        rows.append([name, *shown, f"{theirs / ours:.2f}"])
    table(rows)


def main() -> None:
    try:
        subprocess.run([PYTHON, "-c", "import monarch.actor"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        print(f"skipped: {PYTHON} has no Monarch (RANKDBG_MONARCH_PYTHON names another): {INSTALL}")
        return
    measure_worlds(measure, __doc__, "rankdbg and Monarch, prompt to prompt", [8, 32], rounds=9)


if __name__ == "__main__":
    main()
