"""Profiles of many ranks into one: folded stacks, the table, traces, the files for others."""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rankdbg
from page_elements import refuse_constant
from rankdbg.agent.profilers import memory_profiler
from rankdbg.node.profiles.folded_stacks import fold
from rankdbg.node.profiles.spies import affordable_rate
from rankdbg.profiles import chrome, comparing, flame, speedscope, tree
from rankdbg.profiles.documents import Profile, Weighted, read_profile
from rankdbg.profiles.trace_events import PORTION, TraceEvents, find_base
from rankdbg.types import Frame, ProcessKey, Rank

MAIN = Frame("main", "/home/me/train.py", 30)
LOAD = Frame("load", "/home/me/data.py", 13)
STEP = Frame("step", "/home/me/train.py", 20)
REDUCE = Frame("all_reduce", "/x/site-packages/torch/distributed/distributed_c10d.py", 3)

SPIED = """\
thread (7): MainThread;main (/home/me/train.py:30);step (/home/me/train.py:20) 60
thread (7): MainThread;main (/home/me/train.py:30);at::add(long, int) (libtorch_cpu.so) 40
thread (8): pump (1);run (/usr/lib/python3.11/threading.py:9) 100
thread (9);_run (/x/site-packages/rankdbg/agent/threads.py:9);work (/home/me/train.py:1) 100
thread (7): MainThread 3
rubbish
"""


def rank(number: int) -> Rank:
    return Rank(ProcessKey("node-1", 100 + number, 1), "train", number=number)


def profile(number: int, *stacks: tuple[tuple[Frame, ...], float], rate: float = 100) -> Profile:
    weighted = tuple(Weighted("MainThread", True, frames, weight) for frames, weight in stacks)
    return Profile(rank(number), "samples", sum(w for _, w in stacks), weighted, rate)


def loads_and_waits(number: int, loads: float) -> Profile:
    return profile(number, ((MAIN, LOAD), loads), ((MAIN, STEP, REDUCE), 100 - loads))


# --- from outside -------------------------------------------------------------------------


def test_many_threads_are_looked_at_less_often() -> None:
    """--native stops a process for as long as it has threads; never for ever, and not more often
    than was asked for."""
    with threads(0) as pid:
        alone = affordable_rate(pid, 20, 0.05)
        assert affordable_rate(pid, 5, 0.05) == 5
    with threads(100) as pid:
        assert alone / 10 < affordable_rate(pid, 20, 0.05) < alone / 3
        assert affordable_rate(pid, 20, 1.0) == 20
        assert affordable_rate(pid, 20, 0.0001) == 1


@contextlib.contextmanager
def threads(count: int) -> Iterator[int]:
    """A process with so many beside its main one."""
    code = (
        "import sys, threading\n"
        f"for _ in range({count}):\n"
        "    threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n"
    )
    words = [sys.executable, "-S", "-c", code]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
        process.stdin.close()


# --- folded stacks ------------------------------------------------------------------------


def test_stacks_of_pyspy_are_read() -> None:
    """Threads by name, frames of Python and C; neither the agent's threads nor empty stacks."""
    read = read_profile(rank(0), [fold(SPIED, 7, 100)])
    assert read.whole == 100
    assert read.stacks == (
        Weighted("MainThread", True, (MAIN, STEP), 60),
        Weighted("MainThread", True, (MAIN, Frame("at::add(long, int)", "libtorch_cpu.so", 0)), 40),
        Weighted("pump (1)", False, (Frame("run", "/usr/lib/python3.11/threading.py", 9),), 100),
    )


def test_the_thread_of_an_actor_is_the_main_one() -> None:
    """Where Monarch keeps the main thread to itself, as stacks has it too."""
    text = "thread (7): MainThread;poll (/x/site-packages/monarch/a.py:1) 9\n"
    text += "thread (8): monarch-actor-1;main (/home/me/train.py:30) 9\n"
    stacks = read_profile(rank(0), [fold(text, 7, 100)]).stacks
    main = [stack.thread for stack in stacks if stack.main]
    assert main == ["monarch-actor-1"]


@pytest.mark.parametrize("weight", [math.nan, math.inf, -math.inf, 1e300, "nan", "much", 10**400])
@pytest.mark.parametrize("where", ["whole", "rate", "weight"])
def test_what_cannot_be_drawn_is_no_profile(weight: object, where: str) -> None:
    """A number of which no share can be told; one beside it that can is read."""
    said: dict[str, Any] = {"unit": "samples", "whole": 2, "rate": 100, "weight": 2, where: weight}
    stacks = [["MainThread", True, [0], said.pop("weight")]]
    with pytest.raises((ValueError, OverflowError)):
        read_profile(rank(0), [{**said, "frames": [["f", "x.py", 1]], "stacks": stacks}])


