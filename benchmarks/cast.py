"""One pdb command to many stopped ranks, run, gathered and grouped.

On a session that is open, as in the shell, and as a whole command, which first has to find the
ranks. What people do without it, one debugger after the other, is here the same command sent
to one rank after the other. The peer, Monarch's cast, has its own benchmark: monarch_cast.py.
"""

from __future__ import annotations

import statistics

from _measuring import BIN, command, milliseconds, table, take_turns
from _worlds import measure_worlds, stopped_job

from rankdbg.investigations.stops.casts import CastOutputs
from rankdbg.session import Session
from rankdbg.types import Rank

BUDGETS = {64: "50 ms", 1000: "500 ms"}
SERIALLY = 64  # of them; the figure is scaled


def cast(session: Session, ranks: list[Rank]) -> None:
    outputs = CastOutputs(session.command(ranks, "p x\n"), ranks)
    assert sum(len(members) for _, members in outputs.groups) == len(ranks), outputs.as_json()


def measure(world: int, rounds: int) -> None:
    with stopped_job(world) as (job, ranks), job.session(timeout=30) as session:
        session.job(job.name)
        verb = (BIN / "rankdbg", "cast", "--job", job.name, "--timeout", 30, "ranks(:)", "p x")
        together, whole, roster, apart = take_turns(
            rounds,
            lambda: cast(session, ranks),
            command(*verb, RANKDBG_DIR=str(job.directory)),
            lambda: session.job(job.name),
            lambda: [cast(session, [rank]) for rank in ranks[:SERIALLY]],
        )
    share = min(SERIALLY, world) / world
    rows = [
        row("cast ranks(:) p x, open session", together, BUDGETS.get(world, "")),
        row("rankdbg cast, the whole command", whole),
        row("  of which a roster, open session", roster),
        row("one rank after the other", [seconds / share for seconds in apart]),
    ]
    table([[f"{world} stopped ranks", "best", "median", "budget"], *rows])


def row(name: str, taken: list[float] | tuple[float, ...], budget: str = "") -> list[str]:
    return [name, milliseconds(min(taken)), milliseconds(statistics.median(taken)), budget]


if __name__ == "__main__":
    measure_worlds(measure, __doc__, "cast and gather", [64, 1000], rounds=9)
