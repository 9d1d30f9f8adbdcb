"""Merged stacks of 64 real ranks: through their agents, and from outside.

The peer is what people do today: `py-spy dump` for one process after the other, whose output
nobody has merged yet. Once as they type it, and once as rankdbg calls it (--nonblocking: the
process is not stopped; py-spy itself pauses it otherwise).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

from _measuring import (
    BIN,
    begin,
    command,
    medians,
    milliseconds,
    processor_time,
    seconds,
    table,
)
from _worlds import waiting_job

from rankdbg.investigations.stacks.merged_stacks import MergedStacks
from rankdbg.session import Session
from rankdbg.types import Rank

WORLD, ROUNDS = 64, 7
BUDGETS = "through agents 100 ms; from outside a third of the serial loop"


def merged(session: Session, ranks: list[Rank], outside: bool) -> Callable[[], object]:
    """On a session that is open, as in the shell: what a second look costs."""

    def look() -> None:
        seen, silent = session.stacks(ranks, outside=outside)
        assert len(seen) == WORLD, silent
        assert len(MergedStacks(seen, silent, ranks).as_json()["groups"]) == 2

    return look


def serially(ranks: list[Rank], *options: str) -> Callable[[], object]:
    def loop() -> None:
        for rank in ranks:
            words = [str(BIN / "py-spy"), "dump", *options, "--pid", str(rank.pid)]
            subprocess.run(words, check=True, capture_output=True)

    return loop


def main() -> None:
    begin(f"stacks of {WORLD} ranks, 1 sample, median of {ROUNDS}", BUDGETS)
    with waiting_job(WORLD) as (job, ranks), job.session() as session:
        session.job(job.name)  # the node's session finds the ranks, as a command does first
        verb = (BIN / "rankdbg", "stacks", "--job", job.name, "--samples", "1", "--json")
        where = {"RANKDBG_DIR": str(job.directory)}
        ways = {
            "through agents": merged(session, ranks, outside=False),
            "  the whole command": command(*verb, **where),
            "from outside": merged(session, ranks, outside=True),
            "  the whole command with --outside": command(*verb, "--outside", **where),
            "py-spy dump --nonblocking --json, serially": serially(
                ranks, "--json", "--nonblocking"
            ),
            "py-spy dump, serially": serially(ranks),
        }
        times = dict(zip(ways, medians(ROUNDS, *ways.values()), strict=True))
        busy = seconds(ways["py-spy dump --nonblocking --json, serially"], processor_time)
    *_, like_ours, plain = times.values()
    cores = len(os.sched_getaffinity(0))
    # py-spy computes all the while (symbol tables): on few cores that is the least it can take.
    times[f"  its processor time on {cores} cores"] = busy / cores
    rows = [
        [way, milliseconds(time), f"{time / like_ours:.2f}", f"{time / plain:.2f}"]
        for way, time in times.items()
    ]
    table([["", "median", "to the loop with --nonblocking", "to the plain loop"], *rows])


if __name__ == "__main__":
    main()
