"""What a launcher knows of its processes, joined with those that are there."""

from __future__ import annotations

import os
import time

from rankdbg.node.machine.processes import read_stat
from rankdbg.node.roster.ended_processes import remove_stale
from rankdbg.node.roster.found_processes import Process
from rankdbg.node.roster.launcher_records import LauncherLabels, add_dead, known_or_below

DEAD = {"job": "ray-01", "role": "Rollout", "place": 0, "engine": "ray", "dead": "it died"}
LONG_AGO = 1000  # in milliseconds


def this_process() -> Process:
    stat = read_stat(os.getpid())
    assert stat is not None
    return Process(os.getpid(), stat.start, stat.ppid, True, {}, [])


def listed(found: list[Process], known: LauncherLabels) -> list[Process]:
    add_dead(found, known)
    for process in found:
        process.kind = "rank"
    return known_or_below(remove_stale(found), known)


def test_dead_without_company() -> None:
    """A dead rank that the launcher has stays, although none of its job runs on this node."""
    (gone,) = listed([], {7: DEAD})
    assert (gone.pid, gone.alive, gone.labels["dead"]) == (7, False, "it died")


def test_process_id_of_a_stranger() -> None:
    """A process that began after the end of the dead one is not taken for it, and not listed."""
    (gone,) = listed([this_process()], {os.getpid(): {**DEAD, "ended": LONG_AGO}})
    assert not gone.alive


def test_process_that_is_about_to_end() -> None:
    """It is listed once, as the process that it still is."""
    now = int(time.time() * 1000)
    (there,) = listed([this_process()], {os.getpid(): {**DEAD, "ended": now}})
    assert there.alive


def test_process_id_that_is_used_again() -> None:
    """The living process and all dead ones before it are listed, each with its own key."""
    labels = {"job": "ray-01", "role": "Rollout", "place": 2, "before": [DEAD, DEAD]}
    found = listed([this_process()], {os.getpid(): labels})
    assert [process.alive for process in found] == [True, False, False]
    assert len({process.key for process in found}) == 3


def test_processes_of_a_node_that_is_gone() -> None:
    """They are listed with the pids that they had, beside the process here that has one of them."""
    away = [{**DEAD, "pid": os.getpid(), "place": place} for place in (0, 1)]
    labels = {"job": "ray-01", "role": "Rollout", "place": 2}
    found = listed([this_process()], {os.getpid(): labels, 0: {"before": away}})
    assert [(process.pid, process.alive) for process in found] == [
        (os.getpid(), True),
        (os.getpid(), False),
        (os.getpid(), False),
    ]
    assert len({process.key for process in found}) == 3


def test_stranger_with_the_process_id_of_one_elsewhere() -> None:
    """A process of this node that the launcher does not know is not listed for it."""
    (gone,) = listed([this_process()], {0: {"before": [{**DEAD, "pid": os.getpid()}]}})
    assert not gone.alive
