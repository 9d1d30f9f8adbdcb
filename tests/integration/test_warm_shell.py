"""An open shell lists stops from what agents have announced, and never what is no longer so."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs import PROGRAMS, Job
from rankdbg.node.machine import processes
from rankdbg.session import Session
from rankdbg.types import Answer, Rank, Silence
from ssh_hosts import Hosts
from stopping import Stops
from waiting import ANSWER_SECONDS, wait_for

STOPS = PROGRAMS / "stops.py"


@pytest.fixture
def stops(job: Job) -> Stops:
    return Stops(job)


@contextlib.contextmanager
def warm_session(job: Job) -> Iterator[Session]:
    """As an open shell has it."""
    with job.session() as session:
        session.warm = True
        yield session


def listed(session: Session, job: str) -> dict[int | None, list[Any]]:
    """What `list` shows: of each rank that is there its stops, or its silence."""
    _, answers = session.job_with_stops(job)
    return {
        answer.rank.number: answer.value.stops if isinstance(answer, Answer) else [answer]
        for answer in answers
    }


def stopped(session: Session, job: str) -> dict[int | None, list[int]]:
    """The numbers of the stops that wait for a command."""
    return {
        number: [stop.stop for stop in found if stop.state == "stopped"]
        for number, found in listed(session, job).items()
        if not any(isinstance(stop, Silence) for stop in found)
    }


def switches(pid: int) -> int:
    """How often the threads of a process have been put onto a processor."""
    return sum(processes.read_thread(pid, t).switches for t in processes.threads(pid))


def wait_for_announcements(session: Session, job: str) -> list[Rank]:
    """The ranks, as soon as a list wakes none of them."""
    ranks = session.job(job)

    def wakes_nobody() -> bool:
        before = [switches(rank.pid) for rank in ranks]
        listed(session, job)
        return [switches(rank.pid) for rank in ranks] == before

    wait_for(wakes_nobody, "a list that wakes no rank")
    return sorted(ranks, key=lambda rank: rank.number or 0)


def wait_for_words(started: Any, count: int) -> None:
    """Until the ranks have said so many times that they have stopped."""
    while count:
        count -= "has stopped" in started.stderr.readline()


def test_stopped_ranks_are_not_asked(stops: Stops) -> None:
    """A list of announced stops wakes no thread of the ranks, and says what they would say."""
    stops.start("steps", "in_threads", "in_coroutine")
    stops.wait(4)
    with warm_session(stops.job) as warm, stops.job.session() as cold:
        wait_for_announcements(warm, stops.job.name)
        assert listed(warm, stops.job.name) == listed(cold, stops.job.name)
        now, asked = warm.job(stops.job.name), cold.job(stops.job.name)
        assert now == asked


def test_what_has_not_changed_is_not_sent_again(stops: Stops) -> None:
    """The node says only that nothing has changed, until something has."""
    stops.start("many", "many")
    stops.wait(2)
    name = stops.job.name
    with warm_session(stops.job) as warm, stops.job.session() as other:
        ranks = wait_for_announcements(warm, name)

        def is_the_same() -> bool:
            return warm.roster(False, name, stops=True) is warm.roster(False, name, stops=True)

        wait_for(is_the_same, "the same roster")
        other.command(ranks[:1], "continue")
        assert stopped(warm, name)[0] != [1]
        wait_for(is_the_same, "the same roster again")


def test_a_rank_that_goes_on_is_not_listed(stops: Stops) -> None:
    """Whoever lets it go on, and however soon after that one lists."""
    stops.start("many", "steps")
    stops.wait(2)
    with warm_session(stops.job) as warm, stops.job.session() as other:
        rank = wait_for_announcements(warm, stops.job.name)[0]
        for _ in range(20):
            other.command([rank], "continue\n")
            (answer,) = other.command([rank], None, 5.0, next_stop=True)
            assert isinstance(answer, Answer)
            assert answer.value.state == "stopped"
            assert stopped(warm, stops.job.name) == {0: [answer.value.stop], 1: [1]}
        one = [rank for rank in warm.job(stops.job.name) if rank.number == 1]
        other.command(one, "continue\n")
        assert stopped(warm, stops.job.name).get(1, []) == []


def test_a_rank_that_runs_a_command_is_not_listed_as_waiting(stops: Stops) -> None:
    """While a command takes its time, and when it has come to its end."""
    stops.start("steps")
    stops.wait(1)
    with warm_session(stops.job) as warm, stops.job.session() as other:
        ranks = wait_for_announcements(warm, stops.job.name)
        other.command(ranks, "import threading; e = threading.Event(); e.wait(1)\n", 0.01)
        assert stopped(warm, stops.job.name) == {0: []}
        (answer,) = other.command(ranks, None, 10.0)
        assert isinstance(answer, Answer)
        assert stopped(warm, stops.job.name) == {0: [1]}


def test_a_rank_that_has_just_stopped_is_listed(stops: Stops) -> None:
    """One that ran when the shell last looked."""
    stops.job.start_ranks("loops", "loops", "loops")
    stops.job.wait_for(lambda ranks: len(ranks) == 3 and all(rank.where for rank in ranks))
    with warm_session(stops.job) as warm, stops.job.session() as other:
        ranks = sorted(warm.job(stops.job.name), key=lambda rank: rank.number or 0)
        for number, rank in enumerate(ranks):
            assert stopped(warm, stops.job.name)[number] == []
            (answer,) = other.pause([rank])
            assert isinstance(answer, Answer)
            assert answer.value.state == "stopped", answer
            assert stopped(warm, stops.job.name)[number] == [1]


def test_another_thread_that_stops_is_listed(stops: Stops) -> None:
    """Beside the stop that was announced before, as soon as the rank has said so."""
    started = stops.start("one_after_the_other")
    stops.wait(1)
    with warm_session(stops.job) as warm:
        (rank,) = wait_for_announcements(warm, stops.job.name)
        os.kill(rank.pid, signal.SIGUSR1)
        wait_for_words(started, 2)
        found = listed(warm, stops.job.name)[0]
        assert [stop.stop for stop in found] == [1, 2]


def test_a_killed_rank_is_not_listed(stops: Stops) -> None:
    """It is said to be gone, and the others are listed."""
    stops.start("steps", "steps")
    stops.wait(2)
    with warm_session(stops.job) as warm:
        _, second = wait_for_announcements(warm, stops.job.name)
        os.kill(second.pid, signal.SIGKILL)
        wait_for(lambda: not is_running(second), "its end")
        found = listed(warm, stops.job.name)
        assert [stop.stop for stop in found[0]] == [1]
        assert all(isinstance(silence, Silence) for silence in found.get(1, []))
        states = {rank.number: rank.state for rank in warm.job(stops.job.name)}
        assert states[0] == "stopped"
        assert states.get(1) in (None, "gone", "zombie")


def is_running(rank: Rank) -> bool:
    stat = processes.read_stat(rank.pid)
    return stat is not None and stat.start == rank.process.start and stat.state not in "ZX"


def test_a_rank_that_a_signal_has_stopped_says_so(stops: Stops) -> None:
    """It cannot be commanded, and is not listed as if it could."""
    stops.start("steps")
    stops.wait(1)
    with warm_session(stops.job) as warm:
        (rank,) = wait_for_announcements(warm, stops.job.name)
        os.kill(rank.pid, signal.SIGSTOP)
        wait_for(lambda: processes.read_stat(rank.pid).state == "T")  # type: ignore[union-attr]
        ((silence,),) = listed(warm, stops.job.name).values()
        assert "stopped by a signal" in silence.reason
        os.kill(rank.pid, signal.SIGCONT)
        assert stopped(warm, stops.job.name) == {0: [1]}


def test_a_process_that_runs_another_program_is_not_listed(stops: Stops) -> None:
    """exec() leaves the process its number and its start time."""
    stops.start("replaced_by_another_program")
    stops.wait(1)
    with warm_session(stops.job) as warm:
        (rank,) = wait_for_announcements(warm, stops.job.name)
        os.kill(rank.pid, signal.SIGUSR1)
        wait_for(lambda: "sleep" in processes.command(rank.pid))
        assert 0 not in {n for n, found in stopped(warm, stops.job.name).items() if found}


@pytest.mark.parametrize("directory", ["same", "other"])
def test_a_new_rank_is_listed(stops: Stops, directory: str) -> None:
    """One that has come since the shell last looked, also with its agent in a directory of its
    own."""
    stops.job.start(sys.executable, PROGRAMS / "launch.py", "1/2", STOPS, "steps")
    stops.wait(1)
    with warm_session(stops.job) as warm, stops.job.session() as other:
        wait_for_announcements(warm, stops.job.name)
        elsewhere = {"RANKDBG_DIR": str(stops.job.directory.parent / "elsewhere")}
        place = elsewhere if directory == "other" else {}
        environment = {"RANK": "1", "WORLD_SIZE": "2", **place}
        stops.job.start(sys.executable, STOPS, "steps", env=environment)
        wait_for(lambda: stopped(other, stops.job.name).get(1) == [1])
        assert stopped(warm, stops.job.name) == {0: [1], 1: [1]}


def test_a_mesh_that_another_thread_names_shows_at_once(stops: Stops) -> None:
    """Labels are announced anew."""
    stops.start("in_threads")
    stops.wait(2)
    with warm_session(stops.job) as warm, stops.job.session() as other:
        ranks = wait_for_announcements(warm, stops.job.name)
        other.evaluate(ranks, "__import__('rankdbg').set_mesh({'tp': 1})")
        (rank,) = warm.job(stops.job.name)
        assert rank.coordinates == {"tp": 0}


def test_a_file_that_is_edited_is_looked_at_again(stops: Stops, tmp_path: Path) -> None:
    """What is announced of sources holds as long as the files are the same."""
    program = tmp_path / "edited.py"
    program.write_text(STOPS.read_text())
    stops.job.start(sys.executable, PROGRAMS / "launch.py", 1, program, "steps")
    stops.wait(1)
    with warm_session(stops.job) as warm:
        wait_for_announcements(warm, stops.job.name)
        program.write_text(STOPS.read_text().replace("y = x + 1", "y = x + 2"))

        def changed() -> bool:
            ((stop,),) = listed(warm, stops.job.name).values()
            return [entry.changed for entry in stop.sources] == [True]

        wait_for(changed, "the rank to say that its file has changed")


def test_a_shell_lists_what_it_has_let_go_on(stops: Stops) -> None:
    """The same from a pipe, as a user types it."""
    stops.start("with_header", "with_header")
    stops.wait(2)
    script = "list\nlist\ncontinue 1\nlist\ncast 0 n\nlist\ncontinue\nlist\n"
    result = stops.job.cli("shell", input=script)
    assert result.returncode == 0, result.stderr
    rows = [line.split()[:2] for line in result.stdout.splitlines() if "breakpoint" in line]
    assert rows == [["0-1", "breakpoint"]] * 2 + [["0", "breakpoint"]] * 2
    assert result.stdout.rstrip().splitlines()[-1] in ("no rank is stopped", "not stopped: 1")


@pytest.mark.extra
@pytest.mark.slow
def test_ranks_of_other_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank goes on there, one is killed there, and a new one stops there."""
    name = "warm-there"
    with Hosts(tmp_path / "hosts", "host-1", "host-2") as hosts:
        monkeypatch.setenv("PATH", f"{hosts.path}:{os.environ['PATH']}")
        for rank in range(4):
            hosts.start_rank(hosts.names[rank // 2], name, rank, 5, STOPS, "many")
        with (
            Session(hosts.target, ANSWER_SECONDS) as warm,
            Session(hosts.target, ANSWER_SECONDS) as other,
        ):
            warm.warm = True

            def four() -> bool:
                found = stopped(other, name) if name in other.roster().jobs() else {}
                return found == {number: [1] for number in range(4)}

            wait_for(four)
            expected = {number: [1] for number in range(4)}
            assert stopped(warm, name) == expected
            ranks = {rank.number: rank for rank in warm.job(name)}
            for number in (0, 2, 2):
                other.command([ranks[number]], "continue\n")
                (answer,) = other.command([ranks[number]], None, 5.0, next_stop=True)
                assert isinstance(answer, Answer)
                expected[number] = [answer.value.stop]
                assert stopped(warm, name) == expected
            hosts.run("host-2", f"kill -9 {ranks[3].pid}")
            wait_for(
                lambda: str(ranks[3].pid) not in hosts.run("host-2", "ls /proc").stdout.split()
            )
            del expected[3]
            found = stopped(warm, name)
            assert {number: numbers for number, numbers in found.items() if numbers} == expected
            hosts.start_rank("host-2", name, 4, 5, STOPS, "many")
            wait_for(lambda: stopped(other, name).get(4) == [1])
            assert stopped(warm, name)[4] == [1]
