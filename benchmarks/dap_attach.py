"""An editor on 8 local ranks: from attach to all stopped at a breakpoint, and what it costs.

Ours: one attach to `rankdbg dap`, which loads debugpy into the ranks when it starts: the first attach is
also counted from that start on, as when an editor's task starts it. The peer: ranks that have called
debugpy.listen() at their start, attached one after the other, as with a launch configuration a rank. Then what a step takes, until the rank is stopped again; and the speed of a loop
of calls before, during and after a session.
"""

from __future__ import annotations

import contextlib
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from _measuring import begin, table
from _worlds import PROGRAMS, Job

sys.path.insert(0, str(PROGRAMS.parent))
from dap_client import DapClient
from editor import DapServer, Editor

RANKS = 8
ROUNDS = 5
SLICES = 40
STEPS = 40
RANK = Path(__file__).parent / "_dap_rank.py"
LINE = next(n for n, text in enumerate(RANK.read_text().splitlines(), 1) if "# the break" in text)


@contextlib.contextmanager
def running(
    name: str, count: int, what: str, python: object = sys.executable, **env: str
) -> Iterator[Job]:
    with tempfile.TemporaryDirectory() as scratch:
        job = Job(f"{name}-{os.getpid()}", Path(scratch))
        job.start(python, PROGRAMS / "launch.py", count, RANK, what, env=env)
        try:
            job.wait_for(
                lambda ranks: (
                    len(ranks) == count
                    and {r.where.function if r.where else "" for r in ranks}
                    <= {what, "steps", "step", "call"}
                ),
                patience=120,
            )
            yield job
        finally:
            job.end()


def attach_once(server: DapServer) -> float:
    begun = time.perf_counter()
    editor = Editor(server)
    editor.break_at(RANK, LINE)
    for session in editor.attach_all(RANKS).values():
        session.event("stopped")
    taken = time.perf_counter() - begun
    editor.leave()
    time.sleep(1)  # who comes back at once waits until the debuggers are switched off
    return taken


def attach_one_by_one(base: int) -> float:
    begun = time.perf_counter()
    clients = [_attach(base + rank) for rank in range(RANKS)]
    taken = time.perf_counter() - begun
    for client in clients:
        client.ask("disconnect", terminateDebuggee=False)
        client.close()
    return taken


def _attach(port: int, wait: bool = True) -> DapClient:
    client = DapClient.connect(port)
    client.ask("initialize", adapterID="debugpy", linesStartAt1=True, pathFormat="path")
    client.request("attach", justMyCode=True)
    client.event("initialized")
    client.ask("setBreakpoints", source={"path": str(RANK)}, breakpoints=[{"line": LINE}])
    client.ask("configurationDone")
    if wait:
        client.event("stopped")
    return client


def memory(job: Job, *also: str) -> float:
    """MB a rank: its own, and of the adapters that belong to it."""
    pids = [rank.pid for rank in job.ranks()]
    pids += [int(p.name) for p in Path("/proc").glob("[0-9]*") if _is(p, *also)] if also else []
    return sum(_resident(pid) for pid in pids) / RANKS


def _is(process: Path, *words: str) -> bool:
    try:
        command = (process / "cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return False
    return all(word in command for word in words)


def _resident(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    return int(lines.partition("Pss:")[2].split()[0]) / 1024


def free_ports() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1]) % 20000 + 30000


