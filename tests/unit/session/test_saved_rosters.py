"""The processes of a snapshot do not change: who is who is decided once."""

from __future__ import annotations

import json
from pathlib import Path

from rankdbg.errors import SnapshotError
from rankdbg.session import Session

ROSTER = {"host": "node", "processes": []}


def write_snapshot(folder: Path) -> None:
    (folder / "nodes/0-node").mkdir(parents=True)
    head = {"snapshot": 1, "target": "local", "nodes": {"0-node": "node"}}
    (folder / "snapshot.json").write_text(json.dumps(head))
    saved = {"question": {"ask": "roster"}, "answer": ROSTER}
    (folder / "nodes/0-node/roster-1.json").write_text(json.dumps(saved))


def test_processes_are_read_once(tmp_path: Path) -> None:
    """Also for questions that want more of a live node."""
    write_snapshot(tmp_path)
    with Session(f"snapshot:{tmp_path}") as session:
        first = session.roster(where=False)
        assert session.roster(where=True) is first
        (refused,) = session.gpus().values()
        assert isinstance(refused, SnapshotError)  # no node is lost for that
        assert session.roster(where=True) is first
