"""From the answers of nodes about their log files to types."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from rankdbg.errors import NodeFailed, RankdbgError
from rankdbg.logs.places import FoundLogs, LogFile, merged


def read_found(answers: Iterable[tuple[str, Any]]) -> FoundLogs:
    """Each file once, whichever nodes see it."""
    found = FoundLogs()
    for node, answer in answers:
        if isinstance(answer, RankdbgError):
            found.silent_nodes[node] = answer.in_one_line()
            continue
        try:
            found.files += [LogFile.from_json(entry, node) for entry in answer["files"]]
            found.notes += [f"{node}: {note}" for note in answer["notes"]]
            found.clocks[node] = datetime.fromisoformat(answer["clock"]).timestamp()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = f"the answer of {node} about its logs is damaged ({type(error).__name__})"
            raise NodeFailed(what) from None
    found.files = merged(found.files)
    return found
