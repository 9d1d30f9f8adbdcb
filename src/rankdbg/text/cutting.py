"""Texts made to fit: their beginning, or the end of a path."""

from __future__ import annotations

from rankdbg.text.escapes import visible_line

_FILE_NAME = 16  # characters that a name of a file often has


def cut(text: str, width: int) -> str:
    """At most `width` characters, on one line."""
    text = visible_line(text)
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def cut_path(text: str, width: int) -> str:
    """At most `width` characters; the end of a path says more than its beginning. The node that
    a path is on (`gpu-1:/var/log/…`) stays, if there is room for a file's name beside it."""
    text = visible_line(text)
    node, colon, _ = text.partition(":/")
    left = width - len(node) - 1
    if colon and "/" not in node and left >= _FILE_NAME:
        return f"{node}:{cut_path(text[len(node) + 1 :], left)}"
    return text if len(text) <= width else "…" + text[len(text) - width + 1 :]
