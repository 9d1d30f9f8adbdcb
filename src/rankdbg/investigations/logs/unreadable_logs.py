"""Logs that could not be read, in few lines: a role without a permission lacks it for all pods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rankdbg.text.amounts import counted

_NAMED = 3


def unreadable(errors: Iterable[tuple[str, str]]) -> list[str]:
    """`PLACE, PLACE: why`; places that cannot be read for the same reason share a line."""
    places: dict[str, list[str]] = {}
    for place, why in errors:
        places.setdefault(why, []).append(place)
    return [f"{_named(those)}: {why}" for why, those in places.items()]


def _named(places: Sequence[str]) -> str:
    named, others = ", ".join(places[:_NAMED]), len(places) - _NAMED
    return f"{named} and {counted(others, 'other file')}" if others > 0 else named
