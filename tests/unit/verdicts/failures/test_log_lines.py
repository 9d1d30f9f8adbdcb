"""Log lines taken apart: clocks of many makes, prefixes that say who speaks, messages."""

from __future__ import annotations

import re
from datetime import datetime, timezone

import pytest

from rankdbg.logs.clocks import CLOCK, CLOCK_OF_PREFIX, read_clock, read_stamp
from rankdbg.logs.messages import messages
from rankdbg.logs.prefixes import is_labelled, take_apart, without_progress
from rankdbg.logs.speakers import rank_of_file

NOON = datetime(2026, 11, 15, 12).timestamp()


def local(*date: int, micro: int = 0) -> float:
    return datetime(*date, microsecond=micro).timestamp()  # type: ignore[arg-type, misc]


def utc(*date: int) -> float:
    return datetime(*date, tzinfo=timezone.utc).timestamp()  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("stamp", "time"),
    [
        ("2026-11-15 10:41:07", local(2026, 11, 15, 10, 41, 7)),
        ("2026-11-15T10:41:07.250", local(2026, 11, 15, 10, 41, 7, micro=250_000)),
        ("2026-11-15 10:41:07,250", local(2026, 11, 15, 10, 41, 7, micro=250_000)),
        ("2026/11/15 10:41:07", local(2026, 11, 15, 10, 41, 7)),
        ("E1115 10:41:07.62", local(2026, 11, 15, 10, 41, 7, micro=620_000)),
        ("W419 10:41:07", local(2026, 4, 19, 10, 41, 7)),
        ("11-15 10:41:07", local(2026, 11, 15, 10, 41, 7)),
        ("Nov 15 10:41:07", local(2026, 11, 15, 10, 41, 7)),
        ("Nov 15 10:41:07 2025", local(2025, 11, 15, 10, 41, 7)),
        ("11/15/2026 10:41:07", local(2026, 11, 15, 10, 41, 7)),
        ("26/11/15 10:41:07", local(2026, 11, 15, 10, 41, 7)),
        ("2026-11-15 10:41:60", local(2026, 11, 15, 10, 41, 59)),
        ("2026-11-15T10:41:07Z", utc(2026, 11, 15, 10, 41, 7)),
        ("2026-11-15 10:41:07 UTC", utc(2026, 11, 15, 10, 41, 7)),
        ("2026-11-15T10:41:07+02:00", utc(2026, 11, 15, 8, 41, 7)),
        ("2026-11-15 10:41:07.000 -0530", utc(2026, 11, 15, 16, 11, 7)),
        ("2026-13-45 10:41:07", None),
        ("1763200000.5", 1763200000.5),
    ],
)
def test_clocks(stamp: str, time: float | None) -> None:
    """Each make of clock is found whole and read; without a zone it is local."""
    found = re.search(CLOCK_OF_PREFIX, f"{stamp} a message")
    assert found and found[0] == stamp
    assert read_stamp(stamp, 2026) == time


def test_clock_without_a_year() -> None:
    """It is the latest that is not after the file was written."""
    january = local(2027, 1, 1, 0, 5)
    assert read_clock("12-31 23:59:00", january) == local(2026, 12, 31, 23, 59)
    assert read_clock("01-01 00:01:00", january) == local(2027, 1, 1, 0, 1)


def test_clock_without_a_date() -> None:
    """The time of day is of the day on which the file was written, or of the day before."""
    assert read_clock("10:41:07.5", NOON) == local(2026, 11, 15, 10, 41, 7, micro=500_000)
    assert read_clock("23:41:07", NOON) == local(2026, 11, 14, 23, 41, 7)


def test_durations_are_no_clocks() -> None:
    """A time of day counts only where a prefix is expected."""
    assert not re.search(CLOCK, "Timeout(ms)=600000, ran for 00:10:00 before")
    assert take_apart("step 3 took 00:10:00 in all").stamp == ""


@pytest.mark.parametrize(
    ("line", "rank", "text"),
    [
        ("[rank3]: ValueError: bad", 3, "ValueError: bad"),
        ("[1,3]<stderr>:ValueError: bad", 3, "ValueError: bad"),
        ("[1,3]<stdout>:  x = 3", 3, "  x = 3"),
        ("[prterun-node-1-4711@1,3]<stderr>: ValueError: bad", 3, "ValueError: bad"),
        ("[default3]:hello", 3, "hello"),
        ("[trainer0|3]:hello", 3, "hello"),
        ('[rank3]:   File "train.py", line 3', 3, '  File "train.py", line 3'),
        (
            "[rank3]:[E325 20:57:27.62 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught",
            3,
            "[E ProcessGroupNCCL.cpp:616] Watchdog caught",
        ),
        (
            "[rank1]:[E1115 10:00:00.1 ProcessGroupNCCL.cpp:9] [PG ID 0 PG GUID 0 Rank 1] Timeout",
            1,
            "[E ProcessGroupNCCL.cpp:9] Timeout",
        ),
        ("2026-11-15 10:00:00,1 - train - INFO - [rank 3] step 5", 3, "train - INFO - step 5"),
        ("INFO [rank3] [train.py:7] step 5", 3, "INFO [train.py:7] step 5"),
        ("10:41:07 | INFO | rank 3 | step 5", 3, "INFO | step 5"),
        ("[2026-11-15 10:00:00 TP2] Prefill batch", 2, "Prefill batch"),
        ("(Worker_TP3 pid=99) INFO 11-15 10:00:00 [run.py:1] Hi", 3, "INFO [run.py:1] Hi"),
        ("\x1b[36m(Trainer pid=9, ip=10.0.0.2)\x1b[0m step 5", None, "step 5"),
        ("node-1:1234:5678 [3] NCCL INFO Using eth0", None, "NCCL INFO Using eth0"),
        ("I1115 10:00:00.1 139 foo.py:12] hello", None, "I foo.py:12] hello"),
        ("[2026-11-15 10:00:00,1 W 47 49] agent.cc:1: Lost", None, "[W] agent.cc:1: Lost"),
        ("Nov 15 10:00:00 node-1 python[1234]: hello", None, "hello"),
        ("2026-11-15T10:41:07.9Z [pod/train-3/main] INFO hello", None, "INFO hello"),
        ("[rank0]: --------", 0, "--------"),
        ("[rank0]:   - lr: 0.1", 0, "  - lr: 0.1"),
        ("2026-11-15 10:00:00 [1, 2, 3]", None, "[1, 2, 3]"),
        ("2026-11-15 10:00:00 - [rank0]: (a, b)", 0, "(a, b)"),
        ("step 5 on rank 3 of 8", None, "step 5 on rank 3 of 8"),
        (" iteration  10/ 100 | loss 2.3", None, " iteration  10/ 100 | loss 2.3"),
        ("resumed from 2026-11-14 10:00:00", None, "resumed from 2026-11-14 10:00:00"),
    ],
)
def test_prefixes(line: str, rank: int | None, text: str) -> None:
    """Who speaks and when is taken out of the text, and nothing else is."""
    apart = take_apart(line)
    assert (apart.rank, apart.text) == (rank, text)


