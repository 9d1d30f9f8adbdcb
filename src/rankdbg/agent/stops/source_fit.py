"""Whether a text is the source of the code in this process: compiles the text, and compares.

Imported when the first thread stops, not before.
"""

from __future__ import annotations
import __future__

from ast import PyCF_ALLOW_TOP_LEVEL_AWAIT
from collections.abc import Iterable
from types import CodeType
from typing import Any

from rankdbg.agent.stops import sources

_PLAIN = (int, float, complex, str, bytes, bool, type(None))


class Compiled:
    """The code that a text compiles to."""

    def __init__(self, text: str, file: str, future: int) -> None:
        """Raises SyntaxError or ValueError. `future`: flags with which the code was compiled. Text
        that was passed to exec() need not contain them."""
        # Cells of a notebook may use await outside of functions.
        flags = future | PyCF_ALLOW_TOP_LEVEL_AWAIT
        module = compile(text, file, "exec", flags=flags, dont_inherit=True)
        everything = list(sources.with_nested([module]))
        self._signatures = {_signature(code) for code in everything}
        self._lines = set().union(*map(sources.lines_of, everything))
        self._names = {name for code in everything for name in (*code.co_names, *code.co_varnames)}

    def has(self, code: CodeType) -> bool:
        return _signature(code) in self._signatures

    def has_piece(self, code: CodeType) -> bool:
        """Also code of a single statement: IPython compiles a cell statement by statement."""
        if self.has(code):
            return True
        whole = code.co_name.startswith(("<module", "<cell"))
        return (
            whole
            and sources.lines_of(code) <= self._lines
            and self._names.issuperset(code.co_names)
        )


def compile_text(text: str, file: str, codes: Iterable[CodeType]) -> Compiled | None:
    """None if the text is not Python."""
    future = 0
    for code in codes:
        future |= code.co_flags & __future__.annotations.compiler_flag
    try:
        return Compiled(text, file, future)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _signature(code: CodeType) -> tuple[Any, ...]:
    """Equal for two versions of a function whose difference does not matter to a user who reads
    the text beside the values."""
    constants = tuple(repr(const) for const in code.co_consts if type(const) in _PLAIN)
    lines = frozenset(sources.lines_of(code))
    place = (code.co_name, code.co_firstlineno, lines)
    return (*place, code.co_names, code.co_varnames, constants)
