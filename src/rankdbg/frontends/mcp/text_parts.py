"""What the texts of answers are made of: ranks, places, quotes, and as many lines as fit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rankdbg.frontends.mcp.job_text import is_marked, shorten
from rankdbg.selection import format_numbers
from rankdbg.text.cutting import cut, cut_path

Document = dict[str, Any]

LONGEST_LINE = 280
LONGEST_RANKS = 60
_LONGEST_FILE = 48


def fit(lines: Sequence[str], room: int) -> str:
    """As many of the lines as there is room for, and the number of those left out."""
    text = "\n".join(lines)
    if len(text) <= room:
        return text
    kept: list[str] = []
    used = 60  # for the last line
    for line in lines:
        used += len(line) + 1
        if used > room:
            break
        kept.append(line)
    return "\n".join([*kept, f"({len(lines) - len(kept)} more lines are left out)"])


def quoted(text: object, longest: int = LONGEST_LINE) -> str:
    """In quotes, once."""
    shown = str(text)
    return shown if is_marked(shown) else json.dumps(shorten(shown, longest), ensure_ascii=False)


def ranks_text(ranks: object, count: object = None) -> str:
    """rank 3; ranks 0-3; many are cut and counted."""
    text = str(ranks)
    if len(text) > LONGEST_RANKS:
        text = text[:LONGEST_RANKS].rpartition(",")[0] or text[:LONGEST_RANKS]
        text += f",… ({count})" if count else ",…"
    if not text[:1].isdigit():
        return text
    return f"rank {text}" if text.isdigit() else f"ranks {text}"


def place(frame: Document | None) -> str:
    """read_shard data.py:11"""
    if not frame:
        return ""
    file = str(frame["file"]).rpartition("/")[2] or str(frame["file"])
    line = f":{frame['line']}" if frame.get("line") else ""
    return f"{cut(str(frame['function']), 60)} {cut_path(file, _LONGEST_FILE)}{line}".strip()


def row(name: str, text: object, longest: int = LONGEST_LINE) -> list[str]:
    return [f"{name}: {cut(str(text), longest)}"] if text else []


def silent_lines(document: Document) -> list[str]:
    """Ranks and nodes without a response: the same reason once."""
    reasons: dict[str, list[Document]] = {}
    for each in document.get("no_response", ()):
        reasons.setdefault(str(each["reason"]), []).append(each)
    lines = [
        f"no response: {numbers_text(some)} ({cut(why, LONGEST_LINE)})"
        for why, some in reasons.items()
    ]
    nodes = document.get("no_response_nodes") or {}
    return lines + [
        f"no response: node {n} ({cut(str(w), LONGEST_LINE)})" for n, w in nodes.items()
    ]


def numbers_text(some: Sequence[Document]) -> str:
    """ranks 0-3; of those without a number, their pids."""
    numbers = [each["rank"] for each in some if each["rank"] is not None]
    if not numbers:
        return ", ".join(f"pid {each.get('pid')}" for each in some[:4])
    return ranks_text(format_numbers(numbers), len(numbers))


def notes(document: Document, most: int = 5) -> list[str]:
    return [f"note: {cut(str(note), LONGEST_LINE)}" for note in document.get("notes", ())[:most]]