def test_a_damaged_document_is_no_profile() -> None:
    """What comes from elsewhere may be anything."""
    with pytest.raises(IndexError):
        read_profile(
            rank(0), [{"unit": "s", "whole": 1, "frames": [], "stacks": [["", 1, [3], 1]]}]
        )


def test_memory_of_a_gpu_is_folded_by_who_holds_it() -> None:
    """Blocks in use alone; those from before the recording have no stack, and say so."""
    frames = [
        {"name": "step", "filename": "/t.py", "line": 2},
        {"name": "main", "filename": "/t.py", "line": 9},
    ]
    blocks = [
        {"state": "active_allocated", "size": 512, "frames": frames},
        {"state": "active_allocated", "size": 256, "frames": frames},
        {"state": "active_allocated", "size": 100, "frames": []},
        {"state": "inactive", "size": 4096, "frames": frames},
    ]
    document = memory_profiler._fold({"segments": [{"device": 1, "blocks": blocks}]})
    held = {stack.frames: stack.weight for stack in read_profile(rank(0), [document]).stacks}
    assert held == {
        (Frame("main", "/t.py", 9), Frame("step", "/t.py", 2)): 768,
        (Frame("allocated before the recording began", "", 0),): 100,
    }


# --- the table ----------------------------------------------------------------------------


def test_rows_are_places_in_the_users_code() -> None:
    """With what a line has called; shares of a rank add up to one."""
    rows = comparing.rows([loads_and_waits(0, 25), loads_and_waits(1, 35)])
    assert [(row.frame, row.calls, row.shares, row.waits) for row in rows] == [
        (STEP, "all_reduce", (0.75, 0.65), True),
        (LOAD, "", (0.25, 0.35), False),
    ]


SITE = "/env/lib/python3.11/site-packages"
WRAPPER = Frame("wrapper", f"{SITE}/torch/distributed/c10d_logger.py", 83)
NOTE = Frame("call", f"{SITE}/rankdbg/agent/history/torch_calls.py", 110)


@pytest.mark.parametrize(
    ("frames", "calls"),
    [
        ((WRAPPER, NOTE, Frame("barrier", f"{SITE}/torch/distributed/x.py", 1)), "barrier"),
        ((NOTE, Frame("isend", f"{SITE}/torch/distributed/x.py", 1)), "isend"),
        ((NOTE,), "rankdbg"),
        (
            (
                Frame("Optimizer.profile_hook_step.<locals>.wrapper", f"{SITE}/torch/o.py", 1),
                Frame("_use_grad_for_differentiable.<locals>._use_grad", f"{SITE}/torch/o.py", 2),
                Frame("AdamW.step", f"{SITE}/torch/optim/adamw.py", 3),
            ),
            "AdamW.step",
        ),
    ],
)
def test_what_a_line_has_called(frames: tuple[Frame, ...], calls: str) -> None:
    """Neither the wrappers of torch nor what rankdbg notes beside the call."""
    (row,) = comparing.rows([profile(0, ((STEP, *frames), 100))])
    assert (row.frame, row.calls) == (STEP, calls)


def test_lines_of_one_function_are_one_row() -> None:
    """At the line where most of its own time was seen."""
    (row,) = comparing.rows([profile(0, ((LOAD._replace(line=12),), 10), ((LOAD,), 90))])
    assert (row.frame, row.shares) == (LOAD, (1.0,))


def test_the_slowest_waits_least() -> None:
    """And what it does more of than the others is named."""
    profiles = [loads_and_waits(number, 5) for number in range(3)] + [loads_and_waits(3, 90)]
    slow = comparing.find_slowest(comparing.rows(profiles), range(4))
    assert slow is not None
    assert (slow.index, round(slow.waits, 2), round(slow.others_wait, 2)) == (3, 0.1, 0.95)
    assert [row.frame for row in slow.more] == [LOAD]


def test_a_driver_is_not_compared_with_its_workers() -> None:
    """It waits for them all the time, in ray.get(): that is no sign of their being slow, nor of
    its own."""
    get = Frame("get", "/env/lib/python3.11/site-packages/ray/_private/worker.py", 2981)
    driver = profile(0, ((MAIN, STEP, get), 100))
    driver = replace(driver, rank=replace(driver.rank, role="driver"))
    workers = [loads_and_waits(number, 20) for number in (1, 2)]
    rows = comparing.rows([driver, *workers])
    assert next(row.waits for row in rows if row.calls == "get")
    among = comparing.of_one_role([one.rank for one in (driver, *workers)])
    assert among == [1, 2]
    assert comparing.find_slowest(rows, among) is None


def test_nobody_is_slowest_where_all_wait_alike() -> None:
    """A few per cent are chance."""
    profiles = [loads_and_waits(number, 20 + number) for number in range(4)]
    assert comparing.find_slowest(comparing.rows(profiles), range(4)) is None


