"""Native stacks of 8 torch ranks that hang in gloo: all at once, and one after the other.

The peer is what people do today: `pystack remote --native-all` for one process after the
other, whose output nobody has merged yet.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

from _measuring import BIN, begin, medians, milliseconds, processor_time, seconds, table
from _worlds import hung_torch_job

from rankdbg.session import Session
from rankdbg.types import Rank

WORLD, ROUNDS = 8, 5


def at_once(session: Session, ranks: list[Rank]) -> Callable[[], object]:
    def look() -> None:
        seen, silent = session.stacks(ranks, threads="all", engine="native")
        assert [sampled.source for sampled in seen] == ["pystack"] * WORLD, silent

    return look


def one_by_one(session: Session, ranks: list[Rank]) -> Callable[[], object]:
    def look() -> None:
        for rank in ranks:
            seen, silent = session.stacks([rank], threads="all", engine="native")
            assert [sampled.source for sampled in seen] == ["pystack"], silent

    return look


def serially(ranks: list[Rank]) -> Callable[[], object]:
    def loop() -> None:
        for rank in ranks:
            words = [str(BIN / "pystack"), "remote", "--native-all", str(rank.pid)]
            subprocess.run(words, check=True, capture_output=True)

    return loop


def main() -> None:
    budget = "all at once at least 1.5 times faster than one by one"
    begin(f"native stacks of {WORLD} torch ranks, 1 sample, median of {ROUNDS}", budget)
    with hung_torch_job(WORLD) as (job, ranks), job.session(timeout=60) as session:
        session.job(job.name)
        ways = {
            "all at once": at_once(session, ranks),
            "one by one": one_by_one(session, ranks),
            "pystack remote --native-all, serially": serially(ranks),
        }
        times = dict(zip(ways, medians(ROUNDS, *ways.values()), strict=True))
        busy = seconds(serially(ranks), processor_time)
    together, *_ = times.values()
    cores = len(os.sched_getaffinity(0))
    times[f"  its processor time on {cores} cores"] = busy / cores
    rows = [[way, milliseconds(time), f"{time / together:.2f}"] for way, time in times.items()]
    table([["", "median", "to all at once"], *rows])


if __name__ == "__main__":
    main()
