"""The stacks of this process, from inside and without stopping it."""

from __future__ import annotations

import sys

from rankdbg.agent import describe, threads, workers
from rankdbg.process import user_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType, TracebackType
    from typing import Any, TypeVar

    T = TypeVar("T")

# A runaway recursion can be a million frames deep; its two ends are enough.
DEEPEST = 1000
LOCALS_IN_FRAME = 50


# Threads that are held at an exception: its frames, outermost first, each with its line.
_raised: dict[int, dict[FrameType, int]] = {}


class Raised:
    """A context in which the stack of the calling thread is that of an exception, without the
    frames of the debugger that holds the thread."""

    def __init__(self, traceback: TracebackType) -> None:
        self._lines: dict[FrameType, int] = {}
        link: TracebackType | None = traceback
        while link is not None:
            self._lines[link.tb_frame] = link.tb_lineno
            link = link.tb_next

    def __enter__(self) -> None:
        _raised[threads.get_ident()] = self._lines

    def __exit__(self, *_: object) -> None:
        _raised.pop(threads.get_ident(), None)


def frames_below(
    traceback: TracebackType | None, calls: Callable[[str], bool]
) -> TracebackType | None:
    """The traceback without its outer frames for whose files `calls` is true: those that called
    the program's code. None if no frame is left."""
    while traceback is not None and calls(traceback.tb_frame.f_code.co_filename):
        traceback = traceback.tb_next
    return traceback


def raised_frames() -> list[FrameType]:
    """The frames of the exception at which the calling thread is held, innermost first."""
    return list(_raised.get(threads.get_ident(), ()))[::-1]


def innermost_frames() -> dict[int, FrameType]:
    """Of every thread except the calling one, unless that is held at an exception. (A frame that
    is in this dictionary and also holds it would never be freed, nor would its variables.)"""
    frames = sys._current_frames()
    del frames[threads.get_ident()]
    for ident, lines in list(_raised.items()):
        *_, frames[ident] = lines
    return frames


def collect(all_threads: bool, with_locals: bool) -> dict[str, Any]:
    main = workers.program_thread()
    found: list[dict[str, Any]] = []
    own = {*threads.own}  # of a thread that ends meanwhile, the outermost frames may be missing
    for ident, frame in innermost_frames().items():
        if ident in own or not (all_threads or ident == main):
            continue
        frames = _without_editor(list(walk(frame)))
        if threads.is_own(frames[-1]):
            continue
        about = {"name": thread_name(ident), "id": ident, "main": ident == main}
        found.append({**about, **describe_frames(frames, with_locals)})
    found.sort(key=lambda thread: (not thread["main"], thread["name"]))
    return {"threads": found}


def describe_frames(frames: list[FrameType], with_locals: bool) -> dict[str, Any]:
    """A stack, innermost frame first."""
    described: dict[str, Any] = {"frames": _described(frames)}
    if with_locals:
        callers_and_called = _ends(list(zip(frames, [None, *frames], strict=False)))
        shown = [_locals(frame, called) for frame, called in callers_and_called]
        described["locals"] = _with_gap(frames, shown, {})
    return described


def walk(frame: FrameType | None) -> Iterator[FrameType]:
    """This frame and its callers, innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _without_editor(stack: list[FrameType]) -> list[FrameType]:
    """The stack of a thread that is stopped in an editor, without the frames of debugpy."""
    files = [frame.f_code.co_filename for frame in stack]
    before_user = files[: user_code.innermost_user_frame(files)]
    debugging = [i for i, file in enumerate(before_user) if "/debugpy/_vendored/pydevd/" in file]
    return stack[debugging[-1] + 1 :] if debugging else stack


def where(ident: int | None = None) -> list[Any] | None:
    """The innermost frame of user code in this thread; by default, in the thread that does the
    program's work."""
    frames = list(walk(innermost_frames().get(ident or workers.program_thread())))
    if not frames:
        return None
    return line_of(frames[user_code.innermost_user_frame(f.f_code.co_filename for f in frames)])


