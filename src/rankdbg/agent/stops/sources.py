"""Finds files of code in this process by the names that users give, and their lines with code."""

from __future__ import annotations

import os
import sys
from types import AsyncGeneratorType, CodeType, CoroutineType, FunctionType, GeneratorType

from rankdbg.agent import stacks
from rankdbg.process.user_code import is_agent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

# Types of objects with code -> the attribute that holds it.
_CODE_OF: dict[type, str] = {
    FunctionType: "__code__",
    GeneratorType: "gi_code",
    CoroutineType: "cr_code",
    AsyncGeneratorType: "ag_code",
}
_CO_RESUMABLE = 0x20 | 0x80 | 0x200  # a generator, a coroutine, both


def matches(wanted: str, file: str) -> bool:
    """Whether a file is the wanted one: by its whole path or by the end of its path."""
    if file == wanted or file.endswith(f"/{wanted}"):
        return True
    if os.path.basename(file) != os.path.basename(wanted) or not os.path.isabs(wanted):
        return False
    return os.path.realpath(file) == os.path.realpath(wanted)


def loaded() -> set[str]:
    """The files from which the code of this process was loaded."""
    files = set()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and not file.endswith((".so", ".pyc")):
            files.add(file)
    files.update(code.co_filename for code in executing())
    return {file for file in files if not is_agent(file)}


def executing() -> Iterator[CodeType]:
    """The code objects of the frames of all threads."""
    for innermost in sys._current_frames().values():
        for frame in stacks.walk(innermost):
            yield frame.f_code


def alive() -> list[CodeType]:
    """The code objects of all functions, generators and coroutines, from whatever source (a
    notebook, cloudpickle, exec), and of all frames.

    Goes through all objects: 0.1 s in a process with a million of them.
    """
    import gc

    found: dict[int, CodeType] = {}
    for thing in gc.get_objects():
        where = _CODE_OF.get(type(thing))
        if where is not None:
            code = getattr(thing, where)
            found[id(code)] = code
    return [*found.values(), *executing()]


def find_unloaded(wanted: str) -> str | None:
    """An existing file that may be imported later."""
    for folder in ("", *sys.path):
        path = os.path.abspath(os.path.join(folder, wanted))
        if os.path.isfile(path):
            return path
    return None


def find_text(wanted: str) -> str | None:
    """A name for which linecache has text, for example of a notebook's cell that has not been
    executed yet."""
    return next((name for name in list(_linecache()) if matches(wanted, name)), None)


def compiled(file: str) -> list[CodeType]:
    """The code that its text compiles to, from disk or from linecache; empty if there is no text,
    or if it is not plain Python."""
    from _ast import PyCF_ALLOW_TOP_LEVEL_AWAIT  # cells of notebooks have it

    try:
        with open(file, "rb") as opened:
            text: bytes | str = opened.read()
    except (OSError, ValueError):
        entry = _linecache().get(file, ())
        text = "".join(entry[2]) if len(entry) == 4 else ""
    try:
        flags = PyCF_ALLOW_TOP_LEVEL_AWAIT
        return [compile(text, file, "exec", flags, dont_inherit=True)] if text else []
    except (SyntaxError, ValueError):
        return []


def _linecache() -> dict[str, Any]:
    """The cache of linecache, if the program has loaded that."""
    texts: dict[str, Any] = getattr(sys.modules.get("linecache"), "cache", {})
    return texts


def with_nested(codes: Iterable[CodeType]) -> Iterator[CodeType]:
    """These code objects, and those of the functions and classes inside them."""
    for code in codes:
        yield code
        yield from with_nested(const for const in code.co_consts if isinstance(const, CodeType))


def lines_of(code: CodeType) -> set[int]:
    return {line for _, _, line in code.co_lines() if line}


def entry_lines(code: CodeType) -> set[int]:
    """The lines at which a frame of it can be called or resumed."""
    first = {code.co_firstlineno}
    return first | lines_of(code) if code.co_flags & _CO_RESUMABLE else first
