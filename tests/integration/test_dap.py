"""One attach for all ranks: `rankdbg dap`, a raw client, real debugpy in real ranks."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents import python
from dap_client import DapClient
from editor import (
    INITIALIZE,
    LOOP,
    TORCH,
    DapServer,
    Editor,
    evaluate,
    frames,
    line_of,
    start_torch,
    variables,
)
from jobs import PROGRAMS, TORCHRUN, Job
from rankdbg.types import Answer
from tiers import chiefly
from waiting import PATIENCE, wait_for

pytest.importorskip("debugpy", reason="needs debugpy")

# In a rank: how often debugpy looks by itself whether a thread is to go on.
LOOKS = "vars(__import__('sys').modules['pydevd']).update"


def start_loops(job: Job, *behaviours: str, **settings: Any) -> Any:
    launcher = PROGRAMS / "launch.py"
    words = behaviours or ("loops", "loops")
    process = job.start(sys.executable, launcher, len(words), LOOP, *words, **settings)
    job.wait_for(lambda ranks: len([r for r in ranks if r.where]) == len(words))
    return process


def steps(job: Job) -> list[int]:
    """How far each rank is, as soon as each of them loops."""

    def look() -> list[int] | None:
        with job.session() as session:
            answers = session.evaluate(session.job(job.name), "step", "loops")
        values = [answer.value for answer in answers if isinstance(answer, Answer)]
        looping = len(values) == len(answers) and all(v.kind == "number" for v in values)
        return [int(value.text) for value in values] if looping else None

    return wait_for(look, "every rank loops")


def wait_until_running(job: Job) -> None:
    before = steps(job)
    wait_for(lambda: all(a > b for a, b in zip(steps(job), before, strict=True)), "they go on")


@pytest.fixture
def server(job: Job) -> Iterator[DapServer]:
    start_loops(job)
    with DapServer(job) as server:
        yield server


@pytest.fixture
def editor(server: DapServer) -> Iterator[Editor]:
    editor = Editor(server)
    yield editor
    editor.close()


# --- what an editor gets ------------------------------------------------------------------------


@pytest.mark.parametrize("count", chiefly([8], [2, 8]))
@pytest.mark.slow
def test_one_attach_stops_all_torch_ranks_at_a_breakpoint(job: Job, count: int) -> None:
    """Each rank is a session of its own, named by rank and coordinates, and stops in a frame
    that was running when the editor came."""
    gate = start_torch(job, count, *(TORCHRUN if count == 2 else ()))
    with DapServer(job) as server:
        editor = Editor(server)
        editor.break_at(TORCH, line_of(TORCH, "in train"))
        sessions = editor.attach_all(count)
        gate.touch()
        for rank, session in sessions.items():
            stop = session.event("stopped")
            assert stop["reason"] == "breakpoint"
            assert frames(session, stop["threadId"])[0] == ("train", line_of(TORCH, "in train"))
            assert evaluate(session, stop["threadId"], "RANK") == str(rank)
        assert any(name.startswith("rank 1 · hosts=0 gpus=1 · ") for name in editor.sessions)
        wait_for(lambda: told_of(editor) == {*range(count)}, editor.parent.console)
        editor.leave()


def told_of(editor: Editor) -> set[int]:
    """The ranks that the parent's console said to have stopped: those at once in one line."""
    found = set()
    for line in re.findall(r"^ranks? ([\d,-]+) stopped at", editor.parent.console(), re.MULTILINE):
        for part in line.split(","):
            first, _, last = part.partition("-")
            found |= {*range(int(first), int(last or first) + 1)}
    return found


def test_conditions_log_points_and_hit_counts_are_debugpys(editor: Editor) -> None:
    """They pass through as they are."""
    sessions = editor.attach_all(2)
    inner = line_of(LOOP, "in inner")
    editor.break_at(LOOP, {"line": inner, "condition": "RANK == 1"})
    stop = sessions[1].event("stopped")
    assert frames(sessions[1], stop["threadId"])[0] == ("inner", inner)
    assert sessions[0].seen("stopped") == []
    editor.break_at(LOOP, {"line": inner, "logMessage": "value is {value}"})
    sessions[1].ask("continue", threadId=stop["threadId"])
    for session in sessions.values():
        session.event("output", lambda body: "value is " in body["output"])
    editor.break_at(LOOP, {"line": inner, "hitCondition": "5"})
    stop = sessions[0].event("stopped")
    assert stop["reason"] == "breakpoint"


