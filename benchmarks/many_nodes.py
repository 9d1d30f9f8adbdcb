"""The client at 8,000 ranks: 1,000 simulated nodes of 8 ranks each, real messages, real pipes.

    python benchmarks/many_nodes.py [NODES ...]

The nodes are simulated by one process with a pair of pipes for each; what the client does is
all real: encoding, carrying, decoding, merging, grouping. No peer does this; the budget is
3 s and 1 GB at 1,000 nodes, and the figures shall grow with the number of nodes, not faster.
"""

from __future__ import annotations

import os
import resource
import selectors
import sys
import time
from collections.abc import Callable
from typing import Any

from rankdbg import grouping, wire
from rankdbg.clusters.transport import carrier
from rankdbg.clusters.transport.channel import AskedQuestion, Conversation, plain_opening
from rankdbg.session import Session
from rankdbg.types import Rank

RANKS_PER_NODE = 8
DEPTH = 30


# --- the nodes ------------------------------------------------------------------------------


def _process(node: int, local: int) -> list[int]:
    return [1000 + local, 5_000_000 + node]


def _stack(kind: int) -> list[dict[str, Any]]:
    frames = [[f"function_{depth}", f"/job/src/module_{depth}.py", depth] for depth in range(DEPTH)]
    frames[0] = ["all_reduce" if kind == 0 else f"odd_{kind}", "/job/src/train.py", 88]
    return [{"name": "MainThread", "main": True, "frames": frames}]


def _roster(node: int, message: wire.Message) -> Any:
    return {
        "host": f"node-{node}",
        "machine": f"machine-{node}",
        "processes": [
            {
                "pid": pid,
                "start": start,
                "ppid": 1,
                "job": "train",
                "kind": "rank",
                "number": node * RANKS_PER_NODE + local,
                "labels": {"job": "train", "rank": node * RANKS_PER_NODE + local, "world": 8000},
                "state": "running",
                "detail": "",
                "where": ["train_step", "/job/src/train.py", 88],
                "age": 100.0,
                "agent": True,
                "python": "/job/bin/python",
                "command": ["python", "-u", "/job/src/train.py", "--config", "large.yaml"],
            }
            for local in range(RANKS_PER_NODE)
            for pid, start in [_process(node, local)]
        ],
        "notes": [],
        "other_users": [],
    }


def _stacks(node: int, message: wire.Message) -> Any:
    kind = 1 if node == 7 else 0
    return {
        "distinct": [_stack(0), _stack(kind)],
        "processes": [
            {
                "process": _process(node, local),
                "samples": [int(local == 3)] * 3,
                "source": "agent",
                "why": "",
            }
            for local in range(RANKS_PER_NODE)
        ],
        "silent": [],
    }


def _command(node: int, message: wire.Message) -> Any:
    place = ["train_step", "/job/src/train.py", 88]
    value = {"state": "stopped", "output": "2.3145\n", "why": "", "where": place}
    return {
        "answers": [
            {"process": _process(node, local), "value": value} for local in range(RANKS_PER_NODE)
        ],
        "silent": [],
    }


ANSWERS = {"roster": _roster, "stacks": _stacks, "command": _command}


def simulate(pipes: list[tuple[int, int]]) -> None:
    """All nodes, until the client has gone."""
    selector = selectors.DefaultSelector()
    lines = {}
    for node, (incoming, _) in enumerate(pipes):
        selector.register(incoming, selectors.EVENT_READ, node)
        lines[node] = wire.Lines()
    while True:
        for key, _ in selector.select():
            data = os.read(key.fd, 1 << 16)
            if not data:
                os._exit(0)
            for line in lines[key.data].feed(data):
                message = wire.decode(line)
                answer = wire.hello()
                if "ask" in message:
                    content = ANSWERS[message["ask"]](key.data, message)
                    answer = {"id": message["id"], "answer": content}
                os.write(pipes[key.data][1], wire.encode_packed(answer))


# --- the way to them ------------------------------------------------------------------------


class PipeChannel:
    usable = True

    def __init__(self, node: str, incoming: int, outgoing: int) -> None:
        self._lines = wire.Lines()
        self._out = carrier.shared().write(outgoing)
        self._conversation = Conversation(node, self._send, plain_opening(node, {}))
        carrier.shared().read(incoming, self._hear)

    def begin(self, message: wire.Message) -> AskedQuestion:
        return self._conversation.begin(message)

    def hang_up(self) -> None:
        self._out.end()

    def close(self, deadline: float) -> None:
        pass

    def _send(self, message: wire.Message) -> None:
        self._out.send(wire.encode(message))

    def _hear(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            self._conversation.feed(line)


class Simulated:
    target, origin = "simulated", ""

    def __init__(self, nodes: int) -> None:
        there = [os.pipe() for _ in range(nodes)]
        back = [os.pipe() for _ in range(nodes)]
        if os.fork() == 0:
            for (_, write), (read, _) in zip(there, back, strict=True):
                os.close(write)
                os.close(read)
            simulate([(there[node][0], back[node][1]) for node in range(nodes)])
        for (read, _), (_, write) in zip(there, back, strict=True):
            os.close(read)
            os.close(write)
        self._pipes = [(back[node][0], there[node][1]) for node in range(nodes)]

    def nodes(self) -> list[str]:
        return [f"node-{node}" for node in range(len(self._pipes))]

    def open(self, node: str) -> PipeChannel:
        return PipeChannel(node, *self._pipes[int(node.removeprefix("node-"))])


# --- what is measured -----------------------------------------------------------------------


def measure(nodes: int) -> dict[str, float]:
    """In a process of its own, so that its memory is that of this number of nodes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4 * nodes + 200)), hard))
    cluster = Simulated(nodes)
    session = Session(timeout=60.0)
    session.cluster = cluster
    figures: dict[str, float] = {}
    ranks: list[Rank] = []

    def timed(name: str, work: Callable[[], Any]) -> Any:
        begun = time.perf_counter()
        result = work()
        figures[name] = time.perf_counter() - begun
        return result

    ranks = timed("ps", lambda: session.job("train"))
    assert len(ranks) == nodes * RANKS_PER_NODE

    def stacks() -> Any:
        seen, silent = session.stacks(ranks, samples=3, interval=0.0)
        assert not silent
        stacked = [(s.rank, *grouping.common_stack([m.frames for m in s.main()])) for s in seen]
        grouping.merge_stacks([(rank, frames) for rank, frames, _ in stacked])
        return grouping.group_stacks(stacked)

    groups = timed("stacks", stacks)
    assert [len(group.members) for group in groups][:1] == [1]
    answers = timed("cast", lambda: session.command(ranks, "p loss"))
    assert len(answers) == len(ranks)
    figures["MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    session.close()
    return figures


def main() -> None:
    counts = [int(word) for word in sys.argv[1:]] or [10, 100, 1000]
    print(f"{'nodes':>6} {'ranks':>6} {'ps':>8} {'stacks':>8} {'cast':>8} {'memory':>8}")
    for nodes in counts:
        read, write = os.pipe()
        if os.fork() == 0:
            os.write(write, wire.encode(measure(nodes)))
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as file:
            got = wire.decode(file.read())
        os.wait()
        times = " ".join(f"{got[name]:6.3f} s" for name in ("ps", "stacks", "cast"))
        print(f"{nodes:6} {nodes * RANKS_PER_NODE:6} {times} {got['MB']:5.0f} MB", flush=True)
    print("budget at 1,000 nodes: 3 s each, 1000 MB")


if __name__ == "__main__":
    main()
