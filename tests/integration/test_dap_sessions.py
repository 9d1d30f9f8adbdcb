"""Sessions of `rankdbg dap` as editors treat them: restarted, opened twice, asked for nonsense."""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
import threading
import typing
from collections.abc import Iterator
from subprocess import PIPE
from typing import Any

import pytest

import jobs
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
)
from jobs import PROGRAMS, Job
from rankdbg.types import Answer
from waiting import PATIENCE, wait_for

pytest.importorskip("debugpy", reason="needs debugpy")

INNER = line_of(LOOP, "in inner")


def start_loops(job: Job, count: int, what: str = "loops") -> None:
    job.start(sys.executable, PROGRAMS / "launch.py", count, LOOP, *[what] * count)
    job.wait_for(lambda ranks: len([rank for rank in ranks if rank.where]) == count)


def step_of(job: Job, rank: int) -> int:
    """How far a looping rank is."""

    def look() -> int | None:
        with job.session() as session:
            ranks = [each for each in session.job(job.name) if each.number == rank]
            (answer,) = session.evaluate(ranks, "step", "loops")
        seen = isinstance(answer, Answer) and answer.value.kind == "number"
        return int(answer.value.text) + 1 if seen else None  # type: ignore[union-attr]

    return wait_for(look, f"rank {rank} loops")


@pytest.fixture
def server(job: Job) -> Iterator[DapServer]:
    start_loops(job, 2)
    with DapServer(job) as server:
        yield server


@pytest.fixture
def editor(server: DapServer) -> Iterator[Editor]:
    editor = Editor(server)
    yield editor
    editor.close()


def test_disconnected_ranks_are_not_offered_again(job: Job, server: DapServer) -> None:
    """Not even when the server has looked for ranks again, and has found a new one."""
    editor = Editor(server)
    sessions = editor.attach_all(2)
    for session in sessions.values():
        session.ask("disconnect")
        session.wait_closed()
    job.start(sys.executable, LOOP, "loops", env={"RANK": "2", "LOCAL_RANK": "2"})
    wait_for(lambda: any(name.startswith("rank 2") for name in editor.sessions), editor.sessions)
    assert [name[:6] for name in editor.offered] == ["rank 0", "rank 1", "rank 2"]
    assert list(editor.living()) == [2]
    editor.close()


def test_disconnected_ranks_that_stay_are_not_offered_again(job: Job) -> None:
    """--stay: a rank that was disconnected is still stopped, and waits for the next editor, or until
    this one adds it."""
    start_loops(job, 2)
    with DapServer(job, "--stay") as server:
        editor = Editor(server)
        editor.break_at(LOOP, INNER)
        for session in editor.attach_all(2).values():
            session.event("stopped")
            session.ask("disconnect")
            session.wait_closed()
        job.start(sys.executable, LOOP, "loops", env={"RANK": "2", "LOCAL_RANK": "2"})
        wait_for(lambda: 2 in editor.living(), lambda: editor.offered)
        offers = [m for m in editor.parent.messages if m.get("command") == "startDebugging"]
        assert len(offers) == 3
        assert editor.say("add 0").startswith("sessions: 0-2; stopped: 0-")
        wait_for(lambda: list(editor.living()) == [0, 2], lambda: editor.offered)
        editor.leave()
        following = Editor(server)
        following.break_at(LOOP, INNER)
        assert list(following.attach_all(3)) == [0, 1, 2]
        following.leave()


def test_restarted_rank_has_a_session_again(editor: Editor) -> None:
    """An editor restarts a session by a disconnect and an attach with the same configuration."""
    editor.break_at(LOOP, INNER)
    sessions = editor.attach_all(2)
    for session in sessions.values():
        session.event("stopped")
    sessions[0].ask("disconnect", restart=True)
    (name,) = [name for name in editor.offered if name.startswith("rank 0")]
    editor.open(editor.offered[name])
    again = editor.sessions[name]
    assert again is not sessions[0]
    assert frames(again, again.event("stopped")["threadId"])[0] == ("inner", INNER)
    assert frames(sessions[1], 1)[0] == ("inner", INNER)


