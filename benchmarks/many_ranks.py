"""ps, ask and stacks on jobs of many real ranks, all on this machine.

Each on a session that is open, and as a whole command from the start of its process. The peer
is `py-spy dump --locals` for one process after the other: it too shows where each one is and
what its variables hold, without stopping to ask.
"""

from __future__ import annotations

import subprocess

from _measuring import BIN, command, medians, milliseconds, seconds, table
from _worlds import measure_worlds, waiting_job

from rankdbg.session import Session
from rankdbg.types import Answer, Rank


def ask(session: Session, ranks: list[Rank]) -> None:
    answers = session.evaluate(ranks, "loss")
    assert all(isinstance(answer, Answer) for answer in answers), answers


def dump_serially(ranks: list[Rank]) -> None:
    for rank in ranks:
        words = [BIN / "py-spy", "dump", "--nonblocking", "--locals", "--pid", str(rank.pid)]
        subprocess.run(words, check=False, capture_output=True)


def measure(world: int, rounds: int) -> None:
    with waiting_job(world) as (job, ranks), job.session(timeout=30) as session:
        session.job(job.name)
        where = {"RANKDBG_DIR": str(job.directory)}
        common = ("--job", job.name, "--timeout", 30)
        ways = {
            "ps": lambda: session.roster(),
            "ask loss": lambda: ask(session, ranks),
            "stacks": lambda: session.stacks(ranks),
            "rankdbg ps": command(BIN / "rankdbg", "ps", *common, **where),
            "rankdbg ask all loss": command(
                BIN / "rankdbg", "ask", *common, "all", "loss", **where
            ),
        }
        times = dict(zip(ways, medians(rounds, *ways.values()), strict=True))
        times["py-spy dump --locals, serially"] = seconds(lambda: dump_serially(ranks))
    *_, peer = times.values()
    rows = [
        [way, milliseconds(time), milliseconds(time / world), f"{time / peer:.2f}"]
        for way, time in times.items()
    ]
    table([[f"{world} ranks", "median", "a rank", "to py-spy"], *rows])


if __name__ == "__main__":
    measure_worlds(measure, __doc__, "many ranks on one machine", [64, 500], rounds=7)
