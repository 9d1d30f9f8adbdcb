"""What has changed of a rank -> whether it has made progress. The figures are measured
(docs/reference/progress.md)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rankdbg.verdicts.hangs.progress import Facts, computes, is_supplied, signs
from rankdbg.wire.answers import Vitals

WAITS = Vitals(at=0.0, state="S", call="futex", timer=0.0, age=100.0, woken=5, switches=5)


def facts(before: dict[str, Any], **after: Any) -> Facts:
    """Of the time from the one to the other; counters begin at 5."""
    first = replace(WAITS, **before)
    return Facts(first, replace(first, at=2.2, **after))


@pytest.mark.parametrize(
    ("wait", "call", "timers", "woken"),
    [
        ("ray.get()", "futex", (0.63, 0.26), 3),
        ("Event.wait(1)", "futex", (0.39, 0.02), 3),
        ("Event.wait(0.1)", "futex", (0.003, 0.1), 23),
        ("select(timeout=0.2)", "pselect6", (0.2, 0.2), 12),
        ("asyncio.sleep(0.5)", "epoll_pwait", (0.5, 0.5), 4),
        ("Queue.get(timeout=0.5) of multiprocessing", "ppoll", (0.5, 0.5), 5),
        ("Popen.wait(1)", "clock_nanosleep", (0.04, 0.01), 54),
        ("gloo, and no message", "futex", (1797.0, 1795.5), 0),
    ],
)
def test_timers_are_no_progress(
    wait: str, call: str, timers: tuple[float, float], woken: int
) -> None:
    """A wait is ended by its own timer as often as that can end, and not more often."""
    looked = facts({"call": call, "timer": timers[0]}, timer=timers[1], woken=5 + woken)
    assert signs(looked) == ()
    assert not is_supplied(looked.before, looked.after)


@pytest.mark.parametrize(
    ("wait", "call", "timers", "woken"),
    [
        ("ray.get() that is answered", "futex", (0.92, 0.95), 30),
        ("Queue.get(timeout=1) of a full queue", "futex", (0.81, 0.93), 12),
        ("recv() with a timeout of 30 s", "ppoll", (30.0, 30.0), 12),
        ("recv() without one", "recvfrom", (0.0, 0.0), 12),
        ("gloo, a step every 0.7 s", "futex", (1799.7, 1799.8), 3),
        ("a lock", "futex", (0.0, 0.0), 2),
    ],
)
def test_to_be_woken_is_progress(
    wait: str, call: str, timers: tuple[float, float], woken: int
) -> None:
    """More often than the timer can have done it."""
    looked = facts({"call": call, "timer": timers[0]}, timer=timers[1], woken=5 + woken)
    assert signs(looked) == (f"what it waits for has woken it {woken} times",)
    assert is_supplied(looked.before, looked.after)


def test_preemption_is_no_progress() -> None:
    """On a crowded machine a thread is scheduled often, though it has waited only once."""
    assert signs(facts({}, switches=500, woken=6)) == ()


def test_thread_that_waits_for_the_gil_after_its_timer() -> None:
    """It wakes up in turns of 5 ms while another thread computes (measured: 29 instead of 8)."""
    assert signs(facts({"timer": 0.25}, timer=0.21, woken=34, others=2.0)) == ()


def test_found_between_two_waits() -> None:
    """The other look tells of the timer."""
    assert signs(facts({"timer": 0.5}, call="", timer=None, state="R", woken=9)) == ()


def test_node_that_tells_of_no_timers() -> None:
    """An older one: a poll has one, a lock has none."""
    old = {"timer": None, "woken": 0}
    assert signs(facts({**old, "call": "ppoll"}, switches=99)) == ()
    assert signs(facts(old, switches=99)) != ()


def test_process_that_may_not_be_traced() -> None:
    """The place in the kernel tells of sleeps and polls."""
    untold = {"call": "", "timer": None}
    assert signs(facts({**untold, "wchan": "hrtimer_nanosleep"}, woken=99)) == ()
    assert signs(facts({**untold, "wchan": "futex_wait_queue"}, woken=99)) != ()


@pytest.mark.parametrize(
    "found", [("clock_nanosleep", "recvfrom"), ("recvfrom", "clock_nanosleep")]
)
def test_asking_a_store_again_and_again_is_no_progress(found: tuple[str, str]) -> None:
    """TCPStore asks every 10 ms whether all have joined, and is woken by each answer too: 492
    times in 2.4 s."""
    timers = [0.01 if call == "clock_nanosleep" else 0.0 for call in found]
    before = {"call": found[0], "timer": timers[0]}
    assert signs(facts(before, call=found[1], timer=timers[1], woken=497)) == ()


def test_processor_time_is_no_progress() -> None:
    """One that polls uses it too: MPI, CUDA, a spin lock."""
    assert signs(facts({"call": ""}, cpu=2.2, switches=580)) == ()


def test_a_busy_gpu_is_progress_of_one_that_polls_it() -> None:
    """And not of one that waits for a lock."""
    polls = replace(facts({"call": ""}, cpu=2.2), gpu_busy=True)
    assert signs(polls) == ("its GPU computes",)
    assert signs(replace(facts({}), gpu_busy=True)) == ()


def test_data_is_progress_and_heartbeats_are_not() -> None:
    """1.5 MB in 2.2 s are; a line every fifth of a second is not."""
    assert signs(facts({}, read=1_507_328)) == ("it reads or writes 669 KiB/s",)
    assert signs(facts({}, written=216)) == ()


def test_what_the_program_reports_comes_first() -> None:
    """Steps, collectives, stack and variables, in this order."""
    every = replace(
        facts({}), moved=True, entered_collective=True, reported_step=True, variables_changed=True
    )
    assert [text.split()[-1] for text in signs(every)] == [
        "step",
        "collective",
        "changed",
        "changed",
    ]
    assert signs(every)[0] == "it has reported another step"


@pytest.mark.parametrize(
    ("main", "cpu", "ready", "scheduled", "woken"),
    [
        ("Event.wait(0.1), 40 ms for a processor each time", 0.002, 0.6, 16, 16),
        ("the same, interrupted once", 0.002, 0.7, 17, 16),
        ("Event.wait(0.1), a second for a processor", 0.001, 2.1, 3, 3),
    ],
)
def test_woken_thread_that_waits_for_a_processor(
    main: str, cpu: float, ready: float, scheduled: int, woken: int
) -> None:
    """Does not compute: it has next to nothing to do once it has one."""
    looked = facts({}, cpu=cpu, ready=ready, switches=5 + scheduled, woken=5 + woken)
    assert not computes(looked.before, looked.after)


@pytest.mark.parametrize(
    ("main", "cpu", "ready", "scheduled", "woken"),
    [
        ("a loop, a twentieth of a processor", 0.11, 2.0, 40, 0),
        ("a loop, a hundredth of one, in three turns", 0.02, 1.8, 3, 0),
        ("1 ms of work for each 1 ms of waiting", 0.2, 1.8, 200, 200),
        ("a loop beside another thread that has the GIL in turns", 0.1, 1.6, 60, 20),
    ],
)
def test_computing_thread_that_waits_for_a_processor(
    main: str, cpu: float, ready: float, scheduled: int, woken: int
) -> None:
    """The twin: it is interrupted, or uses what it gets."""
    looked = facts({}, cpu=cpu, ready=ready, switches=5 + scheduled, woken=5 + woken)
    assert computes(looked.before, looked.after)


def test_node_that_does_not_tell_interruptions_from_wake_ups() -> None:
    """An older one: who was ready to run may have computed."""
    looked = facts({"woken": 0}, ready=1.0, switches=20)
    assert computes(looked.before, looked.after)


@pytest.mark.parametrize("found", [("clock_nanosleep", "futex"), ("futex", "clock_nanosleep")])
def test_lock_that_is_released_again_and_again_is_progress(found: tuple[str, str]) -> None:
    """One that sleeps between two waits for a lock gets it: no timer ends such a wait. Measured: 57
    times in a second, of which a sixth in the sleep."""
    timers = [0.01 if call == "clock_nanosleep" else 0.0 for call in found]
    before = {"call": found[0], "timer": timers[0]}
    assert signs(facts(before, call=found[1], timer=timers[1], woken=62)) != ()
    others_compute = facts(before, call=found[1], timer=timers[1], woken=62, others=2.0)
    assert signs(others_compute) == ()  # it may wait for the GIL
