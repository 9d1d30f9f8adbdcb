"""Stops in the editor, while one is attached: breakpoint(), an exception, or a stop of pdb that
is handed over.

Imported together with debug_adapter.
"""

from __future__ import annotations

import sys
import threading
from types import FrameType, TracebackType
from typing import Any

from rankdbg.agent import threads
from rankdbg.agent.stops import stopped_threads

# The command to pdb that hands its thread over to the editor.
HAND_OVER = "rankdbg_hand_over"


def current() -> Any:
    """pydevd's debugger, or None."""
    return sys.modules["_pydevd_bundle.pydevd_constants"].get_global_debugger()


def stop_at(frame: FrameType) -> None:
    """Stop the calling thread at the next line of this frame."""
    pydevd: Any = sys.modules["pydevd"]
    pydevd.settrace(
        suspend=True,
        trace_only_current_thread=True,
        patch_multiprocessing=False,
        notify_stdin=False,
        stop_at_frame=frame,
    )


def stop_here(frame: FrameType) -> None:
    """Stop the calling thread at the line that it is about to execute."""
    debugger, thread = current(), threading.current_thread()
    constants: Any = sys.modules["_pydevd_bundle.pydevd_comm_constants"]
    debugger.set_additional_thread_info(thread)
    debugger.set_suspend(thread, constants.CMD_SET_BREAK)
    debugger.do_wait_suspend(thread, frame, "line", None)
    if sys.version_info < (3, 12):
        debugger.enable_tracing()
        debugger.set_trace_for_frame_and_parents(thread.ident, frame)


def hold(error: BaseException, traceback: TracebackType) -> bool:
    """Hold the calling thread at an exception; False if this debugpy cannot."""
    trigger = getattr(current(), "trigger_exception_handler", None)
    if trigger is None:
        return False
    trigger((type(error), error, traceback), as_uncaught=False)
    return True


def stopped() -> list[Any]:
    """The threads that are stopped in the editor."""
    return [
        thread
        for thread in threading.enumerate()
        if getattr(getattr(thread, "additional_info", None), "is_in_wait_loop", False)
    ]


class EditorMessages:
    """Sees the debugger's messages. When the editor has finished its configuration, the threads
    that are stopped in pdb are handed over to it."""

    def before_send(self, message: dict[str, Any]) -> None:
        if message.get("command") == "configurationDone" and message.get("type") == "response":
            for stop in stopped_threads.everyone():
                threads.start(_hand_over, stop)

    def after_receive(self, message: dict[str, Any]) -> None:
        pass


def _hand_over(stop: stopped_threads.Stop) -> None:
    stop.command(HAND_OVER, 0.0)