def test_few_far_from_the_rest_stand_out() -> None:
    """One of four does; of two nobody can say which."""
    profiles = [loads_and_waits(number, 5) for number in range(3)] + [loads_and_waits(3, 90)]
    assert [row.far() for row in comparing.rows(profiles)] == [[3], [3]]
    assert [row.far() for row in comparing.rows(profiles[2:])] == [[], []]


def test_a_difference_comes_first() -> None:
    """Of two sets of ranks, the place in which they differ most."""
    profiles = [
        profile(0, ((MAIN, STEP), 60), ((MAIN, LOAD), 40)),
        profile(1, ((MAIN, STEP), 55), ((MAIN, REDUCE), 45)),
    ]
    rows = comparing.differing(comparing.rows(profiles), [0], [1])
    assert [row.frame for row in rows][-1] == STEP


# --- traces -------------------------------------------------------------------------------


def event(name: str, begin: float, duration: float, **more: Any) -> dict[str, Any]:
    plain = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 7, "tid": 7}
    return {**plain, "ts": begin, "dur": duration, **more}


def trace(events: list[dict[str, Any]], base_ns: int = 0) -> str:
    return json.dumps({"traceEvents": events, "baseTimeNanoseconds": base_ns})


def merged(*parts: chrome.TracePart) -> tuple[list[dict[str, Any]], list[chrome.Merged]]:
    out = io.StringIO()
    results = list(chrome.merge(parts, out))
    return json.loads(out.getvalue())["traceEvents"], results


def part(number: int, text: str, ahead_ns: int = 0) -> chrome.TracePart:
    return chrome.TracePart(rank(number), f"rank {number}", lambda: io.StringIO(text), ahead_ns)


@pytest.mark.parametrize("odd", [math.nan, math.inf, "nan", 10**400])
@pytest.mark.parametrize("where", ["ts", "dur", "args"])
def test_an_event_that_no_viewer_reads_is_left_out(odd: object, where: str) -> None:
    """With a number that JSON has not: the trace of all ranks is JSON, and has the events beside it."""
    if where == "args" and not isinstance(odd, float):
        return  # in there it is read by nobody
    events = [event("good", 10, 5), {**event("odd", 20, 5), where: odd}, event("after", 30, 5)]
    out = io.StringIO()
    (made,) = chrome.merge([part(0, trace(events))], out)
    shown = json.loads(out.getvalue(), parse_constant=refuse_constant)["traceEvents"]
    assert [each["name"] for each in shown if each["ph"] == "X"] == ["good", "after"]
    assert math.isfinite(made.profile.whole)


def test_each_rank_is_a_process_and_clocks_are_set_right() -> None:
    """Two ranks of one pid on two nodes, one of which is a second ahead."""
    first = trace([event("a", 10, 5)], base_ns=1_000_000_000)
    second = trace([event("a", 10, 5)], base_ns=2_000_000_000)
    events, _ = merged(part(0, first), part(1, second, ahead_ns=1_000_000_000))
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert [(names[e["pid"]], e["ts"]) for e in events if e["name"] == "a"] == [
        ("rank 0", 10),
        ("rank 1", 10),
    ]


def test_flows_of_two_ranks_stay_apart() -> None:
    """An arrow from an operator to its kernel must not lead to another rank's."""
    flow = {"ph": "s", "id": 5, "pid": 7, "tid": 7, "ts": 1, "cat": "ac2g", "name": "ac2g"}
    events, _ = merged(part(0, trace([flow])), part(1, trace([flow])))
    assert len({e["id"] for e in events if e["ph"] == "s"}) == 2


def test_time_is_an_operators_own() -> None:
    """What lies within another is taken from it; a kernel is on its GPU."""
    inner = [event("linear", 0, 100), event("addmm", 10, 60), event("copy", 80, 10)]
    kernel = event("gemm", 20, 40, cat="kernel", pid=0, tid=7)
    _, (result,) = merged(part(0, trace([*inner, kernel])))
    found = {stack.frames[-1].function: stack.weight for stack in result.profile.stacks}
    assert found == {"linear": 30, "addmm": 60, "copy": 10, "gemm": 40, "idle": 60}
    assert result.profile.whole == 100
    assert [s.thread for s in result.profile.stacks if s.frames[-1].file] == ["GPU 0", "GPU 0"]


def test_a_trace_that_is_cut_short_is_kept_as_far_as_it_goes() -> None:
    """And said to be: its rank has died, or its disk was full."""
    text = trace([event("a", 10, 5), event("b", 20, 5)])
    events, (result,) = merged(part(0, text[: text.index('"b"')]))
    assert [e["name"] for e in events if e["ph"] == "X"] == ["a"]
    assert not result.whole


