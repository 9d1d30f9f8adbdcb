"""`rankdbg nan --arm` and --disarm: the hooks of this rank, and the stop at what they find.

While a rank is armed the timeouts of its process groups are held: when another one stops, it may already
wait in a collective, which keeps the limit with which it has begun.
"""

from __future__ import annotations

import os
import sys
import time

from rankdbg.agent import active, job_members, threads
from rankdbg.agent.groups import timeouts
from rankdbg.agent.nonfinite import findings
from rankdbg.agent.nonfinite.armed_hooks import NanWatch
from rankdbg.agent.stops import entries
from rankdbg.errors import RankdbgError
from rankdbg.wire.questions import ArmNan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

HOLDER = "armed"  # of timeouts
LINGER_SECONDS = 60.0  # until the leases of the stopped rank have arrived
ANSWER_SECONDS = 3.0

_watch: NanWatch | None = None
_found: dict[str, Any] | None = None
_one_at_a_time = threads.new_lock()


def arm(exact: bool = False) -> dict[str, Any]:
    """What was found before is forgotten."""
    global _watch, _found
    torch, module = sys.modules.get("torch"), sys.modules.get("torch.nn.modules.module")
    if torch is None or not hasattr(module, "register_module_forward_hook"):
        return {"armed": False, "why": "the program has not loaded torch.nn"}
    _hold_timeouts(float("inf"))  # before anything can be found
    with _one_at_a_time:
        if _watch is not None and _watch.is_active:
            _watch.exact = exact
            return {"armed": True, "was": True}
        _found = None
        _watch = NanWatch(torch, exact, _hold)
        _watch.install(module)
        optimizers = sys.modules.get("torch.optim.optimizer")
        if optimizers is not None:
            _watch.install_optimizer(optimizers)
    return {"armed": True}


def _hold_timeouts(seconds: float) -> None:
    if os.environ.get("RANKDBG_HOLD_TIMEOUTS") != "0":
        timeouts.hold(HOLDER, seconds, look=False)


def optimizers_imported(module: Any) -> None:
    """In a program that is armed from its start."""
    if _watch is not None and _watch.is_active:
        _watch.install_optimizer(module)


def disarm() -> dict[str, Any]:
    with _one_at_a_time:
        was = _watch is not None and _watch.is_active
        if _watch is not None:
            _watch.remove()
    if was:
        _hold_timeouts(LINGER_SECONDS)
    return {"armed": False, "was": was}


def state() -> dict[str, Any]:
    watch = _watch
    known: dict[str, Any] = {"armed": watch is not None and watch.is_active, "found": _found}
    if watch is not None:
        known |= {"checks": watch.checks, "scaled": watch.scaled, "failures": watch.failures}
        if watch.infinite is not None:
            module, step = watch.infinite
            known["infinite"] = {"module": findings.name_of(module), "step": step}
    return known


def _hold(found: dict[str, Any], frame: FrameType) -> None:
    """Stop the rank in this frame."""
    global _found
    _found = found
    threads.start(_disarm_others)
    _hold_timeouts(LINGER_SECONDS)  # from now on the stop holds them
    entries.stop_in(frame, "nan", findings.summary(found))


def _disarm_others() -> None:
    """The first one of the job has been found: what other ranks would find comes from it."""
    question = {"id": 1, **ArmNan(on=False).message()}
    sent = [job_members.send(path, question) for _, path in job_members.members()]
    deadline = time.monotonic() + ANSWER_SECONDS
    for connection in sent:
        if connection is not None:
            try:
                job_members.answer(connection, deadline)
            except (OSError, RankdbgError):  # it holds the GIL, or exits
                pass
            finally:
                connection.close()


def _after_fork() -> None:
    """The child keeps the hooks; timeouts, whose module comes before this one, has forgotten its
    holders. What was found is the parent's."""
    global _one_at_a_time, _found
    _one_at_a_time = threads.new_lock()
    if _watch is not None:
        _watch.lock = threads.new_lock()
        if _watch.is_active:
            _hold_timeouts(float("inf"))
    _found = None


active.after_fork.append(_after_fork)
