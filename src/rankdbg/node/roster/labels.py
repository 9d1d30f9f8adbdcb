"""Labels of a process -> the valid ones.

They come from files and agents of any version, and from programs: they may contain anything.
"""

from __future__ import annotations

from collections.abc import Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LONGEST_TEXT = 1000
_NUMBERS = ("rank", "world", "local_rank", "node_rank", "place", "restart", "het")
_TEXTS = ("job", "role", "source", "engine", "part", "paused", "rendezvous", "dead", "outer", "run")
_NUMBERS_BY_NAME = ("mesh", "coordinates")
_TEXTS_BY_NAME = ("names", "environment")
_ANY_BY_NAME = ("multiprocessing",)


def sound_labels(said: Mapping[str, Any]) -> dict[str, Any]:
    """Without labels of a wrong type."""
    return {name: value for name, value in said.items() if value is None or _is_sound(name, value)}


def _is_sound(name: str, value: object) -> bool:
    if name in _NUMBERS:
        return is_number(value)
    if name in _TEXTS:
        return _is_text(value)
    if name in _NUMBERS_BY_NAME:
        return isinstance(value, dict) and all(map(is_number, value.values()))
    if name in _TEXTS_BY_NAME:
        return isinstance(value, dict) and all(map(_is_text, value.values()))
    if name in _ANY_BY_NAME:
        return isinstance(value, dict) and all(is_number(v) or _is_text(v) for v in value.values())
    return True


def is_number(value: object) -> bool:
    return type(value) is int and abs(value) < 1 << 63


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST_TEXT
