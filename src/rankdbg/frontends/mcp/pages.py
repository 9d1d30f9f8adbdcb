"""What fits into an answer: lists are cut, what was left out is counted, a cursor leads to the rest."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rankdbg.errors import BadInput
from rankdbg.frontends.mcp.job_text import LONGEST

Document = dict[str, Any]

LIMITS = (100, 40, 20, 12, 8, 5, 3, 2, 1)
LIMITS_IN_PAGES = 20  # entries of a list in an entry of a page
SHARE = 0.7  # of the room is for the list that is paged through
MOST_CURSORS = 64
CURSOR_SECONDS = 300.0
# Mappings by rank or node. Other objects have a fixed set of keys, which are never cut.
MAPPINGS = frozenset(
    [
        "sources",
        "details",
        "why",
        "gil",
        "kernels",
        "locals",
        "nodes",
        "no_response_nodes",
        "clocks",
    ]
)


def size_of(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, default=str))


def fitted(document: Document, room: int, paged: str = "") -> tuple[Document, dict[str, int]]:
    """The document with lists as long as there is room for, and how much each lacks. `paged`: a
    list that is a page already, of which no entry is left out."""
    for limit in LIMITS:
        left_out: dict[str, int] = {}
        cut: Document = _cut({**document, paged: None}, limit, "", left_out)
        del cut[paged]
        if paged:
            items = [_cut(item, limit, f"{paged}[]", left_out) for item in document[paged]]
            cut = {name: items if name == paged else cut[name] for name in document}
        if _room_for(cut, limit) <= room:
            break
    return cut, left_out


def _cut(value: Any, limit: int, path: str, left_out: dict[str, int]) -> Any:
    if isinstance(value, dict):
        items = list(value.items())
        if path.rpartition(".")[2] in MAPPINGS and len(items) > limit:
            _count(left_out, path, len(items) - limit)
            items = items[:limit]
        return {
            key: _cut(item, limit, f"{path}.{key}".lstrip("."), left_out) for key, item in items
        }
    if isinstance(value, (list, tuple)):
        if len(value) > limit:
            _count(left_out, path, len(value) - limit)
        return [_cut(item, limit, f"{path}[]", left_out) for item in value[:limit]]
    return value


def _count(left_out: dict[str, int], path: str, number: int) -> None:
    left_out[path] = left_out.get(path, 0) + number


@dataclass(frozen=True)
class RemainingPages:
    """What a cursor stands for: the whole answer of a tool, and where the next page begins."""

    tool: str
    document: Document
    place: int
    until: float


class Cursors:
    """Answers whose next page may be asked for. A cursor can be used again, until it expires."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rests: OrderedDict[str, RemainingPages] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, tool: str, document: Document, place: int) -> str:
        token = secrets.token_hex(8)
        with self._lock:
            self._rests[token] = RemainingPages(
                tool, document, place, self._clock() + CURSOR_SECONDS
            )
            while len(self._rests) > MOST_CURSORS:
                self._rests.popitem(last=False)
        return token

    def take(self, tool: str, token: str) -> RemainingPages:
        with self._lock:
            rest = self._rests.get(token)
        if rest is None or rest.until < self._clock():
            raise BadInput("unknown or expired cursor", hint=f"call {tool} again without a cursor")
        if rest.tool != tool:
            raise BadInput(f"the cursor is one of {rest.tool}, not of {tool}")
        return rest


def _room_for(item: Any, most: int = LIMITS_IN_PAGES) -> int:
    """As it will be shown: long texts are cut, and lists after `most` entries."""
    if isinstance(item, str):
        return min(len(item), LONGEST) + 4
    if isinstance(item, dict):
        return sum(len(str(key)) + 4 + _room_for(value, most) for key, value in item.items()) + 4
    if isinstance(item, (list, tuple)):
        return sum(_room_for(each, most) for each in item[:most]) + 4
    return len(str(item)) + 2


def page_of(items: list[Any], place: int, room: int, from_end: bool) -> tuple[list[Any], int]:
    """The items of a page, and the place of the next one. `from_end`: the last items first, as of a
    log; in a page the order stays."""
    used, end = 0, place
    ordered = items[::-1] if from_end else items
    for item in ordered[place:]:
        used += _room_for(item)
        if used > room and end > place:
            break
        end += 1
    page = ordered[place:end]
    return (page[::-1] if from_end else page), end
