"""Ranks that stop: at breakpoint(), at a line, at an exception."""

from __future__ import annotations

from transcripts.machine import copy_here, start
from transcripts.scenario import NotRun, Play, Scene, said_by_rankdbg, wait_until


def at_breakpoint(play: Play) -> None:
    copy_here("examples")
    stops = [f"rank {rank} has stopped" for rank in range(4)]
    play.start().show(*stops, keep=said_by_rankdbg)
    play.open_shell("0-3    breakpoint")
    play.type("3  tensor(16.)")  # cast all p loss
    play.type("still running: all_reduce")  # cast 2 n
    play.type("0-1,3  >", "\n2  >")  # cast 0-1,3 n
    play.type("0-3  tensor(40.)")  # cast all p loss
    play.type("tensor(40.)")  # attach 3
    play.type("(19)train_step()")  # n
    play.type("0.025")  # p scale
    play.type()  # detach
    play.type("0-3  resumed")


def at_a_line(play: Play) -> None:
    copy_here("examples")
    play.start()
    wait_until("rankdbg ask all loss --frame train", "nan  float32")
    play.run("set at")
    play.run("2      breakpoint")
    play.run("tensor([[3, 1]])")
    play.run("cleared")
    play.run("resumed")
    play.run("set at")
    wait_until("rankdbg break --list --ranks 2", "loss=nan")
    play.run("loss=nan")
    play.run("stopped at train")


def at_an_exception(play: Play) -> None:
    copy_here("examples")
    job = play.start()
    job.show("rank 2 has stopped", keep=said_by_rankdbg)
    play.run("post-mortem")
    play.run("{'step': 3}")


def saved_at_an_exception(play: Play) -> None:
    copy_here("examples")
    command = ["torchrun", "--nproc-per-node", 4, "examples/error_on_one_rank.py"]
    start(["rankdbg", "run", "--save-on-error", "crash", "--job", "fails", "--", *command])
    play.run("{'step': 3}")


SCENARIO = [
    Scene(
        at_breakpoint,
        (
            "rankdbg run --job train",
            "rankdbg shell",
            "rankdbg> cast all p loss",
            "rankdbg> cast 2 n",
            "rankdbg> cast 0-1,3 n",
            "rankdbg> cast all p loss",
            "rankdbg> attach 3",
            "(rank 3) n",
            "(rank 3) p scale",
            "(rank 3) detach",
            "rankdbg> continue",
        ),
    ),
    NotRun(
        "shows commands alone",
        (
            "echo 'cast ranks(:) p loss' | rankdbg shell",
            "rankdbg cast 'ranks(tp=0)'",
            "rankdbg list",
            "rankdbg continue",
        ),
    ),
    Scene(
        at_a_line,
        (
            "rankdbg run --job nans",
            "rankdbg break nan_on_one_rank.py:35 if",
            "rankdbg list",
            "rankdbg cast 'state=stopped'",
            "rankdbg break --clear",
            "rankdbg continue",
            "rankdbg break nan_on_one_rank.py:35 log",
            "rankdbg break --list",
            "rankdbg pause all",
        ),
    ),
    Scene(at_an_exception, ("rankdbg run --break-on-error", "rankdbg ps", "rankdbg cast 2")),
    Scene(saved_at_an_exception, ("rankdbg ask 2 sample",)),
]
