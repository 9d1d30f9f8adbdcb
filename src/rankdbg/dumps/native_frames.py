"""Readable C and C++ frames.

A debugger shows everything: sixty template arguments, five functions inside one wait of libc,
and the interpreter calling itself between any two lines of Python. What is kept is what the
program called: of libc the one function, of the interpreter only what runs inside the
innermost line of Python, and names without arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

Home = Literal["python", "interpreter", "libc", "glue", "other"]


class NativeFrame(NamedTuple):
    """A line of a debugger's output; `python`: of Python, with function, file and line."""

    function: str
    file: str  # the source, or ``
    line: int
    library: str = ""
    python: bool = False


def readable(frames: Sequence[NativeFrame]) -> list[list[Any]]:
    """[function, source or library, line] of the frames worth reading, innermost first."""
    homes = [_home(frame) for frame in frames]
    kept: list[NativeFrame] = []
    inside_python = False  # whether these frames have called what is further in, as Python
    end = _beginning(homes)
    for index, (frame, home) in enumerate(zip(frames[:end], homes, strict=False)):
        if home == "python" or is_evaluation(frame):
            inside_python = True
        if home == "interpreter" and (inside_python or _is_calling(frame.function)):
            continue
        # Of a run of libc, what was called counts.
        if home == "glue" or (home == "libc" and homes[index + 1 : index + 2] == ["libc"]):
            continue
        kept.append(frame)
    if not kept and frames:
        kept.append(frames[0])
    return [_shown(frame) for frame in _without_repeats(kept)]


def _beginning(homes: Sequence[Home]) -> int:
    """Where the frames end that are of interest: how a thread or Python itself began is not."""
    kinds: tuple[Home, ...] = ("python", "other", "interpreter")
    for kind in kinds:
        if kind in homes:
            return len(homes) - homes[::-1].index(kind)
    return len(homes)


def _without_repeats(frames: Iterable[NativeFrame]) -> Iterable[NativeFrame]:
    """Functions without a name in a library without symbols, once."""
    last = None
    for frame in frames:
        if frame.function.startswith("?") and last == (frame.function, frame.library):
            continue
        last = frame.function, frame.library
        yield frame


def _shown(frame: NativeFrame) -> list[Any]:
    if frame.python:
        return [frame.function, frame.file, frame.line]
    name = plain_name(frame.function)
    if _home(frame) == "libc":  # the same, whether its sources are known on that machine or not
        return [_LIBC_DECORATION.sub("", name), frame.library or "libc.so.6", 0]
    if frame.file:
        return [name, frame.file, frame.line]
    return [name, frame.library, 0]


_LIBC_DECORATION = re.compile(r"^(__GI_)?_*(new_(?=sem_))?|(?<=wait)(_slow)?(64)?$")
_LIBC = re.compile(r"(?:^|/)(libc|libpthread|ld-linux[\w-]*|ld-musl[\w-]*)[-.][^/]*$")
# Sources of libc, where a debugger names those and not the library.
_LIBC_SOURCE = re.compile(r"^(\./|\.\./)(sysdeps|nptl|csu|io|socket|misc|time|stdlib|malloc)/")
_INTERPRETER = re.compile(r"(?:^|/)(libpython3[^/]*|python3?[.\d]*)$")
_INTERPRETER_SOURCE = re.compile(r"^(\./)?(Python|Objects|Modules|Include|Programs)/")
_GLUE = ("pybind11::", "nanobind::", "boost::python::")


def _home(frame: NativeFrame) -> Home:
    if frame.python:
        return "python"
    if _LIBC.search(frame.library) or (not frame.library and _LIBC_SOURCE.match(frame.file)):
        return "libc"
    if _INTERPRETER.search(frame.library) or _INTERPRETER_SOURCE.match(frame.file):
        return "interpreter"
    if frame.function.startswith(_GLUE):
        return "glue"
    if frame.function.startswith("?") and "libstdc++" in frame.library:
        return "glue"  # where std::thread begins
    if frame.function in ("_start", "main", "<signal handler called>"):
        return "glue"
    return "other"


def is_evaluation(frame: NativeFrame) -> bool:
    """Whether it executes lines of Python."""
    return not frame.python and frame.function.startswith(("_PyEval_Eval", "PyEval_Eval"))


_CALLING = re.compile(
    r"vectorcall|^_?PyObject_|^_?PyFunction_|^_?PyEval_|^(c?function|method|type|wrapper\w*)_call"
    r"|^call_function|^do_call_core|^slot_tp_|^_TAIL_CALL_|^cfunction_|^method_",
    re.IGNORECASE,
)


def _is_calling(function: str) -> bool:
    """How the interpreter gets from a line of Python into C: every time the same."""
    return bool(_CALLING.search(function))


_OPERATOR = re.compile(r"operator\s*(\(\)|<<=?|>>=?|<=>?|>=?|->\*?|[^\w\s(<]+|[\w: ]+)")
_SUFFIX = re.compile(
    r"(@@?GLIBC[\w.]*|\.(constprop|part|isra|cold|lto_priv)(\.\d+)?| \[clone.*\])+$"
)


def plain_name(symbol: str) -> str:
    """c10d::Work::wait for c10d::Work::wait(std::chrono::duration<long>); what is not
    understood stays as it is."""
    text = symbol.replace("(anonymous namespace)::", "").replace("{anonymous}::", "")
    text = _SUFFIX.sub("", text)
    if not any(bracket in text for bracket in "(<"):
        return text
    if "operator" in text:
        text = _OPERATOR.sub(lambda found: "operator", text)
    bare = _without_brackets(text)
    if bare is None:
        return symbol
    bare = re.sub(r"::+", "::", re.sub(r"\b(const|volatile)$|[&\s]+$", "", bare)).strip(": ")
    # A template's function is written with the type that it returns before it.
    name = bare.rpartition(" ")[2]
    return name or symbol


def _without_brackets(text: str) -> str | None:
    """Without (…), <…> and {…}; None if they do not close."""
    depth = 0
    kept = []
    for index, letter in enumerate(text):
        if letter in "(<{":
            depth += 1
        elif letter in ")}" or (letter == ">" and text[index - 1 : index] != "-"):
            depth -= 1
            if depth < 0:
                return None
        elif not depth:
            kept.append(letter)
    return "".join(kept) if depth == 0 else None
