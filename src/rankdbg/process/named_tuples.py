"""typing.NamedTuple without typing, whose import takes 8 ms in every pod.

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from rankdbg.process.named_tuples import NamedTuple
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OF_CLASSES = ("__module__", "__qualname__", "__annotations__", "__dict__", "__weakref__")


class _Maker(type):
    def __new__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> Any:
        if not bases:
            return super().__new__(cls, name, bases, space)
        fields = [*space["__annotations__"]]
        defaults = [space.pop(field) for field in fields if field in space]
        made = namedtuple(name, fields, defaults=defaults, module=space["__module__"])  # type: ignore[misc]
        for key, value in space.items():
            if key not in _OF_CLASSES:
                setattr(made, key, value)
        return made


class NamedTuple(metaclass=_Maker):
    """A class below it is a tuple with named fields."""
