"""What an agent needs to find the culprit of each job of the gallery, with `rankdbg mcp` alone.

A scripted agent asks `why`; if the job is stuck, it asks for the `stacks` of the culprit. It counts
calls and characters: those of the texts, which most clients show to their model, and those of the
structured answers. Where nothing is wrong, it must not name a culprit. A job that is caught before
it hangs is asked again.

  python benchmarks/mcp_agent.py [JOB...]
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

from _measuring import begin, table

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "tests/integration")]

from test_why import TABLE, Expected  # noqa: E402

from hanging import HangingJob  # noqa: E402
from mcp_client import Agent, connected  # noqa: E402

ATTEMPTS = 3
ROOM = 2000  # characters of the text of why


async def find(agent: Agent, expected: Expected, job: str) -> tuple[bool, list[str]]:
    """Whether the answer is right, and a row about it."""
    agent.asked.clear()
    why = await agent.ask("why", job=job)
    culprit = why.document.get("culprit", "")
    assert len(why.text) < ROOM, why.text
    if any(each["pid"] for each in why.document["processes"]):  # else it never started, or is gone
        stacks = await agent.ask("stacks", job=job, ranks=culprit)
        assert not stacks.is_error, stacks.text
    if expected.stuck:
        right = culprit == expected.culprit and why.document["cause"] in expected.causes
    else:
        right = not culprit
    texts = sum(len(answer.text) for _, answer in agent.asked)
    structured = sum(len(json.dumps(answer.document)) for _, answer in agent.asked)
    found = f"rank {culprit}, {why.document['cause']}" if culprit else why.document["state"]
    name = expected.start.program
    return right, [name, found, str(len(agent.asked)), str(texts), str(structured)]


async def ask_one(agent: Agent, expected: Expected, scratch: Path) -> tuple[bool, list[str]]:
    for attempt in range(ATTEMPTS):
        job = HangingJob(expected.start, scratch / f"{expected.start}-{attempt}")
        try:
            await asyncio.to_thread(job.wait)
            right, row = await find(agent, expected, job.job.name)
        finally:
            await asyncio.to_thread(job.end)
        if right:
            break
    return right, row


async def main(names: list[str]) -> int:
    begin("an agent with rankdbg mcp finds the culprits of the gallery", "two calls")
    rows, wrong = [], []
    with tempfile.TemporaryDirectory() as scratch:
        async with connected(os.environ) as agent:
            for expected in TABLE:
                name = expected.start.program
                if names and name not in names:
                    continue
                right, row = await ask_one(agent, expected, Path(scratch))
                rows.append(row)
                wrong += [] if right else [name]
                print(*row, "" if right else "WRONG", sep="\t", file=sys.stderr, flush=True)
    table([["job", "found", "calls", "characters", "structured"], *rows])
    for column, what in ((3, "characters of text"), (4, "characters of JSON")):
        figures = [int(row[column]) for row in rows]
        print(f"{what}: median {statistics.median(figures):.0f}, most {max(figures)}")
    print(
        f"right: {len(rows) - len(wrong)} of {len(rows)}" + (f"; wrong: {wrong}" if wrong else "")
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
