"""Whose scheduler a Dask scheduler is, from commands, titles and ancestors."""

from __future__ import annotations

from rankdbg.roster.jobs import name_unnamed
from rankdbg.roster.members import Ancestor, Member

SCHEDULER = ["dask scheduler [tcp://192.0.2.2:8786]"]  # Dask sets its title where it can


def member(pid: int, command: list[str], *above: int, host: str = "a") -> Member:
    labels = {} if "scheduler" in command[0] else {"engine": "dask", "part": "worker"}
    found = Member(pid, 1, above[0] if above else 1, True, labels, command, host=host)
    found.above = tuple(Ancestor(each, "") for each in above)
    return found


def workers(pid: int, *words: str, above: int = 3, host: str = "a") -> Member:
    return member(pid, ["python", "/bin/dask", "worker", *words], above, host=host)


def shared(scheduler: Member, *others: Member) -> list[bool]:
    """Which of these have its job."""
    name_unnamed([scheduler, *others])
    return [other.job == scheduler.job for other in others]


def test_address() -> None:
    """Workers that name the scheduler's address are its own, wherever they run."""
    named = workers(8, "tcp://192.0.2.2:8786", host="b")
    assert shared(member(7, SCHEDULER, 3), named, workers(9, "tcp://192.0.2.2:9999")) == [
        True,
        False,
    ]


def test_file() -> None:
    """So are those that read its file."""
    scheduler = member(7, ["python", "-m", "dask", "scheduler", "--scheduler-file=/x.json"], 3)
    one, other = (
        workers(8, "--scheduler-file", "/y.json"),
        workers(9, "--scheduler-file", "/x.json"),
    )
    assert shared(scheduler, one, other) == [False, True]


def test_script() -> None:
    """Else those of the same script."""
    one, other = workers(8, above=4), workers(9, above=3)
    assert shared(member(7, SCHEDULER, 3), one, other) == [False, True]


def test_no_others() -> None:
    """Else the only ones; not the workers that a program has for itself, and none of two."""
    assert shared(member(7, SCHEDULER, 3), workers(8, above=4)) == [True]
    own = member(8, ["dask worker [tcp://192.0.2.2:36091]"], 4)
    assert shared(member(7, SCHEDULER, 3), own) == [False]
    assert shared(member(7, SCHEDULER, 3), workers(8, above=4), workers(9, above=5)) == [
        False,
        False,
    ]
