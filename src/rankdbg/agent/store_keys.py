"""Keys of torch's stores: for which one a thread waits, and which ones functions on a stack set.

A key is read from the bytecode of the call: a constant, a variable, or a text made of these. Nothing
of the program is called, and the store is not asked: its connection serves one call at a time.
"""

from __future__ import annotations

import dis

from rankdbg.agent.lock_code import attribute, look_up
from rankdbg.agent.waiters import place, variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType
    from typing import Any

    from rankdbg.agent.lock_code import Codes, Use
    from rankdbg.agent.waiters import Waiter

WAITS = ("get", "wait", "multi_get")
SETS = ("set", "multi_set", "compare_set")
_MOST_KEYS = 64
_LONGEST_KEY = 200
_PASSED_OVER = ("PUSH_NULL", "PRECALL", "CACHE", "RESUME", "KW_NAMES", "NOP", "EXTENDED_ARG")


def collect(threads: Iterable[Waiter], codes: Codes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for thread in threads:
        for frame, called in thread.calls():
            for use, store in codes.uses(frame, called, (*WAITS, *SETS)):
                if _is_store(store):
                    found += _described(frame, use, thread, store)
    return found[:_MOST_KEYS]


def _is_store(thing: Any) -> bool:
    return any(
        each.__name__ == "Store" and each.__module__.startswith("torch.")
        for each in type(thing).__mro__
    )


def _described(frame: FrameType, use: Use, thread: Waiter, store: Any) -> Iterator[dict[str, Any]]:
    given, call = _first_argument(frame, use)
    is_inside = call == frame.f_lasti and frame is thread.frames[0]
    for key in given if type(given) is list else [given]:
        if type(key) is str and (use.method in SETS or is_inside):
            yield {
                "key": key[:_LONGEST_KEY],
                "call": use.method,
                "thread": thread.ident,
                "where": place(frame, use.line),
                "store": type(store).__name__,
            }


class _Unknown:
    """A value that only code of the program could give."""


_UNKNOWN = _Unknown()


def _first_argument(frame: FrameType, use: Use) -> tuple[Any, int]:
    """Of the call of this method, and where that call is; unknown if it needs another call."""
    values: list[Any] = []
    scope = variables(frame), frame.f_globals
    for each in dis.get_instructions(frame.f_code):
        if each.offset <= use.offset or each.opname in _PASSED_OVER:
            continue
        if each.opname.startswith("CALL"):
            count = each.arg or 0
            return (values[0], each.offset) if 0 < count == len(values) else (_UNKNOWN, -1)
        _apply(each, values, *scope)
    return _UNKNOWN, -1


def _apply(each: dis.Instruction, values: list[Any], local: dict[str, Any], module: Any) -> None:
    """One instruction on the values that the call will get."""
    name, count = each.opname, each.arg or 0
    if name == "LOAD_CONST":
        values.append(each.argval)
    elif name.startswith(("LOAD_FAST", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF")):
        names = each.argval if isinstance(each.argval, tuple) else (each.argval,)
        values.extend(look_up((str(one),), local, module) for one in names)
    elif name == "LOAD_ATTR" and values:
        values.append(attribute(values.pop(), str(each.argval)))
    elif name in ("FORMAT_SIMPLE", "FORMAT_VALUE") and values and not (name[-1] == "E" and count):
        values.append(_text(values.pop()))
    elif name in ("BUILD_STRING", "BUILD_LIST") and count <= len(values):
        parts = [values.pop() for _ in range(count)][::-1]
        texts = all(type(part) is str for part in parts)
        values.append(parts if name == "BUILD_LIST" else "".join(parts) if texts else _UNKNOWN)
    elif name in ("BINARY_OP", "BINARY_ADD") and len(values) > 1:
        right, left = values.pop(), values.pop()
        added = (each.argrepr == "+" or name == "BINARY_ADD") and type(left) is type(right) is str
        values.append(left + right if added else _UNKNOWN)
    else:
        values.append(_UNKNOWN)


def _text(value: Any) -> Any:
    return str(value) if type(value) in (str, int, bool) else _UNKNOWN