def compare() -> None:
    """Each alone: ranks in which debugpy listens need half a processor to do nothing."""
    with running("bench-dap", RANKS, "steps") as ours:
        before = memory(ours)
        begun = time.perf_counter()
        with DapServer(ours) as server:
            starting = time.perf_counter() - begun
            mine = before, *(attach_once(server) for _ in range(1 + ROUNDS))
    base = free_ports()
    with running("bench-listen", RANKS, "steps", PORT=str(base)) as theirs:
        idle = memory(theirs, "debugpy", "adapter")
        yours = idle, *(attach_one_by_one(base) for _ in range(1 + ROUNDS))
    idle_first_next = [(side[0], side[1], statistics.median(side[2:])) for side in (mine, yours)]
    idle, first, next_ = zip(*idle_first_next, strict=True)
    table(
        [
            [f"{RANKS} ranks", "rankdbg dap", "debugpy.listen"],
            ["memory of a rank before", *(f"{value:.1f} MB" for value in idle)],
            ["first attach to all stopped", *(f"{value:.2f} s" for value in first)],
            ["with the start of rankdbg dap", f"{starting + first[0]:.2f} s", ""],
            [f"the next, median of {ROUNDS}", *(f"{value:.2f} s" for value in next_)],
        ]
    )


def step_times(client: DapClient) -> list[float]:
    """A user's: each comes a while after the stop before it."""
    thread, taken = client.event("stopped")["threadId"], []
    for _ in range(STEPS):
        time.sleep(0.05)
        begun = time.perf_counter()
        client.ask("next", threadId=thread)
        client.event("stopped")
        taken.append(time.perf_counter() - begun)
    return taken


def compare_steps() -> None:
    rows = [[f"{STEPS} steps of a rank", "rankdbg dap", "debugpy.listen"]]
    for what in ("steps", "steps_beside_others"):
        with running("bench-steps", 1, what) as job, DapServer(job) as server:
            editor = Editor(server)
            editor.break_at(RANK, LINE)
            ours = step_times(editor.attach_all(1)[0])
            editor.leave()
        port = free_ports()
        with running("bench-steps-2", 1, what, PORT=str(port)):
            theirs = step_times(_attach(port, wait=False))
        for name, figure in (("median", statistics.median), ("slowest", max)):
            label = f"{what.replace('_', ' ')}: {name}"
            rows.append([label, *(f"{figure(side) * 1000:.1f} ms" for side in (ours, theirs))])
    table(rows)


def speeds(job: Job) -> list[float]:
    """Calls a second of processor time, by rank: the best of some slices, since others use the
    machine."""
    with job.session() as session:
        ranks = session.job(job.name)
        seen: list[list[float]] = [[] for _ in ranks]
        while min(map(len, seen)) < SLICES:
            for index, answer in enumerate(session.evaluate(ranks, "speed")):
                value = answer.value.number  # type: ignore[union-attr]
                seen[index] += [value] if value and value not in seen[index] else []
            time.sleep(0.02)  # it measures while nobody asks
    return [max(values[2:]) for values in seen]  # the first began before


def loop_speed(python: object = sys.executable) -> None:
    """Of a rank with an editor, and of one beside it that none looks at: what both lose is the
    machine's."""
    with running("bench-calls", 2, "calls", python) as job, DapServer(job, "0") as server:
        rows = [("before", speeds(job))]
        editor = Editor(server)
        editor.break_at(RANK, LINE)
        editor.attach_all(1)
        rows.append(("with an editor", speeds(job)))
        editor.leave()
        job.wait_for(lambda ranks: bool(ranks))
        rows.append(("after it has left", speeds(job)))
        rows.append(("and once more", speeds(job)))
    if python == sys.executable:  # another may have no debugpy of its own
        with running("bench-calls-2", 2, "calls", PORT=str(free_ports())) as job:
            rows.append(("debugpy.listen(), nobody attached", speeds(job)))
    first, beside = rows[0][1]
    table(
        [
            ["a loop of calls", "calls/s", "of before", "the rank beside it"],
            *(
                [name, f"{ours / 1e6:.2f} million", f"{ours / first:.2f}", f"{other / beside:.2f}"]
                for name, (ours, other) in rows
            ),
        ]
    )


if __name__ == "__main__":
    os.environ.pop("PORT", None)
    begin("an editor on 8 ranks", "faster than one by one; after detach within 5 %")
    compare()
    compare_steps()
    loop_speed(*sys.argv[1:])
