"""Into a rank: its debugger, as a stream that speaks DAP."""

from __future__ import annotations

from typing import Any

from rankdbg.errors import NodeFailed
from rankdbg.session import Session
from rankdbg.streams import Stream
from rankdbg.types import Rank

# A rank loads its debugger in half a second, from a slow disk in ten.
LOADING_SECONDS = 30.0


def open_debugger(session: Session, rank: Rank, tensor_summary: bool = True) -> Stream:
    """It is switched off when the stream ends. A rank whose environment has no debugpy gets a
    copy of ours."""
    process = [rank.pid, rank.process.start]
    where: dict[str, Any] = {"process": process, "tensor_summary": tensor_summary}
    stream, said = session.open_stream(rank.host, where, LOADING_SECONDS)
    if said.get("state") == "missing":
        stream.close()
        where["path"] = _bring(session, rank.host)
        stream, said = session.open_stream(rank.host, where, LOADING_SECONDS)
    if said.get("state") == "ready":
        return stream
    stream.close()
    if said.get("state") == "taken":
        raise NodeFailed("another editor has this rank")
    raise NodeFailed(str(said.get("why") or "its agent knows no editors: it is too old"))


def _bring(session: Session, node: str) -> str:
    """The path there of our debugpy."""
    from rankdbg.clusters.bringing import debugpy_archive

    version, files = debugpy_archive()
    for content in ({}, {"files": files}):
        question = {"ask": "bring", "name": f"debugpy-{version}", **content}
        answer = session.ask_node(node, question, LOADING_SECONDS)
        if answer.get("path"):
            return str(answer["path"])
    raise NodeFailed(f"{node} has no place for debugpy")