def test_second_attach_to_a_rank_leaves_the_first(editor: Editor) -> None:
    """It is refused, and the session that is there goes on."""
    editor.break_at(LOOP, INNER)
    sessions = editor.attach_all(2)
    thread = sessions[0].event("stopped")["threadId"]
    (name,) = [name for name in editor.offered if name.startswith("rank 0")]
    second = DapClient.connect(editor.address)
    second.ask("initialize", **INITIALIZE)
    assert second.refused("attach", **editor.offered[name]) == f"{name} already has a session"
    second.close()
    sessions[0].ask("next", threadId=thread)
    assert sessions[0].event("stopped")["reason"] == "step"


class SlowEditor(Editor):
    """Which takes its time for the session of rank 1."""

    def __init__(self, server: DapServer) -> None:
        super().__init__(server)
        self.ready = threading.Event()

    def about_to_configure(self, name: str) -> None:
        if name.startswith("rank 1"):
            self.ready.wait(PATIENCE)


def test_breakpoints_take_effect_together(job: Job, server: DapServer) -> None:
    """A rank runs past its breakpoint until the sessions of all ranks are configured."""
    editor = SlowEditor(server)
    editor.break_at(LOOP, INNER)
    editor.attach()
    (first,) = editor.wait_for(1).values()
    before = step_of(job, 0)
    wait_for(lambda: step_of(job, 0) > before + 10, "rank 0 runs on")
    assert not first.seen("stopped")
    editor.ready.set()
    for session in editor.wait_for(2).values():
        session.event("stopped")
        verified = session.event("breakpoint")["breakpoint"]
        assert (verified["verified"], verified["line"]) == (True, INNER)
    editor.close()


class UnequalEditor(Editor):
    """Which sets many breakpoints in a large file in one of its sessions, before those of all."""

    def __init__(self, server: DapServer) -> None:
        super().__init__(server)
        self.large = iter([typing.__file__])

    def _set_breakpoints(self, session: DapClient, file: str) -> None:
        for large in self.large:
            many = [{"line": line} for line in range(1, 1000, 100)]
            session.ask("setBreakpoints", source={"path": large}, breakpoints=many)
        super()._set_breakpoints(session, file)


def test_ranks_stop_at_the_same_step(job: Job) -> None:
    """In a program of short steps, however long each rank takes to set its breakpoints."""
    pytest.importorskip("torch", reason="needs torch")
    start_torch(job, 2).touch()
    with DapServer(job) as server:
        editor = UnequalEditor(server)
        editor.break_at(TORCH, line_of(TORCH, "in train"))
        sessions = editor.attach_all(2)
        threads = [each.event("stopped")["threadId"] for each in sessions.values()]
        first, second = (
            evaluate(session, thread, "step")
            for session, thread in zip(sessions.values(), threads, strict=True)
        )
        assert first == second
        editor.leave()


BAD_REQUESTS: list[tuple[str, dict[str, Any], str]] = [
    *(
        (command, {}, f"{command} is not supported")
        for command in (
            "stepBack",
            "readMemory",
            "restartFrame",
            "setDataBreakpoints",
            "dataBreakpointInfo",
            "terminateThreads",
            "disassemble",
        )
    ),
    ("stackTrace", {"threadId": "x"}, "threadId must be a whole number"),
    ("scopes", {}, "it must be an object with 'frameId'"),
    ("source", {"source": "x", "sourceReference": 1}, "source must be an object"),
    ("setExceptionBreakpoints", {"filters": 4}, "filters must be a list"),
    ("setBreakpoints", {"source": 3, "breakpoints": [1]}, "source must be an object"),
    (
        "setBreakpoints",
        {"source": {"path": "/x.py"}, "breakpoints": [{"line": "7"}]},
        "breakpoints[0].line must be a whole number",
    ),
    (
        "setBreakpoints",
        {"source": {}, "breakpoints": [{"line": 7}]},
        "source must be an object with 'path'",
    ),
    ("evaluate", {"expression": ["x"]}, "expression must be a string"),
    # What only debugpy finds out.
    (
        "setBreakpoints",
        {"source": {"path": "/x\0.py"}, "breakpoints": [{"line": 7}]},
        "debugpy failed at setBreakpoints: ValueError: embedded null byte",
    ),
    ("setDebuggerProperty", {"ideOS": 5}, "debugpy failed at setDebuggerProperty: AssertionError"),
]
NO_OBJECTS = ([1, 2], [], "text", "", 7, 0, True, False)


