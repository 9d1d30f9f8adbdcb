"""pdb in a thread of a rank, with a stop as its terminal.

Imported when the first thread stops, not before: pdb imports a dozen modules.
"""

from __future__ import annotations

import bdb
import code
import dis
import pdb
import sys
from contextlib import redirect_stdout
from types import FrameType, TracebackType
from typing import Any, cast

from rankdbg.agent import active, native, stacks, threads
from rankdbg.agent.stops import breaks, source_texts, stopped_threads
from rankdbg.process.user_code import is_user_code, plumbing

# These files call the code that is being debugged: stepping past the end of an endpoint, a
# thread or a script must not lead into them.
_LOOPS = ("/asyncio/", "/runpy.py", "/threading.py", "/multiprocessing/", "/concurrent/futures/")

_MISSING = object()

# Later versions notice breaks with sys.monitoring, without a trace function.
_TRACES_BREAKS = sys.version_info < (3, 12)

_debuggers: dict[int, RankPdb] = {}


def of_this_thread() -> RankPdb:
    ident = threads.get_ident()
    if ident not in _debuggers:
        _debuggers[ident] = RankPdb()
    return _debuggers[ident]


def _after_fork() -> None:
    """The stepping was in the parent."""
    mine = _debuggers.get(threads.get_ident())
    _debuggers.clear()
    if mine is not None:
        sys.settrace(None)


active.after_fork.append(_after_fork)


