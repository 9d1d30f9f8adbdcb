"""The source text of stopped threads: what pdb in this process can show.

pdb shows what linecache has. So before pdb shows text, and whenever a client asks, each file of a
stack is checked: is it on disk, and unchanged since it was loaded? If not, these texts are tried,
and the first that matches the code is put into linecache:

    text that was shown at an earlier stop, or that a client has sent
    text that the program has put into linecache, and IPython's own cache
    text from the module's loader (zip files, actors whose code was sent to them)

Imported when the first thread stops, not before.
"""

from __future__ import annotations

import io
import linecache
import os
import time
import tokenize
from collections.abc import Iterable, Iterator
from functools import cache
from types import CodeType, FrameType
from typing import Any

from rankdbg.agent.stops import source_fit, sources, stopped_threads
from rankdbg.process import rendezvous
from rankdbg.process.user_code import is_user_code

LONGEST_TEXT = 4 << 20
# Commands that show only text, and so need it.
SHOWING = ("l", "list", "ll", "longlist", "source")
# Clocks of file servers and hosts differ. A wrong guess only costs a compilation.
_CLOCKS_DIFFER = 1.0
# A job loads thousands of files; only a few of them are the user's own.
MOST_FILES = 20_000

# The lines of files, from when they matched the code in this process.
_matching: dict[str, list[str]] = {}
# Files whose text in linecache was put there by this module.
_shown: set[str] = set()
# Compiled texts, by file and hash of the text.
_compiled: dict[tuple[str, int], source_fit.Compiled | None] = {}
# Compiled files, with the identity that they had.
_on_disk: dict[str, tuple[list[int], source_fit.Compiled | None]] = {}


# --- checking -------------------------------------------------------------------------------


def check(stack: Iterable[FrameType]) -> list[dict[str, Any]]:
    """Put the best text of each file of the user's code in a stack into linecache.

    In the result, `text`: whether it is the text of the code in this process; `identity` and
    `changed`: of the file on disk.
    """
    by_file: dict[str, list[FrameType]] = {}
    for frame in stack:
        file = frame.f_code.co_filename
        if is_user_code(file) and not file.startswith("<"):
            by_file.setdefault(file, []).append(frame)
    seen = []
    for file, frames in by_file.items():
        try:
            seen.append(_check_file(file, frames))
        except OSError:  # a relative name, in a working directory that has been removed
            pass
    return seen


def lacking(stack: Iterable[FrameType]) -> set[str]:
    return {entry["file"] for entry in check(stack) if not entry["text"]}


def _check_file(file: str, frames: list[FrameType]) -> dict[str, Any]:
    codes = list({id(frame.f_code): frame.f_code for frame in frames}.values())
    identity = _identity(file)
    changed = identity is not None and _has_changed(file, identity, codes)
    if identity is not None and not changed:
        _take_from_disk(file)
        return {"file": file, "identity": identity, "text": True, "changed": False}
    for lines in _other_texts(file, frames[0]):
        if _fits(file, lines, codes):
            _show(file, lines)
            return {"file": file, "identity": identity, "text": True, "changed": changed}
    if not changed:
        # Else linecache would ask the loader of a module that has called exec(), and show the text
        # of that module.
        _show(file, [])
    return {"file": file, "identity": identity, "text": False, "changed": changed}


def _take_from_disk(file: str) -> None:
    if file in _shown:  # it was missing or different before
        _shown.discard(file)
        for name in _names(file):
            linecache.cache.pop(name, None)
    if lines := _cached(file):
        _matching[file] = lines


def _identity(file: str) -> list[int] | None:
    """If a client has the same identity, it sees the same file with the same content."""
    try:
        found = os.stat(_path(file))
    except (OSError, ValueError):
        return None
    return [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns]


def _path(file: str) -> str:
    """The path from which linecache would read it."""
    return file if os.path.isabs(file) else sources.find_unloaded(file) or file


def _has_changed(file: str, identity: list[int], codes: list[CodeType]) -> bool:
    """Whether a file has changed since it was loaded."""
    if identity[3] / 1e9 < _process_start() - _CLOCKS_DIFFER:
        return False
    if os.path.splitext(file)[1] not in (".py", ""):  # code of templates has their names
        return False
    known = _on_disk.get(file)
    if known is None or known[0] != identity:
        try:
            with tokenize.open(_path(file)) as opened:
                compiled = source_fit.compile_text(opened.read(), file, codes)
        except (OSError, SyntaxError, ValueError):
            compiled = None
        known = _on_disk[file] = identity, compiled
    return known[1] is None or not all(map(known[1].has, codes))


