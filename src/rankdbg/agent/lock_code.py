"""Which locks, events and queues a function uses, from its bytecode: by which expression, where, and
inside which `with` a frame is.

Nothing of the program is called: a name is looked up in the variables of a frame, an attribute in
the dictionaries of an object and its classes.
"""

from __future__ import annotations

import dis

from rankdbg.agent import stacks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import CodeType, FrameType
    from typing import Any

WITH = "with"
_LOADS = ("LOAD_FAST", "LOAD_DEREF", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_CLASSDEREF")
_LEAVE_THE_VALUE = ("PUSH_NULL", "COPY", "SWAP", "DUP_TOP")
_ENTERS = ("BEFORE_WITH", "SETUP_WITH", "BEFORE_ASYNC_WITH")
# An `await` in a function that is suspended there.
_AWAITS = (
    "GET_AWAITABLE", "LOAD_CONST", "SEND", "YIELD_VALUE", "RESUME", "JUMP_BACKWARD_NO_INTERRUPT",
    "END_SEND", "YIELD_FROM",
)  # fmt: skip
_LONGEST_CODE = 40_000  # bytes: generated functions


class Use:
    """`self._lock.acquire` or `with self._lock` in a function."""

    def __init__(self, path: tuple[str, ...], method: str, offset: int, line: int) -> None:
        self.path, self.method, self.offset, self.line = path, method, offset, line

    @property
    def text(self) -> str:
        return ".".join(self.path).replace(".[", "[")


class Code:
    """One function's uses, and where its `with` blocks are."""

    def __init__(self, code: CodeType) -> None:
        self.uses: list[Use] = []
        self._calls: list[int] = []
        self._names: dict[int, str] = {}
        self._after: dict[int, int] = {}  # offset -> the next
        self._before: dict[int, int] = {}
        self._ends: dict[int, int] = {}  # until Python 3.10: where a `with` ends
        self._handlers = _handlers(code)
        if len(code.co_code) <= _LONGEST_CODE:
            self._read(code)

    def _read(self, code: CodeType) -> None:
        path: tuple[str, ...] = ()
        below: tuple[str, ...] = ()  # what was loaded before it
        line, before = code.co_firstlineno, 0
        lines = {start: number for start, _, number in code.co_lines() if number is not None}
        for each in dis.get_instructions(code):
            name, value, offset = each.opname, each.argval, each.offset
            line = lines.get(offset, line)
            self._names[offset], self._before[offset] = name, before
            self._after[before], before = offset, offset
            if name.startswith("CALL"):
                self._calls.append(offset)
            if name in _ENTERS or (name == "LOAD_SPECIAL" and "__enter__" in each.argrepr):
                self._add(Use(path, WITH, offset, line))
                if name == "SETUP_WITH":
                    self._ends[offset] = value
            elif name == "SETUP_ASYNC_WITH" and self.uses:
                self._ends[self.uses[-1].offset] = value
            elif name in ("LOAD_ATTR", "LOAD_METHOD"):
                self._add(Use(path, value, offset, line))
                path = (*path, value) if path else ()
            elif any(load in name for load in _LOADS):
                names = value if isinstance(value, tuple) else (value,)
                below, path = names[-2:-1] or path, names[-1:]
            elif name == "LOAD_CONST" and type(value) in (int, str):
                below, path = path, (repr(value),)
            elif name == "BINARY_SUBSCR" or (name == "BINARY_OP" and each.argrepr == "[]"):
                path, below = (*below, f"[{path[0]}]") if below and len(path) == 1 else (), ()
            elif name != "LOAD_SPECIAL" and name not in _LEAVE_THE_VALUE:
                path = below = ()

    def _add(self, use: Use) -> None:
        if use.path:
            self.uses.append(use)

    def current(self, at: int) -> Use | None:
        """What the call at this offset uses, or the `with` that begins there."""
        while self._names.get(at, "") in _AWAITS and self._before[at] < at:
            at = self._before[at]
        name = self._names.get(at, "")
        if name in _ENTERS:
            return next((use for use in self.uses if use.offset == at), None)
        if not name.startswith(("CALL", "PRECALL")):
            return None
        earlier = [use for use in self.uses if use.offset < at]
        if not earlier or any(earlier[-1].offset < call < at for call in self._calls):
            return None
        return earlier[-1]

    def is_held(self, use: Use, at: int) -> bool:
        """Whether a frame at this offset is inside of the `with`, or has called acquire() and not
        yet release()."""
        if use.method == WITH:
            return self._is_inside(use.offset, at)
        released = any(
            use.offset < other.offset < at and (other.path, other.method) == (use.path, "release")
            for other in self.uses
        )
        current = self.current(at)
        return use.offset < at and not released and current is not use

    def _is_inside(self, begin: int, at: int) -> bool:
        first = self._after.get(begin, -1)
        while self._names.get(first) in _AWAITS:  # of `async with`
            first = self._after.get(first, -1)
        if begin in self._ends:
            return first <= at < self._ends[begin]
        # A handler is covered by the handlers around it.
        end, around = self._handler(first), self._handler(at)
        seen = set()
        while around is not None and around not in seen:
            if around == end:
                return begin != at
            seen.add(around)
            around = self._handler(around)
        return False

    def _handler(self, offset: int) -> int | None:
        return next((to for start, end, to in self._handlers if start <= offset < end), None)


def _handlers(code: CodeType) -> list[tuple[int, int, int]]:
    """Begin, end and handler of each part; Python 3.10 has no such table."""
    parse = getattr(dis, "_parse_exception_table", None)
    if parse is None or not getattr(code, "co_exceptiontable", b""):
        return []
    return [(entry.start, entry.end, entry.target) for entry in parse(code)]


class Codes:
    """Each function is read once, and only if it has one of the names in question."""

    def __init__(self) -> None:
        self._read: dict[CodeType, Code] = {}

    def __getitem__(self, code: CodeType) -> Code:
        if code not in self._read:
            self._read[code] = Code(code)
        return self._read[code]

    def current(self, frame: FrameType) -> Use | None:
        return self[frame.f_code].current(frame.f_lasti)

    def uses(
        self, frame: FrameType, called: FrameType | None, methods: Iterable[str]
    ) -> Iterator[tuple[Use, Any]]:
        """With the object that each is about."""
        code, wanted = frame.f_code, {*methods}
        has_blocks = getattr(code, "co_exceptiontable", True)  # each `with` is one
        if not wanted.intersection(code.co_names) and not (WITH in wanted and has_blocks):
            return
        uses = [use for use in self[frame.f_code].uses if use.method in wanted]
        if not uses:
            return
        variables = stacks.variables(frame, called)
        for use in uses:
            yield use, look_up(use.path, variables, frame.f_globals)

    def is_held(self, frame: FrameType, use: Use) -> bool:
        return self[frame.f_code].is_held(use, frame.f_lasti)


def look_up(path: tuple[str, ...], variables: dict[str, Any], module: dict[str, Any]) -> Any:
    """The object; None if it cannot be found without calling anything."""
    name, *attributes = path
    found = variables.get(name, module.get(name))
    for name in attributes:
        if name.startswith("["):
            found = _item(found, name[1:-1], variables, module)
        else:
            found = attribute(found, name)
    return found


def _item(container: Any, key: str, variables: dict[str, Any], module: dict[str, Any]) -> Any:
    """Only where this calls no code of the program."""
    if key.isidentifier():
        index = variables.get(key, module.get(key))
    else:
        index = key[1:-1] if key.startswith(("'", '"')) else int(key)
    if type(container) not in (list, tuple, dict) or type(index) not in (int, str):
        return None
    try:
        return container[index]
    except (LookupError, TypeError):
        return None


def attribute(thing: Any, name: str) -> Any:
    """None for one that only code of the program could give: of a property, or a proxy."""
    own = _of_class(thing, "__dict__")
    if type(own).__name__ in ("dict", "mappingproxy") and name in own:
        return own[name]
    if any(name in each.__dict__ for each in type(thing).__mro__):
        return _of_class(thing, name)
    try:
        # Some classes of C keep a dictionary that cannot be had. No class has code for this name.
        return object.__getattribute__(thing, name)
    except (AttributeError, TypeError):
        return None


def _of_class(thing: Any, name: str) -> Any:
    for each in type(thing).__mro__:
        if name in each.__dict__:
            value = each.__dict__[name]
            by_interpreter = type(value).__name__ in ("member_descriptor", "getset_descriptor")
            return _read(value, thing) if by_interpreter else value
    return None


def _read(descriptor: Any, thing: Any) -> Any:
    try:
        return descriptor.__get__(thing)
    except AttributeError:
        return None
