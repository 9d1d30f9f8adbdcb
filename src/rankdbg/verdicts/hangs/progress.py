"""What counts as progress of a rank: the only place that decides it.

docs/reference/progress.md describes the signs, with what was measured. A wait that its own timer
ends, to look again, is no progress, and neither is the processor time of one that polls.
"""

from __future__ import annotations

from dataclasses import dataclass

from rankdbg.wire.answers import Vitals

# A main thread that used this share of the time computes.
BUSY_SHARE = 0.2
# Of the time that a thread was watched; in less than that, nothing can be told by what it did.
_LEAST_REST = 0.1
# Times: fewer may be the end of the wait in which the rank was found.
WOKEN = 2
# Bytes a second that a process reads and writes. Heartbeats write 20 to 200 bytes a second.
MOVES_DATA = 64 * 1024
STARVED = "it is ready to run, and gets no processor"
# Waits that mostly have a timer, for nodes that do not tell.
_TIMED_CALLS = {
    "poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2",
    "nanosleep", "clock_nanosleep", "sched_yield",
}  # fmt: skip
_TIMED_CHANNELS = ("poll_schedule_timeout", "ep_poll", "hrtimer_nanosleep", "do_select", "do_poll")
# Nothing that arrives ends a sleep.
SLEEPS = ("nanosleep", "clock_nanosleep", "sched_yield")


@dataclass(frozen=True)
class Facts:
    """What has changed of a rank between two looks."""

    before: Vitals
    after: Vitals
    moved: bool = False  # another line, or other calls in it
    entered_collective: bool = False  # or left one, by its recorder
    reported_step: bool = False  # by rankdbg.progress()
    variables_changed: bool = False  # of the functions that it is in
    tasks_moved: bool = False  # of its event loop
    gpu_busy: bool = False


def signs(facts: Facts) -> tuple[str, ...]:
    """What shows progress, as text, the surest first; empty: nothing does."""
    found = [
        (facts.reported_step, "it has reported another step"),
        (facts.entered_collective, "it has entered or left a collective"),
        (facts.moved, "its stack has changed"),
        (facts.variables_changed, "its variables have changed"),
        (facts.tasks_moved, "tasks of its event loop have got what they waited for"),
        # A wait for a GPU takes the processor; the GPU of a rank that waits otherwise may be busy
        # with a collective that waits too.
        (facts.gpu_busy and computes(facts.before, facts.after), "its GPU computes"),
    ]
    before, after = facts.before, facts.after
    if after.starved:
        found.append((True, STARVED))
    if moves_data(before, after):
        found.append((True, f"it reads or writes {_data_rate(before, after) / 1024:.0f} KiB/s"))
    if not computes(before, after) and (times := times_woken(before, after)):
        found.append((True, f"what it waits for has woken it {times} times"))
    return tuple(text for holds, text in found if holds)


def is_supplied(before: Vitals, after: Vitals) -> bool:
    """Whether what it waits for arrives, or it moves data."""
    return bool(times_woken(before, after)) or moves_data(before, after)


# --- wake-ups ---------------------------------------------------------------------------------


def times_woken(before: Vitals, after: Vitals) -> int:
    """How often something else than a timer has ended a wait of the main thread; 0 if that may
    not have happened at all."""
    times = _wake_ups(before, after)
    if times < WOKEN:
        return 0
    # Between two waits it runs for a moment, and is in no call.
    waits = [look for look in (before, after) if look.call or look.wchan]
    # One look may find it on its way from its timer, where it waits for the GIL.
    if not any(map(_has_timer, waits)):
        return times
    timers = [look.timer for look in waits if look.timer]
    # One that sleeps between two questions to a store is woken by each answer as well.
    polls = any(look.call in SLEEPS for look in waits)
    # While another thread holds the GIL, a thread that wakes up waits for it, in turns.
    if others_compute(before, after):
        return 0
    # Only another thread ends the wait for a lock, of which one look tells and the other does not.
    if any(look.call == "futex" and look.timer == 0 for look in waits):
        return times
    if polls or not timers:
        return 0
    return times if times - _by_timers(timers, _seconds(before, after)) >= WOKEN else 0


def sleeps_for(before: Vitals, after: Vitals) -> float:
    """Seconds that are left of a sleep that may be one of its work, or of a retry; 0 if it does not
    sleep, or was watched for longer than it sleeps each time."""
    left = after.timer or 0.0
    return left if after.call in SLEEPS and _seconds(before, after) < 2 * left else 0.0


def only_timers_wake(before: Vitals, after: Vitals) -> bool:
    """Whether its wait has a timer, and nothing else needs to have ended it."""
    return any(map(_has_timer, (before, after))) and not is_supplied(before, after)


def _by_timers(timers: list[float], seconds: float) -> float:
    """How often timers, of which these remained, can have ended a wait: what remains is a part of
    the whole."""
    longest = max(timers)
    return seconds / longest + 1 if longest < seconds else 0.0


def _wake_ups(before: Vitals, after: Vitals) -> int:
    if after.woken:
        return after.woken - before.woken
    return after.switches - before.switches


def _has_timer(look: Vitals) -> bool:
    if look.timer is not None:
        return look.timer > 0
    return look.call in _TIMED_CALLS or look.wchan.startswith(_TIMED_CHANNELS)


# --- processor and data -----------------------------------------------------------------------


def busy_share(before: Vitals, after: Vitals) -> float:
    """Of the time in which the main thread computed, or would have but for other processes.

    Those take its processor from a thread that computes. A thread that waits for one because it has
    just woken up may have next to nothing to do: that time is left out.
    """
    seconds = _seconds(before, after)
    ready = after.ready - before.ready
    interrupted = ready * _interrupted_share(before, after)
    ran = after.cpu - before.cpu + interrupted
    rest = max(seconds - (ready - interrupted), _LEAST_REST * seconds)
    return ran / rest if seconds else 0.0


def _interrupted_share(before: Vitals, after: Vitals) -> float:
    """Of the times at which the main thread got a processor, those that followed an
    interruption; all where an older node does not tell."""
    scheduled = after.switches - before.switches
    if not after.woken or scheduled <= 0:
        return 1.0
    return max(0.0, 1 - (after.woken - before.woken) / scheduled)


def computes(before: Vitals, after: Vitals) -> bool:
    return busy_share(before, after) > BUSY_SHARE


def others_compute(before: Vitals, after: Vitals) -> bool:
    """Whether other threads, or processes below it, do."""
    others = after.others - before.others
    others += max(0.0, after.others_ready - before.others_ready)
    return others > BUSY_SHARE * _seconds(before, after) > 0


def moves_data(before: Vitals, after: Vitals) -> bool:
    return _data_rate(before, after) > MOVES_DATA


def _data_rate(before: Vitals, after: Vitals) -> float:
    moved = after.read + after.written - before.read - before.written
    return moved / _seconds(before, after) if _seconds(before, after) else 0.0


def _seconds(before: Vitals, after: Vitals) -> float:
    return max(0.0, after.at - before.at)