@cache
def _process_start() -> float:
    with open("/proc/uptime", "rb") as file:
        up = float(file.read().split()[0])
    return time.time() - up + rendezvous.start_time() / os.sysconf("SC_CLK_TCK")


def _other_texts(file: str, frame: FrameType) -> Iterator[list[str]]:
    """Texts that are not on disk."""
    yield _matching.get(file, [])
    yield _cached(file)
    entry = getattr(linecache, "_ipython_cache", {}).get(file)
    if entry:
        yield entry[2]
    loader: Any = frame.f_globals.get("__loader__")
    try:
        text = loader.get_source(frame.f_globals.get("__name__"))
    except Exception:  # a loader of the program may raise anything
        return
    if isinstance(text, str):
        yield _lines(text)


def _lines(text: str) -> list[str]:
    """Lines as Python counts them: neither a form feed nor U+2028 ends a line."""
    return io.StringIO(text).readlines()


def _cached(file: str) -> list[str]:
    entry: Any = linecache.cache.get(file, ())
    return entry[2] if len(entry) == 4 else []


def _fits(file: str, lines: list[str], codes: list[CodeType]) -> bool:
    if not lines:
        return False
    text = "".join(lines)
    key = file, hash(text)
    if key not in _compiled:
        _compiled[key] = source_fit.compile_text(text, file, codes)
    compiled = _compiled[key]
    return compiled is not None and all(map(compiled.has_piece, codes))


def _show(file: str, lines: list[str]) -> None:
    """Without a modification time, so that linecache does not compare it with the file."""
    if lines:
        _matching[file] = lines
    _shown.add(file)
    for name in _names(file):
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)


def _names(file: str) -> set[str]:
    """pdb uses the name in the code, and the absolute path of that name."""
    return {file, os.path.abspath(file)}


# --- for clients ----------------------------------------------------------------------------


def digest(file: str) -> dict[str, Any]:
    """Of the file on disk, to compare it with a file on another machine."""
    from _blake2 import blake2b

    try:
        with open(_path(file), "rb") as opened:
            return {"digest": blake2b(opened.read(), digest_size=16).hexdigest()}
    except OSError:
        return {"digest": None}


def digests() -> dict[str, str]:
    """Of the files on disk from which the user's code was loaded."""
    found = {}
    for file in sorted(sources.loaded())[:MOST_FILES]:
        path = os.path.abspath(_path(file)) if is_user_code(file) else ""
        known = digest(path)["digest"] if path.endswith(".py") else None
        if known:
            found[path] = known
    return found


def read(file: str) -> dict[str, Any]:
    """The text, for another process that lacks it: a notebook's kernel has the cells whose
    functions were sent to its workers."""
    text = "".join(_cached(file))
    if not text:
        try:
            with tokenize.open(_path(file)) as opened:
                text = opened.read(LONGEST_TEXT + 1)
        except (OSError, SyntaxError, ValueError):
            pass
    return {"text": text if 0 < len(text) <= LONGEST_TEXT else None}


def give(file: str, text: str) -> dict[str, Any]:
    """Take a client's copy of a file: shown from now on, if it matches the code here."""
    stopped = stopped_threads.everyone()
    frames = [f for stop in stopped for f in stop.stack if f.f_code.co_filename == file]
    lines = _lines(text)
    if not frames or len(text) > LONGEST_TEXT:
        return {"state": "not wanted"}
    if not _fits(file, lines, [frame.f_code for frame in frames]):
        return {"state": "differs"}
    _show(file, lines)
    for stop in stopped:
        stop.output = _with_text(stop.output, file)
    return {"state": "shown"}


def _with_text(output: str, file: str) -> str:
    """Output of pdb about lines in a file, with the text that was missing."""
    begins = tuple(f"{mark} {name}(" for mark in "> " for name in _names(file))
    before = output.split("\n")
    lines = []
    for line, following in zip(before, [*before[1:], ""], strict=True):
        lines.append(line)
        begin = next((begin for begin in begins if line.startswith(begin)), None)
        if begin is not None and not following.startswith("-> "):
            number = line[len(begin) :].partition(")")[0]
            if number.isdigit():
                lines.append(f"-> {linecache.getline(file, int(number)).strip()}")
    return "\n".join(lines)