def test_requests_that_a_rank_cannot_answer_are_refused(editor: Editor) -> None:
    """Each with a sentence; the session and the rank go on."""
    editor.break_at(LOOP, INNER)
    session = editor.attach_all(2)[0]
    thread = session.event("stopped")["threadId"]
    for command, arguments, why in BAD_REQUESTS:
        assert why in session.refused(command, **arguments)
    assert evaluate(session, thread, "value + 0 == value") == "True"


def test_rank_that_refuses_to_move_is_still_stopped(editor: Editor) -> None:
    """Of another thread than those that it has: it continues with all others."""
    editor.break_at(LOOP, INNER)
    sessions = editor.attach_all(2)
    for session in sessions.values():
        session.event("stopped")
    for move in ("next", "continue"):
        assert "99999" in sessions[0].refused(move, threadId=99999)
        assert editor.say("sessions") == "sessions: 0-1; stopped: 0-1"
    sessions[0].ask("next", threadId=1)
    assert sessions[0].event("stopped")["reason"] == "step"


def test_requests_that_the_parent_cannot_answer_are_refused(editor: Editor) -> None:
    """Of another kind, or for a rank; the next is answered."""
    editor.attach_all(2)
    refused = editor.parent.refused
    assert "invalid arguments for setBreakpoints" in refused("setBreakpoints", breakpoints=5)
    assert "invalid arguments for completions" in refused("completions", text="a", column="zz")
    assert "column must be a whole number" in refused("completions", text="a", column=math.inf)
    assert "works in the session of a rank" in refused("readMemory")
    assert editor.say("sessions") == "sessions: 0-1"


def test_arguments_that_are_no_object_are_refused(editor: Editor) -> None:
    """By the parent and by a rank, whose sessions go on."""
    session = editor.attach_all(2)[0]
    for client, command in ((editor.parent, "setBreakpoints"), (session, "threads")):
        for arguments in NO_OBJECTS:
            request = {"type": "request", "command": command, "arguments": arguments}
            response = client.response(client.send(request))
            why = f"invalid arguments for {command}: expected an object"
            assert (response["success"], response["message"]) == (False, why)
    assert session.ask("threads")["threads"]
    assert editor.say("sessions") == "sessions: 0-1"


def test_attach_with_arguments_of_another_kind_is_refused(editor: Editor) -> None:
    """Those of rankdbg, and those that only debugpy reads; a rank's session can be opened again."""
    editor.attach_all(2)[0].ask("disconnect", restart=True)
    (name,) = [name for name in editor.offered if name.startswith("rank 0")]
    given = editor.offered[name]
    for wrong, why in (
        ({"pathMappings": 5}, "invalid arguments for attach: pathMappings must be a list"),
        ({"debugOptions": 5}, "debugpy failed at attach: TypeError: 'int' object is not iterable"),
    ):
        client = DapClient.connect(editor.address)
        client.ask("initialize", **INITIALIZE)
        assert client.refused("attach", **{**given, **wrong}) == why
        client.close()
    editor.open(given)
    assert editor.sessions[name].ask("threads")["threads"]


@pytest.mark.parametrize("context", ["watch", "hover", "variables", "clipboard"])
def test_only_what_is_typed_is_executed(editor: Editor, context: str) -> None:
    """A watch of the parent's session drops no rank."""
    editor.attach_all(2)
    why = editor.parent.refused("evaluate", expression="drop 1", context=context)
    assert why == "values are shown in the sessions of the ranks"
    assert editor.say("sessions") == "sessions: 0-1"


