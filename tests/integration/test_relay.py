"""Connections to agents that are kept for the next question."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from typing import Any

import pytest

from agents import Programs, wait_for
from jobs import PROGRAMS, Job
from rankdbg import wire
from rankdbg.node.relay import IdleConnections, NoAnswer, ask_agents
from rankdbg.types import Answer, Silence
from stopping import Stops
from waiting import PATIENCE, TEST_SECONDS

WAITING = "import sys; print('ready', flush=True); sys.stdin.read()"


@pytest.fixture
def rank(programs: Programs) -> Any:
    return programs.start(WAITING, stdin=-1)


def ask(
    programs: Programs, pid: int, kept: IdleConnections, question: str = "ping", **words: Any
) -> Any:
    sockets = {pid: str(programs.socket(pid))}
    message = {"ask": question, **words}
    return ask_agents(sockets, {pid: message}, time.monotonic() + 10.0, kept)[pid]


def kept_connection(programs: Programs, pid: int, kept: IdleConnections) -> socket.socket:
    """The one that is kept; it stays so."""
    connection = kept.take(str(programs.socket(pid)))
    assert connection is not None
    kept.keep(str(programs.socket(pid)), connection)
    return connection


def test_the_next_question_goes_over_the_same_connection(programs: Programs, rank: Any) -> None:
    """Once it was answered; an answer is the one to its own question."""
    kept = IdleConnections()
    assert ask(programs, rank.pid, kept) == {}
    first = kept_connection(programs, rank.pid, kept)
    assert ask(programs, rank.pid, kept, "evaluate", expression="6 * 7")["text"] == "42"
    assert kept_connection(programs, rank.pid, kept) is first


def test_no_connection_is_kept_on_which_an_answer_may_still_come(
    programs: Programs, rank: Any
) -> None:
    """A late answer would be taken for that to the next question."""
    kept = IdleConnections()
    sockets = {rank.pid: str(programs.socket(rank.pid))}
    sleep = {"ask": "evaluate", "expression": "__import__('time').sleep(1)", "timeout": 5}
    late = ask_agents(sockets, {rank.pid: sleep}, time.monotonic() + 0.2, kept)
    assert late == {rank.pid: NoAnswer("late")}
    assert kept.take(sockets[rank.pid]) is None


def test_an_agent_that_has_hung_up_is_asked_anew(programs: Programs, rank: Any) -> None:
    """As it does when a connection was idle for two minutes, or brought what is no message."""
    kept = IdleConnections()
    ask(programs, rank.pid, kept)
    connection = kept_connection(programs, rank.pid, kept)
    connection.setblocking(True)
    connection.sendall(b"no message\n")
    assert connection.recv(100) == b""
    connection.setblocking(False)
    assert ask(programs, rank.pid, kept) == {}
    assert kept_connection(programs, rank.pid, kept) is not connection


def fake(programs: Programs, mode: str) -> Any:
    return programs.start(PROGRAMS / "fake_agent.py", mode, env={"RANKDBG": "0"})


def test_a_command_is_not_repeated_once_it_was_heard(programs: Programs) -> None:
    """Where the agent has hung up after it has read a command, nobody knows whether the debugger
    had it; only what changes nothing is asked again."""
    rank = fake(programs, "hears and hangs up")
    assert ask(programs, rank.pid, IdleConnections(), "command", line="x += 1\n") == NoAnswer(
        "closed"
    )
    assert ask(programs, rank.pid, IdleConnections(), "stops") == NoAnswer("closed")
    assert ask(programs, rank.pid, IdleConnections(), "evaluate", expression="f()") == NoAnswer(
        "closed"
    )
    heard = (line for line in rank.stdout if line != "card\n")  # others look at rosters
    assert [next(heard) for _ in range(4)] == ["command\n", "stops\n", "stops\n", "evaluate\n"]


def test_a_command_is_asked_anew_if_it_was_not_heard(programs: Programs) -> None:
    """An agent that hangs up without having read has done nothing."""
    rank = fake(programs, "hangs up at first")
    assert ask(programs, rank.pid, IdleConnections(), "command", line="x += 1\n") == {}


def test_a_program_that_closes_all_descriptors_is_asked_anew(programs: Programs) -> None:
    """The kept connection has gone with them; the next one holds again."""
    code = """
        import os, sys
        print("ready", flush=True)
        sys.stdin.readline()
        os.closerange(3, 4096)
        print("closed", flush=True)
        sys.stdin.read()
    """
    program = programs.start(code, stdin=-1)
    kept = IdleConnections()
    assert ask(programs, program.pid, kept) == {}
    program.stdin.write("\n")
    program.stdin.flush()
    assert program.stdout.readline() == "closed\n"
    wait_for(lambda: ask(programs, program.pid, kept) == {}, "the agent listens anew")
    assert ask(programs, program.pid, kept) == {}


def test_a_full_queue_holds_nobody_up(programs: Programs, rank: Any) -> None:
    """Of one that takes no connections: it is late, and the others have answered."""
    with socket.socket(socket.AF_UNIX) as deaf, contextlib.ExitStack() as waiting:
        path = str(programs.scratch / "deaf.sock")
        deaf.bind(path)
        deaf.listen(0)
        with pytest.raises(BlockingIOError):
            while True:
                caller = waiting.enter_context(socket.socket(socket.AF_UNIX))
                caller.setblocking(False)
                caller.connect(path)
        sockets = {"deaf": path, "well": str(programs.socket(rank.pid))}
        deadline = time.monotonic() + 3.0
        answers = ask_agents(sockets, {key: {"ask": "ping"} for key in sockets}, deadline)
    assert answers == {"deaf": NoAnswer("late"), "well": {}}


def test_who_was_held_up_finds_what_has_come(programs: Programs, rank: Any) -> None:
    """The deadline is over when the answers are looked for, and they are there."""
    kept = IdleConnections()
    assert ask(programs, rank.pid, kept) == {}
    connection = kept_connection(programs, rank.pid, kept)
    connection.sendall(wire.encode({"id": 1, "ask": "ping"}))
    wait_for(lambda: select.select([connection], [], [], 0)[0], "an answer that waits")
    sockets, question = {rank.pid: str(programs.socket(rank.pid))}, {"ask": "ping"}
    past = time.monotonic() - 1.0
    assert ask_agents(sockets, {rank.pid: question}, past, kept) == {rank.pid: {}}


def test_connections_to_others_are_dropped(programs: Programs, rank: Any) -> None:
    """The agent's thread for that connection then ends."""
    kept, path = IdleConnections(), str(programs.socket(rank.pid))
    tasks = f"/proc/{rank.pid}/task"
    # Its own two; one that has answered what was asked before may not have ended yet.
    wait_for(lambda: len(os.listdir(tasks)) == 2, "its own threads")
    ask(programs, rank.pid, kept)
    kept.drop_all_but({path})
    wait_for(lambda: len(os.listdir(tasks)) == 3, "one more, for the one connection")
    kept.drop_all_but(())
    assert kept.take(path) is None
    wait_for(lambda: len(os.listdir(tasks)) == 2, "the thread ends")