def test_a_rank_that_does_nothing_is_on_the_time_line() -> None:
    """Beside one that does; all of its time is outside of operators."""
    window = {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans"}
    still = trace([{**window, "ts": 0, "dur": 500}])
    events, (idle, _) = merged(part(0, still), part(1, trace([event("a", 10, 5)])))
    names = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert names == ["rank 0", "rank 1"]
    assert (idle.idle, idle.whole, idle.profile.whole) == (True, True, 500)
    (stack,) = idle.profile.stacks
    assert stack.frames[0].function.startswith("outside of operators")
    assert (stack.thread, stack.main, stack.weight) == ("MainThread", True, 500)


def test_a_long_trace_is_read_in_portions() -> None:
    """No event is lost where one portion ends and the next begins."""
    events = [event(f"op-{number}", number, 1) for number in range(30_000)]
    text = trace(events, base_ns=77)
    assert len(text) > 2 * PORTION
    assert [e["name"] for e in TraceEvents(io.StringIO(text))] == [e["name"] for e in events]
    assert find_base(io.StringIO(text)) == 77


# --- files for others ---------------------------------------------------------------------


def whose(indices: Any) -> str:
    return ",".join(map(str, indices))


def test_speedscope_has_all_ranks_and_each() -> None:
    """In the profile of all, a frame that only some have says who."""
    profiles = [profile(0, ((MAIN,), 10), rate=10), profile(1, ((MAIN, LOAD), 10), rate=10)]
    out = io.StringIO()
    speedscope.write(out, profiles, tree.grow(profiles), "test", whose)
    written = json.loads(out.getvalue())
    names = [frame["name"] for frame in written["shared"]["frames"]]
    merged, first, second = written["profiles"]
    assert sorted([names[i] for i in sample] for sample in merged["samples"]) == [
        ["MainThread", "main"],
        ["MainThread", "main", "load [1]"],
    ]
    assert merged["weights"] == [50, 50]
    assert (first["weights"], first["unit"]) == ([1.0], "seconds")
    assert second["name"] == "rank 1 · node-1"


def test_the_page_holds_all_that_it_needs() -> None:
    """Shares by rank; no address is asked for; no name can end the script."""
    evil = Frame("</script><script>alert(1)", "", 0)
    profiles = [profile(0, ((MAIN, evil), 10)), profile(1, ((MAIN, LOAD), 10))]
    html = flame.page(tree.grow(profiles), ["0", "1"], "a < b", "time")
    assert not re.search(r"(src|href)=|url\(", html)
    assert html.count("</script>") == 2
    text = re.search(r'<script id="data".*?>(.*)</script>', html)
    assert text is not None
    data = json.loads(text[1])
    assert {node["n"]: node["s"] for node in data["nodes"]} == {
        "all": {"0": 10_000, "1": 10_000},
        "MainThread": {"0": 10_000, "1": 10_000},
        "main": {"0": 10_000, "1": 10_000},
        evil.function: {"0": 10_000},
        "load": {"1": 10_000},
    }


def test_the_flame_graph_looks_like_the_page() -> None:
    """It has the colours and fonts of page/, by the same names."""
    found = [
        dict(re.findall(r"(--[\w-]+): (.+?);", (Path(rankdbg.__file__).parent / name).read_text()))
        for name in ("profiles/flame.html", "../../page/src/page.css")
    ]
    ours, theirs = found
    assert len(ours) > 10 and ours.items() <= theirs.items()


def test_a_deep_stack_fits_a_page() -> None:
    """Deeper than Python or JSON would nest."""
    deep = tuple(Frame(f"f{depth}", "/a.py", 1) for depth in range(5000))
    html = flame.page(tree.grow([profile(0, (deep, 1))]), ["0"], "deep", "time")
    assert '"f4999"' in html


def test_what_is_too_small_is_pruned() -> None:
    """The heaviest stay, and what is left out is said."""
    leaves = [((MAIN, Frame(f"f{i}", "/a.py", 1)), float(i)) for i in range(1, 101)]
    grown = tree.grow([profile(0, *leaves)])
    least = tree.prune(grown, 13)
    assert len(list(tree.walk(grown))) == 13
    assert 0 < least < 100 / 5050


def test_a_share_is_compared_with_those_of_the_others() -> None:
    """Without its own, also where several are equal: as the median of the others is computed."""
    for shares in ((0.2,), (0.2, 0.5), (0.3, 0.1, 0.3), (0.4, 0.1, 0.1, 0.9), (0.5, 0.5, 0.5)):
        row = comparing.ProfileRow(MAIN, "", shares, False)
        for index, share in enumerate(shares):
            others = shares[:index] + shares[index + 1 :]
            usual = statistics.median(others) if others else 0.0
            assert row.beyond(index) == share - usual, (shares, index)
