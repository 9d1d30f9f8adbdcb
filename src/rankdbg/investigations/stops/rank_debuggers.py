"""The debugger of a rank, as a DAP stream."""

from __future__ import annotations

from typing import Any

from rankdbg.errors import NodeFailed
from rankdbg.session import Session
from rankdbg.types import Rank
from rankdbg.wire.node_questions import BringPackage
from rankdbg.wire.streams import Stream

# A rank loads its debugger in half a second, from a slow disk in ten.
LOADING_SECONDS = 30.0


def open_debugger(session: Session, rank: Rank, tensor_summary: bool = True) -> Stream:
    """It is switched off when the stream ends. A rank whose environment has no debugpy gets a copy
    of rankdbg's."""
    process = [rank.pid, rank.process.start]
    # Breakpoints take effect when they are opened (breaks.open_gates).
    where: dict[str, Any] = {"process": process, "tensor_summary": tensor_summary, "together": True}
    stream, said = session.open_stream(rank.host, where, LOADING_SECONDS)
    if said.get("state") == "missing":
        stream.close()
        where["path"] = _bring(session, rank.host)
        stream, said = session.open_stream(rank.host, where, LOADING_SECONDS)
    if said.get("state") == "ready":
        return stream
    stream.close()
    if said.get("state") == "taken":
        raise NodeFailed("another editor is attached to this rank")
    raise NodeFailed(str(said.get("why") or "its agent is too old for editors"))


def _bring(session: Session, node: str) -> str:
    """Copy rankdbg's debugpy to the node; returns its path there."""
    from rankdbg.clusters.transport.debugpy_package import debugpy_archive

    version, files = debugpy_archive()
    for content in ("", files):
        question = BringPackage(name=f"debugpy-{version}", files=content)
        answer = session.ask_node(node, question, LOADING_SECONDS)
        if answer.path:
            return answer.path
    raise NodeFailed(f"{node} has no space for debugpy")
