"""`rankdbg why` on 64 real ranks, and what `rankdbg watch` costs a rank.

The peer is what people do today: a serial loop of `py-spy dump`, whose output nobody has read
yet. The cost of a look of watch is taken from the kernel's own count of the ranks' processor
time, which a busy machine changes least.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from _measuring import BIN, begin, command, medians, seconds, table
from _worlds import waiting_job

from rankdbg.investigations.watch.stillness import Stillness
from rankdbg.investigations.watch.watch_settings import WatchSettings
from rankdbg.session import Session
from rankdbg.types import Rank

WORLD, ROUNDS, LOOKS = 64, 5, 50
BUDGET = "3 s for two samples half a second apart; a watched rank loses under 0.1 %"


def serially(ranks: list[Rank]) -> None:
    for rank in ranks:
        words = [str(BIN / "py-spy"), "dump", "--pid", str(rank.pid)]
        subprocess.run(words, check=True, capture_output=True)


def spent(rank: Rank) -> float:
    """The processor time of all its threads, in seconds."""
    tasks = Path(f"/proc/{rank.pid}/task").glob("*/schedstat")
    return sum(int(path.read_text().split()[0]) for path in tasks) / 1e9


def cost_of_looks(session: Session, ranks: list[Rank]) -> tuple[float, float]:
    """Of one look: seconds here, and of a rank's processor time."""
    stillness = Stillness()
    stillness.look(session, ranks, 0.0)
    before = [spent(rank) for rank in ranks]

    def look() -> None:
        for _ in range(LOOKS):
            session.forget()
            stillness.look(session, ranks, 0.0)

    elapsed = seconds(look) / LOOKS
    used = [spent(rank) - was for rank, was in zip(ranks, before, strict=True)]
    # Threads that ended in between (one answers each look) are in the process's own count.
    return elapsed, max(used) / LOOKS


def main() -> None:
    begin(f"why on {WORLD} ranks, median of {ROUNDS}", BUDGET)
    with waiting_job(WORLD) as (job, ranks), job.session() as session:
        os.environ["RANKDBG_DIR"] = str(job.directory)
        ranks = session.job(job.name)
        ask = (BIN / "rankdbg", "why", "--job", job.name, "--json")
        two = ("--samples", "2", "--for", "0.5", "--longest", "0.5")
        ways = {
            "rankdbg why, through agents": command(*ask, *two),
            "rankdbg why --outside": command(*ask, *two, "--outside"),
            "py-spy dump, one by one": lambda: serially(ranks),
        }
        taken = dict(zip(ways, medians(ROUNDS, *ways.values()), strict=True))
        peer = taken["py-spy dump, one by one"]
        rows = [["", "seconds", "of the loop's"]]
        rows += [[name, f"{value:.2f}", f"{value / peer:.2f}"] for name, value in taken.items()]
        table(rows)
        elapsed, used = cost_of_looks(session, ranks)
        every = WatchSettings().look_every
        print(
            f"a look of watch: {elapsed * 1e3:.0f} ms here, {used * 1e3:.2f} ms of a rank's "
            f"processor; every {every:.0f} s that is {used / every:.4%}"
        )


if __name__ == "__main__":
    main()
