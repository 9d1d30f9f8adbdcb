"""Clients of Monarch with four procs: one stops, one fails, one runs."""

from __future__ import annotations

from transcripts.machine import copy_here, start
from transcripts.scenario import NotRun, Play, Scene, wait_until

PROGRAMS = "docs/transcripts/programs/monarch"
STOPS = "rankdbg list -t monarch --all"


def stops(play: Play) -> None:
    copy_here(f"{PROGRAMS}/train.py")
    play.start()
    wait_until(STOPS, "Trainer.step")
    play.run("stopped  Trainer.step")
    play.run("2      breakpoint")
    play.run("2  3")
    play.run("[1, 2, 3]")
    play.run("--Return--")
    play.run("2  resumed")
    wait_until(STOPS, "breakpoint  <module>")
    play.run("breakpoint  <module>")
    play.run("resumed")


def fails(play: Play) -> None:
    copy_here(f"{PROGRAMS}/train.py")
    start(["rankdbg", "run", "--break-on-error", "--", "python", "train.py", "fails"])
    wait_until(STOPS, "post-mortem")
    play.run("IndexError")
    play.run("([3, 1, 2], 3)")
    play.run("3  resumed")


def runs(play: Play) -> None:
    copy_here(f"{PROGRAMS}/loop.py")
    start(["rankdbg", "run", "--", "python", "loop.py"])
    wait_until("rankdbg ps -t monarch", "0-3    running  Trainer.train")
    play.run("not yet in threads")


SCENARIO = [
    Scene(
        stops,
        (
            "rankdbg run -- python train.py",
            "rankdbg ps -t monarch --all",
            "rankdbg list -t monarch",
            "rankdbg ask -t monarch",
            "rankdbg cast -t monarch 2 'p loss, batch'",
            "rankdbg cast -t monarch 2 next",
            "rankdbg cast -t monarch 2 next",
            "rankdbg list -t monarch --all",
            "rankdbg continue -t monarch --all",
        ),
    ),
    Scene(
        fails,
        ("rankdbg list -t monarch", "rankdbg cast -t monarch 3", "rankdbg continue -t monarch"),
    ),
    NotRun(
        "shows Python 3.12, in an environment with 3.11",
        ("rankdbg break -t monarch loop.py:13", "rankdbg list -t monarch"),
    ),
    Scene(runs, ("rankdbg break -t monarch loop.py:13",)),
]