def test_several_clocks() -> None:
    """The first with a time zone counts, else the first."""
    kept = "2026-11-15T10:41:07.9Z INFO 11-15 12:41:06 hello"
    assert take_apart(kept).stamp == "2026-11-15T10:41:07.9Z"
    assert take_apart("11-15 12:41:06 2026-11-15T10:41:07Z hello").stamp == "2026-11-15T10:41:07Z"
    assert take_apart("2026-11-15 12:41:06 INFO 11-15 12:41:05 x").stamp == "2026-11-15 12:41:06"


def test_process_of_ray() -> None:
    """Ray's prefix tells the class, the pid and the node; what it has left out is counted."""
    line = take_apart("(Trainer pid=47, ip=10.0.0.2) hi [repeated 3x across cluster] (Ray dedup…)")
    assert line[2:7] == (47, "Trainer", "10.0.0.2", "hi", 3)


def test_labels_of_srun() -> None:
    """A number before every line is a task's."""
    assert is_labelled("0: a\n1: b\n0: c\n1: d\n")
    assert not is_labelled("0: a\nb\nc\nd\n")
    assert take_apart(" 3: 2026-11-15 10:00:00 hi", labelled=True)[:2] == ("2026-11-15 10:00:00", 3)


def test_structured_logs() -> None:
    """A record in JSON has its clock inside, and without words is shown without it."""
    line = take_apart('{"time": "2026-11-15 10:00:00", "loss": 2.5}')
    assert (line.stamp, line.text) == ("2026-11-15 10:00:00", '{"time": "", "loss": 2.5}')


def test_progress_bars() -> None:
    """Of what carriage returns have written over, messages and the last state remain."""
    bar = " 10%|#   | 1/10 [00:01<00:09, 1.0it/s]"
    assert without_progress(f"{bar}\rINFO saved\r{bar}\r done") == ["INFO saved", " done"]


def texts(*lines: str) -> list[tuple[int | None, str]]:
    return [(message.head.rank, message.text) for message in messages(lines, labelled=False)]


def test_tracebacks_are_one_message() -> None:
    """Also where two ranks write theirs into one file at once, and where causes are chained."""
    first = ["Traceback (most recent call last):", '  File "a.py", line 1', "ValueError: 1"]
    then = ["During handling of the above exception, another exception occurred:"]
    lines = [*first, *then, "Traceback (most recent call last):", "  File", "KeyError: 2"]
    both = [f"[rank{rank}]: {line}" for line in lines for rank in (0, 1)]
    whole = "\n".join(lines)
    assert texts(*both, "[rank0]: after") == [(0, whole), (1, whole), (0, "after")]


def test_indented_lines_go_on() -> None:
    """A line without a clock that is indented belongs to the one before it."""
    assert texts("10:00:00 config:", "  lr: 0.1", "\tmore", "end") == [
        (None, "config:\n  lr: 0.1\n\tmore"),
        (None, "end"),
    ]


def test_traceback_of_a_logger() -> None:
    """`logging.exception` has a prefix on its first line alone: what follows is of that rank."""
    lines = ["[rank2] ERROR failed", "Traceback (most recent call last):", "  File", "OSError: x"]
    assert [rank for rank, _ in texts(*lines)] == [2, 2]


def test_lines_without_a_clock_have_that_of_the_line_before() -> None:
    """Their place is behind it."""
    made = messages(["2026-11-15 10:00:00 a", "b", "2026-11-15 10:00:01 c"], labelled=False)
    assert [m.stamp[-2:] for m in made] == ["00", "00", "01"]


@pytest.mark.parametrize(
    ("path", "rank"),
    [
        ("logs/rank_3.log", 3),
        ("logs/rank-12/stderr", 12),
        ("/x/run_1/attempt_0/3/stderr.log", 3),
        ("out-3.txt", 3),
        ("slurm-4711.out", None),
        ("train.log", None),
    ],
)
def test_rank_of_a_file(path: str, rank: int | None) -> None:
    """The names that launchers give to files tell whose they are."""
    assert rank_of_file(path) == rank
