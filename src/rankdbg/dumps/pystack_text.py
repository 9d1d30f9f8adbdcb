"""What pystack prints, of a process or of a core file."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rankdbg.dumps.dumped_threads import DEEPEST, DumpedThread, parse_threads
from rankdbg.dumps.native_frames import NativeFrame

THREAD = re.compile(
    r"Traceback for thread (\d{1,18})(?: \((.*?)\))? (?:\[(.*)\] )?\(most recent call last\):$"
)
PID = re.compile(r"^\s*pid: (\d{1,9})", re.MULTILINE)
SIGNAL = re.compile(r"The process died due receiving signal (.*)")
_INTERPRETER = re.compile(r"  (?:In |Not currently attached).*\[(.*)\]$")
_FRAME = re.compile(r'    \((Python|C)\) File "(.*)", line (-?\d{1,9}), in (.*)$')
_VARIABLE = re.compile(r"        (\w[\w.]*|\.\d+): (.*)$")
_VARIABLES = ("      Arguments:", "      Locals:")
_UNKNOWN = ("???", "")


def parse(text: str) -> Iterator[DumpedThread]:
    return parse_threads(text, THREAD, PystackThreadReader)


class PystackThreadReader:
    """The lines after the head of one thread. pystack prints the innermost frame last."""

    def __init__(self, head: re.Match[str]) -> None:
        self._thread = DumpedThread(int(head[1]), head[2] or "thread", head[3] or "")
        self._in_variables = False

    def read(self, line: str) -> bool:
        """Whether the line is a part of it."""
        thread = self._thread
        if frame := _FRAME.match(line):
            if len(thread.frames) < DEEPEST:
                kind, file, number, rest = frame.groups()
                thread.frames.append(_frame(kind, file, max(0, int(number)), rest))
                thread.locals.append({})
            self._in_variables = False
        elif said := _INTERPRETER.match(line):
            thread.status = said[1]
        elif line in _VARIABLES:
            self._in_variables = True
        elif self._in_variables and thread.frames and (variable := _VARIABLE.match(line)):
            thread.locals[-1][variable[1]] = variable[2]
        else:  # the line of source; or the rest of a value
            return self._in_variables or not line or line[0].isspace()
        return True

    def result(self) -> DumpedThread:
        thread = self._thread
        has_locals = any(thread.locals)
        return DumpedThread(
            thread.number,
            thread.name,
            thread.status,
            thread.frames[::-1],
            thread.locals[::-1] if has_locals else [],
        )


def _frame(kind: str, file: str, line: int, rest: str) -> NativeFrame:
    if kind == "Python":
        return NativeFrame(rest, file, line, python=True)
    function, _, library = rest.rpartition(" (")
    library = library.removesuffix(")")
    source = "" if file in _UNKNOWN or file == library else file
    return NativeFrame(function.removesuffix(" (inlined)"), source, line, library)
