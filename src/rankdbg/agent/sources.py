"""Files of code in this process by the names that users call them, and their lines with code."""

from __future__ import annotations

import os
import sys
from types import CodeType, FunctionType

from rankdbg.agent import stacks
from rankdbg.user_code import is_agent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def matches(wanted: str, file: str) -> bool:
    """Whether a file is the one that is meant: by its whole path or by the end of it."""
    if file == wanted or file.endswith(f"/{wanted}"):
        return True
    if os.path.basename(file) != os.path.basename(wanted) or not os.path.isabs(wanted):
        return False
    return os.path.realpath(file) == os.path.realpath(wanted)


def loaded() -> set[str]:
    """The files that code of this process comes from."""
    files = set()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and not file.endswith((".so", ".pyc")):
            files.add(file)
    files.update(code.co_filename for code in executing())
    return {file for file in files if not is_agent(file)}


def executing() -> Iterator[CodeType]:
    """The code of the frames of all threads."""
    for innermost in sys._current_frames().values():
        for frame in stacks.walk(innermost):
            yield frame.f_code


def find_unloaded(wanted: str) -> str | None:
    """A file that is there, and may be imported later."""
    for folder in ("", *sys.path):
        path = os.path.abspath(os.path.join(folder, wanted))
        if os.path.isfile(path):
            return path
    return None


def lines_with_code(file: str) -> set[int]:
    """Of the source, and where there is none (a notebook, exec), of the functions alive."""
    try:
        with open(file, "rb") as source:
            return _lines([compile(source.read(), file, "exec", dont_inherit=True)])
    except (OSError, SyntaxError, ValueError):
        pass
    import gc

    alive = [o.__code__ for o in gc.get_objects() if type(o) is FunctionType]
    return _lines(c for c in [*alive, *executing()] if c.co_filename == file)


def lines_of(code: CodeType) -> set[int]:
    return {line for _, _, line in code.co_lines() if line}


def _lines(codes: Iterable[CodeType]) -> set[int]:
    lines: set[int] = set()
    for code in codes:
        lines |= lines_of(code)
        lines |= _lines(const for const in code.co_consts if isinstance(const, CodeType))
    return lines