def test_one_rank_has_the_focus(editor: Editor) -> None:
    """Of ranks that stop together one; then the one that the user steps."""
    editor.break_at(LOOP, INNER)
    sessions = editor.attach_all(2)
    stops = {rank: session.event("stopped") for rank, session in sessions.items()}
    assert sorted(bool(stop.get("preserveFocusHint")) for stop in stops.values()) == [False, True]
    editor.say("lockstep on")
    for chosen in (0, 1, 0):
        sessions[chosen].ask("next", threadId=stops[chosen]["threadId"])
        hints = {
            rank: bool(session.event("stopped").get("preserveFocusHint"))
            for rank, session in sessions.items()
        }
        assert hints == {chosen: False, 1 - chosen: True}


def test_threads_and_processes_are_named_by_rank(editor: Editor) -> None:
    """In an editor that shows the threads of all sessions in one list."""
    sessions = editor.attach_all(2)
    for rank, session in sessions.items():
        (thread,) = session.ask("threads")["threads"]
        assert thread["name"] == f"rank {rank} · MainThread"
        assert session.event("process")["name"].startswith(f"rank {rank} · ")


@pytest.mark.parametrize(
    ("condition", "error"), [("no_such_name > 3", "NameError"), ("{}[value]", "KeyError")]
)
def test_condition_that_raises_is_reported_once(
    job: Job, editor: Editor, condition: str, error: str
) -> None:
    """However often the line is passed, and also if the error differs each time. Another
    breakpoint's is reported, too."""
    editor.break_at(LOOP, {"line": INNER, "condition": condition})
    session = editor.attach_all(2)[0]
    session.event("output", lambda body: condition in body["output"] and error in body["output"])
    before = step_of(job, 0)
    wait_for(lambda: step_of(job, 0) > before + 30, "rank 0 runs on")
    assert session.console().count(error) == 1
    editor.break_at(LOOP, {"line": INNER, "condition": "value.no_such_attribute"})
    session.event("output", lambda body: "no_such_attribute" in body["output"])


def test_log_point_that_raises_is_reported_once(job: Job, editor: Editor) -> None:
    """With the name that is unknown, and only where its condition is met; others log as before."""
    other = line_of(LOOP, "in loops")
    editor.break_at(
        LOOP,
        {"line": INNER, "logMessage": "a {nothing}", "condition": "value % 2"},
        {"line": other, "logMessage": "step {step}"},
    )
    session = editor.attach_all(2)[0]
    session.event("output", lambda body: "'nothing' is not defined" in body["output"])
    for _ in range(20):
        session.event("output", lambda body: body["output"].startswith("step "))
    assert session.console().count("nothing") == 1


@pytest.mark.parametrize("when", ["at the attach", "later"])
def test_hit_condition_without_sense_is_refused(editor: Editor, when: str) -> None:
    """The editor shows why; the other breakpoint of the request stops."""
    wanted = [{"line": INNER, "hitCondition": "abc"}, {"line": INNER + 1, "hitCondition": ">= 3"}]
    if when == "at the attach":
        editor.break_at(LOOP, *wanted)
        session = editor.attach_all(2)[0]
        first, second = (body["breakpoint"] for body in session.seen("breakpoint"))
    else:
        session = editor.attach_all(2)[0]
        source = {"path": str(LOOP), "name": LOOP.name}
        answer = session.ask("setBreakpoints", source=source, breakpoints=wanted)
        first, second = answer["breakpoints"]
    assert (first["verified"], second["verified"]) == (False, True)
    assert "invalid hit condition 'abc': expected a number" in first["message"]
    stop = session.event("stopped")
    assert frames(session, stop["threadId"])[0] == ("inner", INNER + 1)


def test_end_of_the_job_is_said(job: Job, editor: Editor) -> None:
    """Who has left, how, and how to find out more."""
    editor.attach_all(2)
    for rank in job.ranks():
        os.kill(rank.pid, signal.SIGKILL)
    over = f"job {job.name} has ended: no rank is left. To find out why: rankdbg doctor --job {job.name}"
    wait_for(lambda: over in editor.parent.console(), editor.parent.console)
    left = re.findall("rank . .*: session ended .*", editor.parent.console())
    assert len(left) == 2


