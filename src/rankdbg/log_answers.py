"""From the answers of nodes about their log files to types."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from rankdbg.answers import understanding
from rankdbg.errors import RankdbgError
from rankdbg.logs.places import FoundLogs, LogFile, merged


def read_found(answers: Iterable[tuple[str, Any]]) -> FoundLogs:
    """Each file once, whichever nodes see it."""
    found = FoundLogs()
    for node, answer in answers:
        if isinstance(answer, RankdbgError):
            found.silent_nodes[node] = answer.in_one_line()
            continue
        with understanding(node, "logs"):
            found.files += [LogFile.from_json(entry, node) for entry in answer["files"]]
            found.notes += [f"{node}: {note}" for note in answer["notes"]]
            found.clocks[node] = datetime.fromisoformat(answer["clock"]).timestamp()
    found.files = merged(found.files)
    return found