def test_variables_can_be_seen_set_and_evaluated(editor: Editor) -> None:
    """In the frame that is stopped."""
    editor.break_at(LOOP, line_of(LOOP, "in inner"))
    session = editor.attach_all(2)[1]
    thread = session.event("stopped")["threadId"]
    value = int(variables(session, thread)["value"])
    (frame, *_) = session.ask("stackTrace", threadId=thread)["stackFrames"]
    (scope, *_) = session.ask("scopes", frameId=frame["id"])["scopes"]
    reference = scope["variablesReference"]
    session.ask("setVariable", variablesReference=reference, name="value", value="-1000")
    assert evaluate(session, thread, "value + 1") == "-999"
    assert value >= 0
    session.ask("next", threadId=thread)
    thread = session.event("stopped")["threadId"]
    assert variables(session, thread)["result"] == "-999"


def test_steps_go_line_by_line(editor: Editor) -> None:
    """Over, into and out, in one rank; the other stays where it is."""
    editor.break_at(LOOP, {"line": line_of(LOOP, "in loops") - 1})
    sessions = editor.attach_all(2)
    thread = sessions[0].event("stopped")["threadId"]
    sessions[1].event("stopped")
    for step, function in (("stepIn", "inner"), ("next", "inner"), ("stepOut", "loops")):
        sessions[0].ask(step, threadId=thread)
        thread = sessions[0].event("stopped")["threadId"]
        assert frames(sessions[0], thread)[0][0] == function
    assert len(sessions[1].seen("stopped")) == 1


@pytest.mark.parametrize("version", ["", "3.13"], ids=["this", "3.13"])
def test_rank_moves_without_the_debuggers_next_look(job: Job, version: str) -> None:
    """A rank with several threads steps and continues as soon as it is told to, however seldom
    debugpy looks by itself; and it does after earlier attaches, which leave threads that have ended
    in debugpy's tables."""
    interpreter = python(version) if version else sys.executable
    job.start(interpreter, LOOP, "loops_beside_others", env={"RANK": "0", "WORLD_SIZE": "1"})
    job.wait_for(lambda ranks: [rank.where is not None for rank in ranks] == [True])
    with DapServer(job) as server:
        for _ in range(4):
            editor = Editor(server)
            editor.break_at(LOOP, line_of(LOOP, "in inner"))
            (session,) = editor.attach_all(1).values()
            thread = session.event("stopped")["threadId"]
            evaluate(session, thread, f"{LOOKS}(TIMEOUT_SLOW=3600)")
            for move, reason in [("next", "step")] * 3 + [("continue", "breakpoint")] * 2:
                session.ask(move, threadId=thread)
                assert session.event("stopped")["reason"] == reason
                frames(session, thread)
            evaluate(session, thread, f"{LOOKS}(TIMEOUT_SLOW=0.2)")
            editor.leave()


def test_breakpoints_of_the_last_editor_are_forgotten(job: Job) -> None:
    """A condition that is never met is not that of the next editor, from Python 3.12 on."""
    job.start(python("3.12"), LOOP, "loops", env={"RANK": "0", "WORLD_SIZE": "1"})
    job.wait_for(lambda ranks: [rank.where is not None for rank in ranks] == [True])
    with DapServer(job) as server:
        for condition in ("value < 0", "value >= 0") * 2:
            editor = Editor(server)
            editor.break_at(LOOP, {"line": line_of(LOOP, "in inner"), "condition": condition})
            (session,) = editor.attach_all(1).values()
            if condition == "value < 0":
                wait_until_running(job)
            else:
                assert session.event("stopped")["reason"] == "breakpoint"
            editor.leave()


