"""What has changed between two documents: places in it, each with its new value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Change = tuple[list[str | int], Any]  # the way to a value, and the value
# A list of which more than this share has changed is sent whole.
MOST_CHANGED = 0.25


def changes(old: Any, new: Any) -> list[Change]:
    """Applied to `old`, in this order, they make `new`. Both are JSON."""
    return [*_changes(old, new, [])]


def _changes(old: Any, new: Any, way: list[str | int]) -> Iterator[Change]:
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        for name, value in new.items():
            yield from _changes(old[name], value, [*way, name])
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        places = [place for place, value in enumerate(new) if value != old[place]]
        if len(places) > MOST_CHANGED * len(new) and not isinstance(new[places[0]], (dict, list)):
            yield way, new
            return
        for place in places:
            yield from _changes(old[place], new[place], [*way, place])
    else:
        yield way, new