def test_only_ranks_in_the_debugger_have_a_connection(job: Job) -> None:
    """While a session is open: one that runs has the threads that it had before."""
    stops = Stops(job)
    stops.start("steps", "done")
    stops.wait(1)
    with job.session() as session:
        ranks = {rank.number: rank for rank in session.job(job.name)}
        tasks = {number: f"/proc/{rank.pid}/task" for number, rank in ranks.items()}

        def threads() -> list[int]:
            return [len(os.listdir(tasks[number])) for number in (0, 1)]

        def alone() -> bool:
            seen = threads()
            if seen[0] < 3:  # it was late when it was asked, and is asked again
                session.job(job.name)
            # Its own thread, the one that listens, and the one of the connection; sessions of
            # others that look at all jobs keep one to a stopped rank, too.
            return seen[0] >= 3 and seen[1] == 2

        wait_for(alone, lambda: f"others have left; last: {threads()}")
        (answer,) = session.command([ranks[0]], "p x\n")
        assert isinstance(answer, Answer)
        assert answer.value.output == "0\n"
    wait_for(lambda: len(os.listdir(tasks[0])) == 2, "the session is closed")


def test_a_rank_that_is_killed_between_two_commands(job: Job) -> None:
    """It alone is silent, and at once."""
    stops = Stops(job)
    stops.start("steps", "steps")
    stops.wait(2)
    with job.session(TEST_SECONDS) as session:
        ranks = session.job(job.name)
        assert all(isinstance(answer, Answer) for answer in session.command(ranks, "p x\n"))
        os.kill(ranks[0].pid, signal.SIGKILL)
        begun = time.monotonic()
        dead, alive = session.command(ranks, "p x\n")
        assert time.monotonic() - begun < PATIENCE
    assert isinstance(dead, Silence)
    assert isinstance(alive, Answer)