def test_uncaught_exception_stops_the_rank(job: Job, tmp_path: Path) -> None:
    """With the filter that editors have on by default."""
    gate = tmp_path / "gate"
    start_loops(job, "fails_when_told", env={"GATE": str(gate)})
    with DapServer(job) as server:
        editor = Editor(server)
        editor.filters = ["uncaught"]
        session = editor.attach_all(1)[0]
        gate.touch()
        stop = session.event("stopped")
        assert stop["reason"] == "exception"
        told = session.ask("exceptionInfo", threadId=stop["threadId"])
        assert told["description"] == "as told"
        assert frames(session, stop["threadId"])[0][1] == line_of(LOOP, "it fails here")
        editor.leave()


def test_lockstep_moves_all_stopped_ranks(server: DapServer) -> None:
    """A step in one rank is one in each; the console turns it on and off."""
    editor = Editor(server)
    editor.break_at(LOOP, line_of(LOOP, "in inner"))
    sessions = editor.attach_all(2)
    threads = {rank: s.event("stopped")["threadId"] for rank, s in sessions.items()}
    assert editor.say("lockstep on") == "lockstep is on"
    sessions[0].ask("next", threadId=threads[0])
    for rank, session in sessions.items():
        assert session.event("stopped")["reason"] == "step"
        assert frames(session, threads[rank])[0] == ("inner", line_of(LOOP, "in inner") + 1)
    assert sessions[1].seen("continued")
    assert editor.say("lockstep") == "lockstep is off"
    sessions[0].ask("next", threadId=threads[0])
    sessions[0].event("stopped")
    assert len(sessions[1].seen("stopped")) == 2
    editor.close()


def test_rank_that_waits_in_a_collective_is_said_to(job: Job) -> None:
    """A step over an all-reduce that the other rank has not entered does not come back, and
    the parent's console says where it is."""
    gate = start_torch(job, 2)
    with DapServer(job) as server:
        editor = Editor(server)
        editor.break_at(TORCH, line_of(TORCH, "the collective"))
        sessions = editor.attach_all(2)
        gate.touch()
        threads = {rank: s.event("stopped")["threadId"] for rank, s in sessions.items()}
        sessions[0].ask("next", threadId=threads[0])
        words = "rank 0 has not returned from a step: in all_reduce, dap_torch.py:"
        wait_for(lambda: words in editor.parent.console(), editor.parent.console)
        sessions[1].ask("next", threadId=threads[1])
        for session in sessions.values():
            session.event("stopped", lambda body: body["reason"] == "step")
        # Rank 1's step is news too where it took long.
        back = rf"ranks? (0|0-1) stopped at dap_torch\.py:{line_of(TORCH, 'after it')} \(step\)"
        wait_for(lambda: re.search(back, editor.parent.console()), editor.parent.console)
        editor.leave()


@pytest.mark.parametrize("options", chiefly([()], [(), ("--no-tensor-summary",)]))
def test_tensors_are_summed_up(job: Job, options: tuple[str, ...]) -> None:
    """Shape, dtype, device, min, mean and max come first in variables and hovers, unless that
    is turned off."""
    gate = start_torch(job, 2)
    with DapServer(job, *options) as server:
        editor = Editor(server)
        editor.break_at(TORCH, line_of(TORCH, "before it"))
        session = editor.attach_all(2)[1]
        gate.touch()
        thread = session.event("stopped")["threadId"]
        shown = [variables(session, thread)["total"], evaluate(session, thread, "total + 1")]
        if options:
            assert shown[0].startswith("tensor([[1., 1.,")
        else:
            assert shown[0].startswith("Tensor 3×4 float32 cpu min 1 mean 1 max 1\ntensor([[1.,")
            assert shown[1].startswith("Tensor 3×4 float32 cpu min 2 mean 2 max 2")
        editor.leave()


# --- the parent's console -----------------------------------------------------------------------


def test_console_answers_questions(editor: Editor) -> None:
    """ask and where, grouped, while the ranks run; what it does not know, it says."""
    editor.attach_all(2)
    answer = editor.say("ask all RANK // 2")
    assert answer == "0-1  0"
    assert "loops dap_loop.py" in editor.say("where")
    assert "only stopped" in editor.say("help")
    why = editor.parent.refused("evaluate", expression="lss", context="repl")
    assert why.startswith("unknown command 'lss'")


