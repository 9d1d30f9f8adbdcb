"""The question `logs`: `do` is find (which files there are), scan (what patterns find
in them), read (their last messages) or new (those that have come since)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rankdbg import wire
from rankdbg.node import log_places
from rankdbg.node.discovery import Process


def answer(
    message: wire.Message, found: Sequence[Process], scope: Mapping[str, Any], deadline: float
) -> Any:
    match message.get("do"):
        case "find":
            wanted = log_places.Wanted.from_message(message)
            return log_places.find(found, wanted, scope.get("environment", {}))
        case "scan":
            from rankdbg.node import log_scan

            return log_scan.scan(message, deadline)
        case "read" | "new":
            from rankdbg.node import log_reading

            return log_reading.answer(message, deadline)
        case other:
            raise ValueError(f"nothing is called {other!r} that can be done with logs")
