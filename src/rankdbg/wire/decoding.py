"""JSON -> values of declared types. What another process or a file says is decoded here, or refused
with one sentence that names the field.

A type is str, a Literal of these, int, float (any number), bool or Any; list[T], tuple[T, ...], tuple[T, U],
dict[str, T], T | U or T | None; or a class with annotated fields. An object may have more keys than its
class has fields. A field with a default may be missing, or null. An object that is decoded already
stays as it is.

The agent imports this module inside users' programs, so it loads nothing.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    T = TypeVar("T")
    Decoder = Callable[[Any], Any]

# Deeper than any valid value; deeper ones cannot be printed.
DEEPEST = 50
_LARGE = 2**64  # inodes have as many bits
_WORDS = {str: "a string", int: "a whole number", bool: "true or false", float: "a number"}
_decoders: dict[Any, Decoder] = {}


class BadField(ValueError):
    """The place at which a value is invalid, and what is expected there."""

    def __init__(self, expected: str) -> None:
        self._expected = expected
        self._place = ""

    def below(self, place: str) -> BadField:
        self._place = place + self._place
        return self

    def __str__(self) -> str:
        return f"{self._place.removeprefix('.') or 'it'} must be {self._expected}"


def decode(kind: type[T], value: Any, place: str = "") -> T:
    """Raises BadField, which names the place."""
    return _at(place, _decoder(kind), value)  # type: ignore[no-any-return]


def field_types(kind: type) -> dict[str, Any]:
    """The fields of a class and of its bases."""
    # Any is object here: the agent has no typing.
    names = {**vars(sys.modules[kind.__module__]), "Any": object}
    texts: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        texts.update(getattr(base, "__annotations__", {}))
    texts = {name: getattr(text, "__forward_arg__", text) for name, text in texts.items()}
    return {n: eval(text, names) if type(text) is str else text for n, text in texts.items()}


def _decoder(kind: Any) -> Decoder:
    if kind not in _decoders:
        _decoders[kind] = _make(kind)
    return _decoders[kind]


def _make(kind: Any) -> Decoder:
    origin: Any = getattr(kind, "__origin__", None)
    arguments: Any = getattr(kind, "__args__", ())
    if kind in _WORDS:
        return _number(kind) if kind in (int, float) else _plain(kind)
    if arguments and type(arguments[0]) is str:  # a Literal, of which others may know more
        return _plain(str)
    if kind is object:
        return _anything
    if type(kind) is type(int | None):
        choices = [_decoder(choice) for choice in arguments if choice is not type(None)]
        read = choices[0] if len(choices) == 1 else _either(choices)
        return _optional(read) if type(None) in arguments else read
    if origin is dict:
        return _mapping(_decoder(arguments[1]))
    if origin is list or arguments[1:] == (...,):
        return _list(_decoder(arguments[0]), origin)
    if origin is tuple:
        return _row([_decoder(part) for part in arguments], tuple)
    if hasattr(kind, "_make"):
        return _row([_decoder(part) for part in field_types(kind).values()], kind._make)
    return _object(kind)


def _plain(kind: type) -> Decoder:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise BadField(_WORDS[kind])
        return value

    return read


def _number(kind: type) -> Decoder:
    def read(value: Any) -> Any:
        if (type(value) is int and -_LARGE < value < _LARGE) or type(value) is kind is float:
            return value
        raise BadField(_WORDS[kind])

    return read


def _optional(item: Decoder) -> Decoder:
    """`T | None`: what is expected is T."""
    return lambda value: None if value is None else item(value)


def _either(choices: list[Decoder]) -> Decoder:
    def read(value: Any) -> Any:
        for choice in choices[:-1]:
            try:
                return choice(value)
            except BadField:
                continue
        return choices[-1](value)

    return read


def _list(item: Decoder, make: Callable[[list[Any]], Any]) -> Decoder:
    def read(value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            raise BadField("a list")
        try:
            return make([item(each) for each in value])
        except BadField:
            for index, each in enumerate(value):
                _at(f"[{index}]", item, each)
            raise

    return read


def _row(parts: list[Decoder], make: Callable[[list[Any]], Any]) -> Decoder:
    def read(value: Any) -> Any:
        if not isinstance(value, (list, tuple)) or len(value) != len(parts):
            raise BadField(f"a list of {len(parts)}")
        try:
            return make([part(each) for part, each in zip(parts, value)])  # noqa: B905 - same length
        except BadField:
            for index, part in enumerate(parts):
                _at(f"[{index}]", part, value[index])
            raise

    return read


def _mapping(item: Decoder) -> Decoder:
    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise BadField("an object")
        found = {}
        try:
            for key, each in value.items():
                found[key] = item(each)
        except BadField as error:
            raise error.below(f".{key}") from None
        return found

    return read


def _object(kind: type) -> Decoder:
    fields: list[tuple[str, Decoder, bool]] = []

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            if type(value) is kind:
                return value
            raise BadField("an object")
        if not fields:  # not earlier: a class may contain itself
            fields[:] = [
                (name, _decoder(wanted), not _has_default(kind, name))
                for name, wanted in field_types(kind).items()
            ]
        found = {}
        for name, field, required in fields:
            if required and name not in value:
                raise BadField(f"an object with {name!r}")
            if required or value.get(name) is not None:
                try:
                    found[name] = field(value[name])
                except BadField as error:
                    raise error.below(f".{name}") from None
        return kind(**found)

    return read


def _has_default(kind: type, name: str) -> bool:
    field = getattr(kind, "__dataclass_fields__", {}).get(name)
    return hasattr(kind, name) or callable(getattr(field, "default_factory", None))


def _at(place: str, item: Decoder, value: Any) -> Any:
    try:
        return item(value)
    except BadField as error:
        raise error.below(place) from None


def _anything(value: Any) -> Any:
    level = [value]
    for _ in range(DEEPEST):
        level = [
            item
            for inner in level
            if isinstance(inner, (list, tuple, dict))
            for item in (inner.values() if isinstance(inner, dict) else inner)
        ]
        if not level:
            return value
    raise BadField("less deeply nested")