class RankPdb(pdb.Pdb):
    """One for each thread that has ever stopped; a new Stop each time it does."""

    def __init__(self) -> None:
        super().__init__(nosigint=True, readrc=False, stdout=sys.__stderr__)
        self.use_rawinput = False
        self.prompt = "(Pdb) "
        self._stop: stopped_threads.Stop | None = None
        self._kind, self._why = "breakpoint", ""
        self._last: FrameType | None = None
        self._may_quit = False
        self._by_break = False
        self._error: tuple[BaseException, TracebackType] | None = None
        self._handed_over = False
        # Where pdb has just stopped, if there is also a break at that line: the break comes next,
        # and must not stop there a second time.
        self._stopped_at: tuple[int, int] | None = None

    # --- how a stop begins and ends ---------------------------------------------------

    def stop_at(self, frame: FrameType, kind: str, why: str = "") -> None:
        """Stop this thread at the next line of this frame."""
        self._name(kind, why)
        self._last = frame
        self.set_trace(frame)

    def stop_now(self, frame: FrameType, kind: str, why: str = "") -> None:
        """Stop this thread at the line that it is about to execute. Called by the event of
        that line."""
        stopped_at, self._stopped_at = self._stopped_at, None
        if stopped_at == _moment(frame):
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

    def stop_in(self, frame: FrameType, kind: str, why: str = "") -> None:
        """Stop this thread now, in a frame that has called the present one. Not called by an event,
        so tracing begins only when the user wants to step: else it would see our own calls."""
        self._name(kind, why)
        self.set_trace(frame)
        sys.settrace(None)
        self.interaction(frame, None)
        if self.quitting:
            raise bdb.BdbQuit
        if self.stoplineno != -1 or self.breaks:
            self._last = frame
            sys.settrace(self.trace_dispatch)

    def _name(self, kind: str, why: str) -> None:
        """Set kind and reason of the next stop, or of the present one."""
        self._kind, self._why = kind, why
        if self._stop is not None:
            self._stop.kind, self._stop.why = kind, why

    def post_mortem(self, error: BaseException, traceback: TracebackType, why: str) -> None:
        """Hold this thread at the frames of an exception."""
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
            self._stop = stopped_threads.begin(self._kind, self._why)
            self._stop.prompt = self.prompt
            self.stdin = self.stdout = self._stop  # type: ignore[assignment]
        self._stop.frame = self._last = frame
        self._stop.stack = list(stacks.walk(frame)) if frame else stacks.raised_frames()
        source_texts.check(self._stop.stack)
        if frame is not None and not (_TRACES_BREAKS or self._by_break):
            self._stopped_at = _moment(frame) if breaks.at(frame) else None
        try:
            super().interaction(frame, traceback, *more)
        finally:
            self._stop.frame = None
            self._stop.stack = []
            if frame is None or self.quitting or self.stoplineno == -1:
                self._end()

    def _end(self) -> None:
        """The thread continues. Its breakpoints stay: the next hit is a new stop."""
        self._kind, self._why = "breakpoint", ""
        self._last = None
        if self._stop is not None:
            self._stop.end()
            self._stop = None

    def end_scope(self) -> None:
        """The code that was being debugged has returned: continue."""
        if self._stop is not None:
            self.set_continue()
            self._end()

    def dispatch_return(self, frame: FrameType, value: Any) -> Any:
        """bdb takes each return of a coroutine for a suspension: `next` at its end would never
        stop again. If the coroutine has really returned, stop in its caller."""
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
        why = found.reason_to_stop(frame) if found is not None else None
        if why is not None:
            self._name("breakpoint", why)
        return why is not None

    def set_continue(self) -> None:
        super().set_continue()
        if _TRACES_BREAKS and not self.breaks and active.trace_breaks is not None:
            active.trace_breaks()

    def trace_dispatch(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Returns None after a hand-over: the trace function of the editor's debugger stays."""
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
        """Whether the user has stepped out into library code. Then run on to the user's code that
        called the library; if there is none, continue."""
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
        """Before Python 3.13 pdb executes a line with two namespaces, and a comprehension in it
        sees only the global one. So execute it with one, and copy the changes back."""
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

    # --- stacks without the frames of frameworks --------------------------------------------

    def do_where(self, arg: str) -> None:
        """w(here) [--all]
        Print a stack trace, with the most recent frame at the bottom, without the frames of
        asyncio, Monarch, Ray and rankdbg; with --all: all frames.
        """
        if arg.strip() == "--all":
            super().do_where("")
        elif arg.strip():  # since Python 3.14 a number of frames
            super().do_where(arg)
        else:
            self._print_without_plumbing()

    do_w = do_bt = do_where

    def _print_without_plumbing(self) -> None:
        hidden: list[str] = []  # whose frames, since the last one that was printed
        for index, entry in enumerate(self.stack):
            owner = plumbing(entry[0].f_code.co_filename)
            if owner and index != self.curindex:
                hidden.append(owner)
                continue
            self._print_hidden(hidden)
            self.print_stack_entry(entry)
        self._print_hidden(hidden)

    def _print_hidden(self, owners: list[str]) -> None:
        if owners:
            frames = f"{len(owners)} frame{'s' * (len(owners) != 1)}"
            self.message(f"  ({frames} of {', '.join(sorted({*owners}))} hidden: bt --all)")
            owners.clear()

    # --- commands that need a terminal, or would end the rank -----------------------------

    def do_quit(self, arg: str) -> bool | None:
        if arg != "rank":
            self.message("this would terminate the rank; to do that: quit rank")
            return None
        return super().do_quit(arg)

    do_q = do_exit = do_quit

    def do_EOF(self, arg: str) -> None:  # noqa: N802 - pdb's name
        self.message("the client has disconnected; the rank stays stopped")

    def do_run(self, arg: str) -> None:
        self.message("a rank cannot be restarted from here")

    do_restart = do_run

    def do_rankdbg_hand_over(self, arg: str) -> bool | None:
        """Hand the thread over to the editor. When the editor continues it, it leaves pdb."""
        editor = active.editor
        if editor is None:
            return None
        frame = self._stop.frame if self._stop is not None else None
        self.set_continue()
        if frame is not None:
            self._handed_over = True
            editor.stop_here(frame)
            return True
        return True if self._error is not None and editor.hold(*self._error) else None

    def do_interact(self, arg: str) -> None:
        assert self.curframe is not None
        namespace = {**self.curframe.f_globals, **self.curframe.f_locals}
        _Interactive(namespace, self._stop).interact("*interactive*; exit() goes back to pdb", "")


_RETURNS = {dis.opmap[name] for name in ("RETURN_VALUE", "RETURN_CONST") if name in dis.opmap}


def _has_returned(frame: FrameType) -> bool:
    """Whether a coroutine or generator returns, and does not wait or yield."""
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
        if self._stop.timed_out or line.strip() in ("exit", "quit", "exit()", "quit()"):
            raise EOFError
        return line.rstrip("\n")

    def write(self, data: str) -> None:
        self._stop.write(data)

    def runcode(self, compiled: Any) -> None:
        with redirect_stdout(self._stop):
            super().runcode(compiled)
