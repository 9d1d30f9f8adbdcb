"""One pdb command to many stopped ranks, gathered and grouped, on an open session.

The peer is what people do without it: one pdb after the other is not a tool that can be
timed, so it is the same command sent to one rank after the other here. Monarch 0.7 took
209 ms only to queue a cast to 64 ranks on a machine of this kind.
"""

from __future__ import annotations

import argparse

from _measuring import begin, medians, milliseconds, stopped_job, table

from rankdbg.frontends.reports.casts import CastReport
from rankdbg.session import Session
from rankdbg.types import Rank

BUDGETS = {64: "50 ms", 1000: "500 ms"}


def cast(session: Session, ranks: list[Rank]) -> None:
    report = CastReport(session.command(ranks, "p x\n"), ranks)
    assert sum(len(members) for _, members in report.groups) == len(ranks), report.as_json()


def measure(world: int, rounds: int) -> None:
    with stopped_job(world) as (job, ranks), job.session(timeout=30) as session:
        session.job(job.name)
        together, apart = medians(
            rounds,
            lambda: cast(session, ranks),
            lambda: [cast(session, [rank]) for rank in ranks[:64]],
        )
    apart *= world / min(64, world)
    rows = [
        ["cast all p x", milliseconds(together), BUDGETS.get(world, "")],
        ["one rank after the other", milliseconds(apart), ""],
        ["ratio", f"{together / apart:.2f}", ""],
    ]
    table([[f"{world} stopped ranks", "median", "budget"], *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("worlds", metavar="RANKS", nargs="*", type=int, default=[64, 1000])
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    begin(f"cast and gather, median of {options.rounds}")
    for world in options.worlds:
        measure(world, options.rounds)


if __name__ == "__main__":
    main()