def place(ident: int) -> list[Any] | None:
    """The innermost frame of a thread, without the frames of the debugger that stopped it."""
    frame = innermost_frames().get(ident)
    if frame is None:
        return None
    if ident in _raised:
        return line_of(frame)
    stack = list(walk(frame))
    debugging = [i for i, f in enumerate(stack) if f.f_code.co_filename.endswith("/bdb.py")]
    beyond = stack[debugging[-1] + 1 :] if debugging else stack
    own = user_code.is_agent
    return line_of(next((f for f in beyond if not own(f.f_code.co_filename)), frame))


def thread_name(ident: int) -> str:
    main = "MainThread" if ident == threads.main_thread() else f"thread {ident}"
    return _thread_names().get(ident) or main


def thread_frame(wanted: str | int | None) -> FrameType:
    """The innermost frame of the thread with this name or identifier."""
    if wanted is None:
        wanted = workers.program_thread()
    elif wanted == "main":
        wanted = threads.main_thread()
    names = _thread_names()
    known = []
    for ident, frame in innermost_frames().items():
        if str(wanted) in (str(ident), names.get(ident)):
            return frame
        *_, outermost = walk(frame)
        if not threads.is_own(outermost):
            known.append(names.get(ident) or str(ident))
    raise LookupError(f"no thread {wanted!r}; the threads are: {', '.join(sorted(known))}")


def variables(frame: FrameType, called: FrameType | None) -> dict[str, Any]:
    """A copy of the variables of a frame. `called`: the frame that it has called, if any.

    Until Python 3.12 a function's frame keeps the dictionary that f_locals returns, and the values
    in it: a tensor that the program has released would stay in memory for as long as the function
    runs. So that dictionary is emptied, unless the program may be using it: it has called
    locals(), or a tracer uses the frame (when a tracer returns, variables that are missing in the
    dictionary are deleted in the frame).
    """
    given = frame.f_locals
    copy = dict(given)
    if sys.version_info < (3, 13) and frame.f_code.co_flags & _CO_OPTIMIZED:
        by_tracer = called is not None and called.f_code.co_argcount in _TRACERS_ARGUMENTS
        traced = by_tracer or frame.f_trace or "pydevd" in sys.modules
        if not traced and sys.getrefcount(given) <= 3:  # the frame's, ours, and this call's
            given.clear()
    return copy


_CO_OPTIMIZED = 1
_TRACERS_ARGUMENTS = (3, 4)  # (self), frame, event, argument


def _described(frames: list[FrameType]) -> list[list[Any]]:
    left_out = [f"... {len(frames) - DEEPEST} frames left out ...", "", 0]
    return _with_gap(frames, [line_of(frame) for frame in _ends(frames)], left_out)


def _with_gap(frames: list[FrameType], shown: list[Any], gap: Any) -> list[Any]:
    """The shown entries, with the gap where frames are left out."""
    if len(frames) > DEEPEST:
        shown.insert(DEEPEST // 2, gap)
    return shown


def _ends(frames: list[T]) -> list[T]:
    if len(frames) <= DEEPEST:
        return frames
    return frames[: DEEPEST // 2] + frames[-DEEPEST // 2 :]


def line_of(frame: FrameType) -> list[Any]:
    code = frame.f_code
    # The qualified name (3.11 and later) is what py-spy shows as well.
    name = getattr(code, "co_qualname", code.co_name)
    line = next((lines[frame] for lines in list(_raised.values()) if frame in lines), None)
    return [name, code.co_filename, line or frame.f_lineno or code.co_firstlineno]


def _locals(frame: FrameType, called: FrameType | None) -> dict[str, str]:
    code = frame.f_code
    if not user_code.shows_variables(code.co_name, code.co_filename):
        return {}
    shown = {}
    for name, value in list(variables(frame, called).items())[:LOCALS_IN_FRAME]:
        if not (name.startswith("__") and name.endswith("__")):
            shown[str(name)] = describe.short_text(value)
    return shown


def _thread_names() -> dict[int, str]:
    """From the threading module, if the program has loaded it; its lock is not taken."""
    active = getattr(sys.modules.get("threading"), "_active", {})
    names: dict[int, str] = {}
    for ident, thread in list(active.items()):
        name = getattr(thread, "_name", None)
        if isinstance(name, str):
            names[ident] = workers.names.get(ident, name)
    return names
