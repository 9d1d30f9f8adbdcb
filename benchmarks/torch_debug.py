"""The stacks of torch ranks: through rankdbg's agents, and by torch.distributed.debug's server.

The peer is the page /stacks of `torch.distributed.debug.start_debug_server()`, which rank 0
serves to everybody on the network, and which merges nothing. Both look at the same ranks.
"""

from __future__ import annotations

import socket
import sys
import tempfile
import urllib.request
from pathlib import Path

from _measuring import begin, medians, milliseconds, table
from _worlds import Job, arrive

WORLD, ROUNDS = 4, 9
PROGRAM = """
import sys, time, torch.distributed as dist
dist.init_process_group("gloo")
try:
    from torch.distributed.debug import start_debug_server
    start_debug_server(port=int(sys.argv[1]))
except ImportError as error:
    print(error, file=sys.stderr)
def waits():
    time.sleep(3600)
dist.barrier()
waits()
"""


def page(port: int) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/stacks", timeout=60) as answer:
        text = answer.read()
    assert text.count(b"waits") >= WORLD, text[-2000:]


def main() -> None:
    begin(f"stacks of {WORLD} torch ranks, median of {ROUNDS}")
    with tempfile.TemporaryDirectory(prefix="rankdbg-bench-") as scratch:
        program = Path(scratch) / "program.py"
        program.write_text(PROGRAM)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        job = Job(f"bench-{port}", Path(scratch))
        try:
            torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", WORLD)
            launched = job.start(sys.executable, *torchrun, program, port)
            arrive(job, launched, WORLD)
            with job.session() as session:
                ranks = session.job(job.name)
                ours, theirs = medians(
                    ROUNDS, lambda: session.stacks(ranks, threads="all"), lambda: page(port)
                )
        finally:
            job.end()
    rows = [["", "ms", "ratio"], ["rankdbg stacks --threads all", milliseconds(ours), ""]]
    rows.append(["torch.distributed.debug, /stacks", milliseconds(theirs), f"{theirs / ours:.1f}"])
    table(rows)


if __name__ == "__main__":
    main()
