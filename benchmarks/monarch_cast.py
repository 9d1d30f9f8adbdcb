"""rankdbg's cast beside Monarch's, to as many stopped processes, in the same run.

Monarch's cast does not gather what the ranks print, and its prompt is back once the command is
queued. So there are two figures for it: the first cast to ranks that wait, until it is queued;
and one right after it, which is queued as soon as every rank has run the one before. Ours are
run, gathered and grouped. Both jobs stand all the time, and the casts take turns.

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
from collections.abc import Iterator
from typing import IO

from _measuring import milliseconds, seconds, table
from _worlds import HERE, PATIENCE, measure_worlds, stopped_job
from cast import cast

PYTHON = os.environ.get("RANKDBG_MONARCH_PYTHON", sys.executable)
INSTALL = (
    "pip install torch==2.13.0 cloudpickle lark numpy opentelemetry-api pyarrow pyre-extensions"
    " pyzmq requests tabulate xxhash; pip install --no-deps torchmonarch==0.7.0 clusterscope"
)
PROMPT = b"monarch_dbg> "
# Nothing tells when all have run a cast and wait again; most need less than half of this.
SETTLING_SECONDS = 1.0


class Debugger:
    """Monarch's debug server, over TCP as its users reach it with nc."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._read = b""
        self._until_prompt()

    def type(self, line: str) -> str:
        self._connection.sendall(line.encode() + b"\n")
        return self._until_prompt()

    def _until_prompt(self) -> str:
        while PROMPT not in self._read:
            data = self._connection.recv(1 << 16)
            if not data:
                sys.exit("Monarch's debug server hung up")
            self._read += data
        text, _, self._read = self._read.partition(PROMPT)
        return text.decode()

    def wait_for_stops(self, world: int) -> str:
        """The name of the actor, once as many ranks stand at its breakpoint."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            names = re.findall(r"^\| (bench\S*) +\|", self.type("list"), re.MULTILINE)
            if len(names) == world:
                return str(names[0])
            time.sleep(0.5)  # they need the processors more than we do
        sys.exit(f"{world} Monarch actors did not stop in {PATIENCE:.0f} s")


@contextlib.contextmanager
def monarch_job(world: int) -> Iterator[Debugger]:
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryFile("w+") as said:
        actors = subprocess.Popen(
            [PYTHON, HERE / "_monarch_actors.py", str(world)],
            env={**os.environ, "RANKDBG": "0", "MONARCH_DEBUG_SERVER_PORT": str(port)},
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
        try:
            yield Debugger(_connect(port, actors, said))
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(actors.pid, signal.SIGKILL)
            actors.wait()


def _connect(port: int, actors: subprocess.Popen[bytes], said: IO[str]) -> socket.socket:
    """The server comes with the first breakpoint."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and actors.poll() is None:
        with contextlib.suppress(OSError):
            return socket.create_connection(("localhost", port), timeout=PATIENCE)
        time.sleep(0.2)
    said.seek(0)
    errors = [line for line in said if "Error: " in line]
    sys.exit(f"Monarch's actors did not start: {''.join(errors[:1]).strip()}")


def measure(world: int, rounds: int) -> None:
    ours, queued, run = [], [], []
    with monarch_job(world) as monarch, stopped_job(world) as (job, ranks):
        line = f"cast {monarch.wait_for_stops(world)} ranks(:) p x"
        with job.session(timeout=30) as session:
            session.job(job.name)
            for _ in range(rounds):
                time.sleep(SETTLING_SECONDS)
                queued.append(seconds(lambda: monarch.type(line)))
                run.append(seconds(lambda: monarch.type(line)))
                time.sleep(SETTLING_SECONDS)
                ours.append(seconds(lambda: cast(session, ranks)))
    figures = {
        "rankdbg: run, gathered, grouped": ours,
        "Monarch: run, once more queued": run,
        "Monarch: queued": queued,
    }
    middles = [statistics.median(taken) for taken in figures.values()]
    rows = [
        [name, milliseconds(min(taken)), milliseconds(middle), f"{middle / middles[0]:.1f} x"]
        for (name, taken), middle in zip(figures.items(), middles, strict=True)
    ]
    table([[f"{world} stopped ranks", "best", "median", "to ours"], *rows])


def main() -> None:
    try:
        subprocess.run([PYTHON, "-c", "import monarch.actor"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        print(f"skipped: {PYTHON} has no Monarch (RANKDBG_MONARCH_PYTHON names another): {INSTALL}")
        return
    measure_worlds(measure, __doc__, "cast, ours and Monarch's; budget: 5 times", [64], rounds=9)


if __name__ == "__main__":
    main()