def test_console_of_a_rank_takes_questions_to_all(editor: Editor) -> None:
    """After the word rankdbg; everything else is Python in that rank."""
    session = editor.attach_all(2)[1]

    def say(line: str) -> dict[str, Any]:
        return session.response(session.request("evaluate", expression=line, context="repl"))

    assert say("rankdbg ask all RANK // 2")["body"]["result"] == "0-1  0"
    assert "unknown command 'lss'" in say("rankdbg lss")["message"]
    editor.break_at(LOOP, line_of(LOOP, "in inner"))
    thread = session.event("stopped")["threadId"]
    assert evaluate(session, thread, "RANK + 40") == "41"
    where = say("rankdbg where 1")["body"]["result"]
    assert "inner dap_loop.py" in where and "pydevd" not in where


def test_console_changes_which_ranks_have_sessions(editor: Editor) -> None:
    """ranks(...), add, drop and only stopped; ranks without a session go on."""
    editor.attach_all(2)
    editor.say("ranks(1)")
    wait_for(lambda: list(editor.living()) == [1], editor.living)
    editor.say("add 0")
    wait_for(lambda: list(editor.living()) == [0, 1], editor.living)
    editor.say("drop 1")
    wait_for(lambda: list(editor.living()) == [0], editor.living)
    editor.break_at(LOOP, line_of(LOOP, "in inner"))
    editor.living()[0].event("stopped")
    editor.say("add 1")
    wait_for(lambda: list(editor.living()) == [0, 1], editor.living)
    editor.living()[1].event("stopped")
    editor.break_at(LOOP)  # while both stand: one that goes on could stop there again
    editor.say("continue 1")
    editor.say("continue")
    editor.say("only stopped")
    wait_for(lambda: not editor.living(), editor.living)


def test_sessions_are_limited(job: Job) -> None:
    """--max-sessions opens the first few, and says how to choose others."""
    start_loops(job, *["loops"] * 3)
    with DapServer(job, "--max-sessions", 2) as server:
        editor = Editor(server)
        assert list(editor.attach_all(2)) == [0, 1]
        words = "2 of 3 ranks have sessions (--max-sessions 2)"
        wait_for(lambda: words in editor.parent.console(), editor.parent.console)
        editor.close()


def test_continue_in_the_console_lets_all_go_on(job: Job, editor: Editor) -> None:
    """However many are stopped."""
    editor.break_at(LOOP, line_of(LOOP, "in loops"))
    for session in editor.attach_all(2).values():
        session.event("stopped")
    editor.break_at(LOOP)
    assert editor.say("continue") == "ranks 0-1 continue"
    wait_until_running(job)


# --- coming and going ---------------------------------------------------------------------------


def test_leaving_lets_ranks_go_on_and_one_can_come_again(job: Job, server: DapServer) -> None:
    """Whatever the editor asks for (terminateDebuggee); the second time is as the first."""
    for _ in range(3):
        editor = Editor(server)
        editor.break_at(LOOP, line_of(LOOP, "in loops"))
        for session in editor.attach_all(2).values():
            session.event("stopped")
        editor.leave()
        wait_until_running(job)


def test_editor_that_hangs_up_at_the_first_word_lets_all_go_on(job: Job, server: DapServer) -> None:
    """Each of its sessions closes as soon as it hears that it is over, some before the server
    has told the next."""
    for _ in range(5):
        editor = Editor(server)
        editor.break_at(LOOP, line_of(LOOP, "in loops"))
        for session in editor.attach_all(2).values():
            session.event("stopped")
            hang_up = threading.Thread(
                target=lambda s=session: (s.event("terminated"), s.close()), daemon=True
            )
            hang_up.start()
        editor.parent.ask("disconnect", restart=False)
        wait_until_running(job)
        editor.close()


