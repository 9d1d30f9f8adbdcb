"""Where the data of a page comes from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PageOrigin:
    command: str  # rankdbg why
    target: str
    time: str  # as ISO 8601
