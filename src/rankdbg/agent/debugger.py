"""pdb in a thread of a rank, with a stop for its terminal.

Imported when the first thread stops, not before: pdb brings a dozen modules with it.
"""

from __future__ import annotations

import code
import dis
import pdb
import sys
from contextlib import redirect_stdout
from types import FrameType, TracebackType
from typing import Any, cast

from rankdbg.agent import breaks, native, source_texts, stacks, stops, threads
from rankdbg.user_code import is_user_code

# Frames of these never lead back to code that was being debugged: whoever steps off the
# end of an endpoint, a thread or a script must not land in what called it.
_LOOPS = ("/asyncio/", "/runpy.py", "/threading.py", "/multiprocessing/", "/concurrent/futures/")

_MISSING = object()

# Later, sys.monitoring notices the lines with breaks, and no trace function has to.
_TRACES_BREAKS = sys.version_info < (3, 12)

_debuggers: dict[int, RankPdb] = {}


def of_this_thread() -> RankPdb:
    ident = threads.get_ident()
    if ident not in _debuggers:
        _debuggers[ident] = RankPdb()
    return _debuggers[ident]


def forget_all() -> None:
    """After a fork: what was being stepped through is the parent's."""
    mine = _debuggers.get(threads.get_ident())
    _debuggers.clear()
    if mine is not None:
        sys.settrace(None)