def test_leaving_one_rank_leaves_the_others(job: Job, editor: Editor) -> None:
    """A session that disconnects is not offered again, and its rank goes on."""
    editor.break_at(LOOP, line_of(LOOP, "in loops"))
    sessions = editor.attach_all(2)
    for session in sessions.values():
        session.event("stopped")
    sessions[0].ask("disconnect", terminateDebuggee=True)
    sessions[0].event("terminated")
    sessions[0].wait_closed()
    wait_for(lambda: "rank 0 · " in editor.parent.console(), editor.parent.console)
    assert frames(sessions[1], 1)[0][0] == "loops"
    assert editor.say("sessions") == "sessions: 1; stopped: 1"


def test_killed_editor_lets_ranks_go_on(job: Job, server: DapServer) -> None:
    """Its connections close without a word."""
    editor = Editor(server)
    editor.break_at(LOOP, line_of(LOOP, "in loops"))
    for session in editor.attach_all(2).values():
        session.event("stopped")
    editor.close()
    wait_until_running(job)
    again = Editor(server)
    again.attach_all(2)
    again.leave()


def test_killed_server_lets_ranks_go_on(job: Job) -> None:
    """kill -9 of rankdbg dap, with all ranks stopped."""
    start_loops(job)
    server = DapServer(job)
    editor = Editor(server)
    editor.break_at(LOOP, line_of(LOOP, "in loops"))
    for session in editor.attach_all(2).values():
        session.event("stopped")
    server.process.kill()
    server.process.communicate(timeout=PATIENCE)
    wait_until_running(job)


def test_stopped_ranks_stay_with_stay(job: Job) -> None:
    """--stay: they are found where they stood when the editor comes again."""
    start_loops(job)
    with DapServer(job, "--stay") as server:
        editor = Editor(server)
        editor.break_at(LOOP, line_of(LOOP, "in loops"))
        sessions = editor.attach_all(2)
        where = {r: frames(s, s.event("stopped")["threadId"]) for r, s in sessions.items()}
        before = steps(job)
        editor.leave()
        assert steps(job) == before
        again = Editor(server)
        for rank, session in again.attach_all(2).items():
            stop = session.event("stopped")
            assert frames(session, stop["threadId"]) == where[rank]
        assert steps(job) == before
        again.say("continue")
        wait_until_running(job)
        again.leave()


def test_rank_is_as_before_when_the_editor_has_left(job: Job, server: DapServer) -> None:
    """debugpy is loaded; afterwards no thread of it runs, and none of the program's is traced."""

    def asked(expression: str) -> set[str]:
        groups = job.json("ask", "all", expression, "--frame", "loops")["groups"]
        return {group["value"] for group in groups}

    editor = Editor(server)
    editor.attach_all(2)
    assert asked("'pydevd' in sys.modules") == {"True"}
    editor.leave()
    wait_for(lambda: asked("traced") == {"False"}, lambda: asked("traced"))
    names = "[t.name for t in sys.modules['threading'].enumerate()]"
    wait_for(lambda: asked(names) == {"['MainThread']"}, lambda: asked(names))


def test_broken_channel_comes_back(job: Job, server: DapServer) -> None:
    """The node process is killed: the ranks go on, and get sessions again."""
    editor = Editor(server)
    editor.break_at(LOOP, line_of(LOOP, "in loops"))
    before = editor.attach_all(2)
    for session in before.values():
        session.event("stopped")
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
    nodes = [int(pid) for pid in children.read_text().split()]
    editor.breakpoints.clear()
    for node in nodes:
        os.kill(node, signal.SIGKILL)
    for session in before.values():
        session.event("terminated")
        session.wait_closed()
    again = editor.wait_for(2)
    assert all(session not in before.values() for session in again.values())
    wait_until_running(job)
    editor.leave()


def test_rank_that_dies_leaves(job: Job, editor: Editor) -> None:
    """Its session ends and the console says so; the other is as it was."""
    editor.break_at(LOOP, line_of(LOOP, "in loops"))
    sessions = editor.attach_all(2)
    for session in sessions.values():
        session.event("stopped")
    (victim,) = [rank.pid for rank in job.ranks() if rank.number == 0]
    os.kill(victim, signal.SIGKILL)
    sessions[0].event("terminated")
    sessions[0].wait_closed()
    # Its status can be read until its parent has collected it, which may be at once.
    left = re.compile(r"rank 0 .*: session ended \((killed by SIGKILL|its process has ended)\)")
    wait_for(lambda: left.search(editor.parent.console()), editor.parent.console)
    assert frames(sessions[1], 1)[0][0] == "loops"


