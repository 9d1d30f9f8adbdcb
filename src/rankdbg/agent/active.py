"""What is active in this process: each module registers itself here when it becomes active.

Most modules of the agent are loaded only when they are needed: with the first stop, with an
editor, with Ray. The modules that are always loaded must not import these, and they must not
look for them in sys.modules either: another thread may have imported only half of one. So a
module fills its entry here, in its last line or when it starts to work.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType
    from typing import Any, Protocol

    class AttachedEditor(Protocol):
        """Where stops go while an editor is attached: editor/editor_stops.py."""

        def stop_at(self, frame: FrameType) -> None: ...
        def stop_here(self, frame: FrameType) -> None: ...
        def hold(self, error: BaseException, traceback: TracebackType) -> bool: ...


# Whether this process is the child of a fork, with the locks of its parent.
forked = False
# Called in the child of a fork, in the order in which the modules were loaded.
after_fork: list[Callable[[], None]] = []
# Called when the program exits, before the agent stops answering.
at_exit: list[Callable[[], None]] = []

# Each returns why this process is paused outside of pdb, or ``: the label `paused` of its card.
paused_by: list[Callable[[], str]] = []
# While an editor is attached.
editor: AttachedEditor | None = None
# handle_uncaught(error, traceback, ends=False), once uncaught exceptions are saved or held
# (stops/uncaught.py); and whether they are held.
handle_uncaught: Callable[..., bool] | None = None
holds_uncaught: Callable[[], bool] | None = None
# Cancels a pause that has not taken effect (stops/pauses.py); returns whether there was one.
cancel_pause: Callable[[], bool] | None = None
# Before Python 3.12: makes the calling thread notice breaks again (stops/break_tracing.py).
trace_breaks: Callable[[], None] | None = None
# Operations that time out although timeouts are held (groups/timeouts.py).
operations_with_limits: Callable[[], list[dict[str, Any]]] | None = None
# Each returns the labels that this process has in a framework, or {}: frameworks/*_labels.py and
# parallel_states.py, each from the time when the program has imported the framework.
label_readers: list[Callable[[], dict[str, Any]]] = []
# Called when the card has changed (history/ring.py).
card_readers: list[Callable[[], None]] = []
# The labels that Monarch's actors give to this process (frameworks/monarch_hooks.py).
actor_labels: Callable[[], dict[str, Any]] | None = None
# What a worker of Ray is called in messages, from its labels (frameworks/ray_hooks.py).
ray_worker_name: Callable[[dict[str, Any]], str] | None = None
