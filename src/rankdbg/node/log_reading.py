"""The question `logs`: `read` (the last messages of some files) and `new` (what has come since)."""

from __future__ import annotations

from typing import Any

from rankdbg import wire
from rankdbg.logs.entries import Position, Reading, Wanted
from rankdbg.logs.following import read_new
from rankdbg.logs.reading import read
from rankdbg.masking import mask_text


def answer(message: wire.Message, deadline: float) -> Any:
    wanted = Wanted.from_json(message["wanted"])
    if message["do"] == "new":
        positions = {file: Position(*position) for file, *position in message["positions"]}
        return masked(read_new(wanted, positions)).as_json()
    return masked(read(wanted, deadline)).as_json()


def masked(reading: Reading) -> Reading:
    """Nothing that looks like a secret leaves the machine."""
    reading.entries = [e._replace(text=mask_text(e.text)) for e in reading.entries]
    return reading