def test_rank_that_comes_later_joins(job: Job, editor: Editor) -> None:
    """With the breakpoints that the others have."""
    editor.break_at(LOOP, line_of(LOOP, "in loops"))
    editor.attach_all(2)
    late = {"RANK": "2", "LOCAL_RANK": "2", "WORLD_SIZE": "3"}
    job.start(sys.executable, LOOP, "loops", env=late)
    editor.wait_for(3)[2].event("stopped")


def test_second_editor_is_told(server: DapServer, editor: Editor) -> None:
    """And the first is not disturbed."""
    sessions = editor.attach_all(2)
    second = Editor(server)
    refused = second.parent.refused("attach", name="rankdbg", **server.configuration)
    assert "another editor is attached: disconnect it first" in refused
    assert len(sessions[0].ask("threads")["threads"]) == 1


def test_second_server_is_told(job: Job, editor: Editor) -> None:
    """A rank has room for one editor."""
    editor.attach_all(2)
    with DapServer(job) as other:
        second = Editor(other)
        second.attach()
        wait_for(lambda: len(second.refusals) == 2, lambda: second.refusals)
        assert all(
            "another editor is attached to this rank" in why for why in second.refusals.values()
        )
        second.close()


# --- stops that are already there, and the program's own ----------------------------------------


def test_rank_at_a_breakpoint_is_taken_over(job: Job) -> None:
    """One that stands in pdb stands in the editor, at the same line, and can be stepped."""
    start_loops(job, "stands")
    job.wait_for(lambda ranks: [rank.state for rank in ranks] == ["stopped"])
    with DapServer(job) as server:
        editor = Editor(server)
        session = editor.attach_all(1)[0]
        thread = session.event("stopped")["threadId"]
        after = line_of(LOOP, "after the breakpoint")
        assert frames(session, thread)[0] == ("stands", after)
        assert evaluate(session, thread, "here") == "7"
        session.ask("next", threadId=thread)
        thread = session.event("stopped")["threadId"]
        assert frames(session, thread)[0] == ("stands", after + 1)
        assert evaluate(session, thread, "here") == "8"
        editor.leave()
        wait_until_running(job)


def test_rank_in_post_mortem_is_taken_over(job: Job) -> None:
    """With the exception, and the frames that it came through."""
    start_loops(job, "crashes", options=("--break-on-error",))
    job.wait_for(lambda ranks: [rank.state for rank in ranks] == ["stopped"])
    with DapServer(job) as server:
        editor = Editor(server)
        session = editor.attach_all(1)[0]
        stop = session.event("stopped")
        assert frames(session, stop["threadId"])[0][0] == "crashes"
        editor.leave()


def test_rank_is_given_back_to_the_shell(job: Job, editor: Editor) -> None:
    """give: its session ends, and it stops in pdb."""
    editor.attach_all(2)
    assert "0" in editor.say("give 0")
    wait_for(lambda: list(editor.living()) == [1], editor.living)
    states = {0: "stopped", 1: "running"}
    job.wait_for(lambda ranks: {rank.number: rank.state for rank in ranks} == states)


def test_breakpoint_in_the_program_stops_in_the_editor(job: Job, tmp_path: Path) -> None:
    """breakpoint() leads to the editor while one is attached, and ps says so."""
    gate = tmp_path / "gate"
    start_loops(job, "breaks_when_told", env={"GATE": str(gate)})
    with DapServer(job) as server:
        editor = Editor(server)
        session = editor.attach_all(1)[0]
        gate.touch()
        thread = session.event("stopped")["threadId"]
        assert frames(session, thread)[0] == ("breaks_when_told", line_of(LOOP, "the line after"))
        told = [("stopped", "in an editor")]
        job.wait_for(lambda ranks: [(rank.state, rank.detail) for rank in ranks] == told)
        editor.leave()
        wait_until_running(job)