class RankPdb(pdb.Pdb):
    """One for each thread that has ever stopped; a new Stop each time it does."""

    def __init__(self) -> None:
        super().__init__(nosigint=True, readrc=False, stdout=sys.__stderr__)
        self.use_rawinput = False
        self.prompt = "(Pdb) "
        self._stop: stops.Stop | None = None
        self._kind, self._why = "breakpoint", ""
        self._last: FrameType | None = None
        self._may_quit = False
        self._by_break = False
        self._error: tuple[BaseException, TracebackType] | None = None
        self._handed_over = False
        # Where pdb has just stood, if there is a break too: it is noticed next.
        self._stood: tuple[int, int] | None = None

    # --- how a stop begins and ends ---------------------------------------------------

    def stop_at(self, frame: FrameType, kind: str, why: str = "") -> None:
        """Stop this thread at the next line of this frame."""
        self._name(kind, why)
        self._last = frame
        self.set_trace(frame)

    def stop_now(self, frame: FrameType, kind: str, why: str = "") -> None:
        """Stop this thread at the line that it is about to execute: this is called by what
        notices that line."""
        stood, self._stood = self._stood, None
        if stood == _moment(frame):
            return
        self._name(kind, why)
        self._last = frame
        self.set_trace(frame)
        self._by_break = True
        try:
            self.trace_dispatch(frame, "line", None)
        finally:
            self._by_break = False
            if sys.version_info[:2] == (3, 12):
                native.write_back(frame)

    def _name(self, kind: str, why: str) -> None:
        """What the next stop is called, or the one that is being stepped through."""
        self._kind, self._why = kind, why
        if self._stop is not None:
            self._stop.kind, self._stop.why = kind, why

    def post_mortem(self, error: BaseException, traceback: TracebackType, why: str) -> None:
        """Hold this thread, and look at the frames of an exception."""
        self._name("post-mortem", why)
        self.reset()
        self._error = error, traceback
        try:
            with stacks.Raised(traceback):
                self.interaction(None, traceback)
        finally:
            self._error = None

    def interaction(self, frame: FrameType | None, traceback: Any, *more: Any) -> None:
        if self._stop is None:
            self._stop = stops.begin(self._kind, self._why)
            self._stop.prompt = self.prompt
            self.stdin = self.stdout = self._stop  # type: ignore[assignment]
        self._stop.frame = self._last = frame
        self._stop.stack = list(stacks.walk(frame)) if frame else stacks.raised_frames()
        source_texts.look(self._stop.stack)
        if frame is not None and not (_TRACES_BREAKS or self._by_break):
            self._stood = _moment(frame) if breaks.at(frame) else None
        try:
            super().interaction(frame, traceback, *more)
        finally:
            self._stop.frame = None
            self._stop.stack = []
            if frame is None or self.quitting or self.stoplineno == -1:
                self._end()

    def _end(self) -> None:
        """The thread goes on. Its breakpoints stay: the next hit is a stop of its own."""
        self._kind, self._why = "breakpoint", ""
        self._last = None
        if self._stop is not None:
            self._stop.end()
            self._stop = None

    def end_scope(self) -> None:
        """What was being debugged is over: let go, wherever the user was stepping to."""
        if self._stop is not None:
            self.set_continue()
            self._end()

    def dispatch_return(self, frame: FrameType, value: Any) -> Any:
        """bdb takes each return of a coroutine for a suspension, and `next` at its end would
        never stop again. If it has really returned, stop wherever it leads."""
        if self.stopframe is frame and _has_returned(frame):
            self.set_step()
        return super().dispatch_return(frame, value)

    # --- breaks that clients have set (breaks.py) -------------------------------------

    def break_anywhere(self, frame: FrameType) -> bool:
        return super().break_anywhere(frame) or (_TRACES_BREAKS and breaks.are_in(frame.f_code))

    def break_here(self, frame: FrameType) -> bool:
        if super().break_here(frame):
            return True
        found = breaks.at(frame) if _TRACES_BREAKS else None
        why = found.meet(frame) if found is not None else None
        if why is not None:
            self._name("breakpoint", why)
        return why is not None

    def set_continue(self) -> None:
        super().set_continue()
        if _TRACES_BREAKS and not self.breaks:
            from rankdbg.agent import break_tracing

            break_tracing.resume()

    def trace_dispatch(self, frame: FrameType, event: str, arg: Any) -> Any:
        """What the editor's debugger has put into the frame stays there."""
        result = super().trace_dispatch(frame, event, arg)
        handed_over, self._handed_over = self._handed_over, False
        return None if handed_over else result

    # --- where it may stop --------------------------------------------------------------

    def user_line(self, frame: FrameType) -> None:
        if not self._stepped_out(frame):
            super().user_line(frame)

    def user_return(self, frame: FrameType, value: Any) -> None:
        if not self._stepped_out(frame):
            super().user_return(frame, value)

    def user_exception(self, frame: FrameType, info: Any) -> None:
        if not self._stepped_out(frame):
            super().user_exception(frame, info)

    def user_call(self, frame: FrameType, arguments: Any) -> None:
        if not self._stepped_out(frame):
            super().user_call(frame, arguments)

    def _stepped_out(self, frame: FrameType) -> bool:
        """Whether this is library code that the user did not step into, but came back to.
        Then go on to the user's own code that called it, or for good."""
        if is_user_code(frame.f_code.co_filename) or self._is_below(frame, self._last):
            return False
        caller: FrameType | None = frame
        while caller is not None and not is_user_code(caller.f_code.co_filename):
            if any(part in caller.f_code.co_filename for part in _LOOPS):
                caller = None
                break
            caller = caller.f_back
        if caller is None:
            self.set_continue()
            self._end()
        else:
            self.set_next(caller)
        return True

    @staticmethod
    def _is_below(frame: FrameType | None, outer: FrameType | None) -> bool:
        while frame is not None:
            if frame is outer:
                return True
            frame = frame.f_back
        return False

    # --- expressions see the variables of the frame, also in their inner scopes -----------

    def _getval(self, arg: str) -> Any:
        if sys.version_info >= (3, 13):
            return super()._getval(arg)
        assert self.curframe is not None
        try:
            return eval(arg, {**self.curframe.f_globals, **self.curframe_locals})
        except Exception:
            self._error_exc()  # type: ignore[attr-defined]
            raise

    def default(self, line: str) -> None:
        """Before Python 3.13 pdb executes a line with two namespaces, and a comprehension in
        it sees only the global one. So: one, and what it has changed goes back."""
        if sys.version_info >= (3, 13):
            super().default(line)
            return
        assert self.curframe is not None
        outer, inner = self.curframe.f_globals, cast("dict[str, Any]", self.curframe_locals)
        namespace = {**outer, **inner}
        before = dict(namespace)
        try:
            with redirect_stdout(self.stdout):
                exec(compile(f"{line.removeprefix('!').strip()}\n", "<stdin>", "single"), namespace)
        except BaseException:
            self._error_exc()  # type: ignore[attr-defined]
        for name, value in namespace.items():
            if name != "__builtins__" and before.get(name, _MISSING) is not value:
                inner[name] = value

    # --- commands that need a terminal, or would end the rank -----------------------------

    def do_quit(self, arg: str) -> bool | None:
        if arg != "rank":
            self.message("this would end the rank; if that is meant: quit rank")
            return None
        return super().do_quit(arg)

    do_q = do_exit = do_quit

    def do_EOF(self, arg: str) -> None:  # noqa: N802 - pdb's name
        self.message("the client is gone; the stop stays")

    def do_run(self, arg: str) -> None:
        self.message("a rank cannot be started again from here")

    do_restart = do_run

    def do_rankdbg_hand_over(self, arg: str) -> bool | None:
        """An editor takes the thread; when that lets it go, it goes on."""
        from rankdbg.agent import dap_stops

        frame = self._stop.frame if self._stop is not None else None
        self.set_continue()
        if frame is not None:
            self._handed_over = True
            dap_stops.stand(frame)
            return True
        return True if self._error is not None and dap_stops.hold(*self._error) else None

    def do_interact(self, arg: str) -> None:
        assert self.curframe is not None
        namespace = {**self.curframe.f_globals, **self.curframe.f_locals}
        _Interactive(namespace, self._stop).interact("*interactive*; exit() goes back to pdb", "")


_RETURNS = {dis.opmap[name] for name in ("RETURN_VALUE", "RETURN_CONST") if name in dis.opmap}


def _has_returned(frame: FrameType) -> bool:
    """A coroutine or generator that ends, as opposed to one that waits or yields."""
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] in _RETURNS


def _moment(frame: FrameType) -> tuple[int, int]:
    return id(frame), frame.f_lasti


class _Interactive(code.InteractiveConsole):
    """A Python prompt on the stop's terminal, not on the rank's own stdin."""

    def __init__(self, namespace: dict[str, Any], stop: Any) -> None:
        super().__init__(namespace)
        self._stop = stop

    def interact(self, *arguments: Any) -> None:
        prompt = self._stop.prompt
        try:
            super().interact(*arguments)
        except SystemExit:
            pass
        finally:
            self._stop.prompt = prompt

    def raw_input(self, prompt: str = "") -> str:
        self._stop.prompt = prompt
        line: str = self._stop.readline()
        if self._stop.goes_on or line.strip() in ("exit", "quit", "exit()", "quit()"):
            raise EOFError
        return line.rstrip("\n")

    def write(self, data: str) -> None:
        self._stop.write(data)

    def runcode(self, compiled: Any) -> None:
        with redirect_stdout(self._stop):
            super().runcode(compiled)