def test_next_editor_begins_with_the_ranks_of_the_command(server: DapServer) -> None:
    """What the last one chose in its console is not kept."""
    first = Editor(server)
    first.attach_all(2)
    assert first.say("ranks(1)") == "sessions: 1"
    first.leave()
    second = Editor(server)
    assert list(second.attach_all(2)) == [0, 1]
    second.leave()


def test_single_rank_without_child_sessions(job: Job) -> None:
    """--single: an editor that knows no child sessions debugs one rank, and can ask all."""
    start_loops(job, 2)
    with DapServer(job, "--single", 1) as server:
        client = DapClient.connect(server.port)
        client.ask("initialize", **{**INITIALIZE, "supportsStartDebuggingRequest": False})
        attach = client.request("attach", name="zed", type="debugpy", **server.configuration)
        client.event("initialized")
        client.ask("setBreakpoints", source={"path": str(LOOP)}, breakpoints=[{"line": INNER}])
        client.ask("configurationDone")
        assert client.response(attach)["success"]
        thread = client.event("stopped")["threadId"]
        assert evaluate(client, thread, "RANK") == "1"
        asked = client.ask("evaluate", expression="rankdbg ask all RANK", context="repl")
        assert asked["result"].split() == ["0", "0", "1", "1"]
        client.ask("disconnect")
        client.close()
        before = step_of(job, 1)
        wait_for(lambda: step_of(job, 1) > before, "rank 1 runs on")


@pytest.mark.parametrize("ranks", ["all", "7", "x="])
def test_single_takes_one_rank(job: Job, ranks: str) -> None:
    """Others are refused in a sentence."""
    start_loops(job, 2)
    if ranks == "x=":
        result = job.cli("dap", "--port", 0, "--single", ranks)
        assert (result.returncode, result.stderr[:7]) == (2, "error: ")
        return
    with DapServer(job, "--single", ranks) as server:
        client = DapClient.connect(server.port)
        client.ask("initialize", **INITIALIZE)
        why = client.refused("attach", name="zed", type="debugpy", **server.configuration)
        assert why.startswith(("--single takes one rank, not 2 (0-1)", "no rank 7"))
        client.close()


def test_server_that_runs_already_is_used(job: Job, server: DapServer) -> None:
    """A window that is reloaded starts its task again: the second server leaves the port to the
    first, says so in the line that the task waits for, and ends with it."""
    words = jobs.command("dap", "--job", job.name)
    again = subprocess.Popen(
        [*words, "--port", str(server.port)], env=job.environment, stdout=PIPE, text=True
    )
    assert again.stdout is not None
    pid = server.process.pid
    assert again.stdout.readline() == (
        f"rankdbg dap: listening on 127.0.0.1:{server.port} (process {pid}, already running)\n"
    )
    editor = Editor(server)
    assert list(editor.attach_all(2)) == [0, 1]
    editor.leave()
    assert again.poll() is None
    server.process.terminate()
    assert again.wait(PATIENCE) == 0


@pytest.mark.parametrize("words", [("0",), ("--lockstep",), ("--token", "another")])
def test_server_with_other_options_is_not_used(
    job: Job, server: DapServer, words: tuple[str, ...]
) -> None:
    """It is named, with how to end it; one whose token differs is a stranger's."""
    result = job.cli("dap", *words, "--port", server.port)
    assert result.returncode == 2
    pid = server.process.pid
    if words[0] == "--token":
        assert "it is in use" in result.stderr
    else:
        assert f"a rankdbg dap with other options listens there (process {pid})" in result.stderr
        assert f"kill {pid}" in result.stderr
    assert server.process.poll() is None


def test_debugger_is_loaded_before_an_editor_attaches(job: Job, server: DapServer) -> None:
    """Into the ranks for which the server was started; nothing is traced yet."""

    def loaded() -> bool:
        with job.session() as session:
            answers = session.evaluate(
                session.job(job.name), "'pydevd' in __import__('sys').modules"
            )
        return all(isinstance(a, Answer) and a.value.text == "True" for a in answers)

    wait_for(loaded, "debugpy in both ranks")
    with job.session() as session:
        for answer in session.evaluate(session.job(job.name), "traced", "loops"):
            assert isinstance(answer, Answer) and answer.value.text == "False"