def test_forked_child_is_not_held(job: Job, tmp_path: Path) -> None:
    """It has none of the debugger's threads: a breakpoint there would hold it for ever."""
    gate = tmp_path / "gate"
    start_loops(job, "forks_when_told", env={"GATE": str(gate)})
    with DapServer(job) as server:
        editor = Editor(server)
        editor.break_at(LOOP, {"line": line_of(LOOP, "in inner"), "condition": "value == 1"})
        session = editor.attach_all(1)[0]
        gate.touch()
        session.event("stopped")  # in the parent, which waited for the child
        editor.leave()
        wait_until_running(job)


# --- who may, and what may not ------------------------------------------------------------------


def test_another_user_is_refused(server: DapServer) -> None:
    """By the uid of the other end of the connection."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to be somebody else")
    code = (
        "import os, socket; os.setuid(65534); s = socket.socket(); s.settimeout(100);"
        f"s.connect(('127.0.0.1', {server.port})); print(s.recv(100))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert answer.stdout.strip() == "b''", answer.stderr
    assert server.process.stderr is not None
    assert "another user (uid 65534)" in server.process.stderr.readline()


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"Content-Length: 999999999999\r\n\r\n",
        b"Content-Length: 5\r\n\r\nhello",
        b"Content-Length: 2\r\n\r\n[]",
        b'Content-Length: 36\r\n\r\n{"type":"request","arguments":[1,2]} ',
        b'Content-Length: 41\r\n\r\n{"type":"request","command":"initialize"}',
        b"x" * 10000,
    ],
)
def test_garbage_is_refused(server: DapServer, garbage: bytes) -> None:
    """The connection is closed, and the next one is served."""
    with socket.create_connection(("127.0.0.1", server.port), 20) as connection:
        connection.sendall(garbage)
        try:
            assert connection.recv(100) == b""
        except ConnectionResetError:
            pass
    client = DapClient.connect(server.port)
    assert client.ask("initialize", **INITIALIZE)["supportsConfigurationDoneRequest"]
    client.close()


def test_attach_that_cannot_be_meant_is_refused(server: DapServer) -> None:
    """Without arguments, with those of another debugger, for a rank that is not there; launch."""
    token = server.configuration
    for command, arguments, why in (
        ("attach", {}, "attach has no arguments"),
        (
            "attach",
            {"processId": 1, **token},
            "remove processId from the configuration: rankdbg dap selects the ranks",
        ),
        (
            "attach",
            {"rankdbg": {"rank": "nobody", **token["rankdbg"]}},
            "the session of this rank has ended",
        ),
        ("launch", {"program": "x.py"}, 'use "request": "attach"'),
        ("threads", {}, "expected attach before threads"),
    ):
        client = DapClient.connect(server.port)
        client.ask("initialize", **INITIALIZE)
        assert why in client.refused(command, **arguments)
        client.close()


def test_port_that_is_taken_is_one_sentence(job: Job) -> None:
    """By something else: with what to do, and status 2."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        threading.Thread(target=_hang_up_on, args=(taken,), daemon=True).start()
        result = job.cli("dap", "--port", port)
    assert result.returncode == 2
    assert f"cannot listen on port {port}: it is in use" in result.stderr
    assert "Traceback" not in result.stderr


def _hang_up_on(listening: socket.socket) -> None:
    listening.settimeout(PATIENCE)
    listening.accept()[0].close()


def test_client_without_reverse_requests_gets_events(server: DapServer) -> None:
    """debugpyAttach, as debugpy itself tells of child processes."""
    client = DapClient.connect(server.port)
    client.ask("initialize", **{**INITIALIZE, "supportsStartDebuggingRequest": False})
    given = {"name": "rankdbg", "type": "debugpy", "request": "attach", **server.configuration}
    client.request("attach", **given)
    client.event("initialized")
    client.ask("configurationDone")
    names = {client.event("debugpyAttach")["name"][:6] for _ in range(2)}
    assert names == {"rank 0", "rank 1"}
    client.close()
