"""Whose agents a node asks: its own user's, in directories that nobody else can write to."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agents import Programs, wait_for
from rankdbg.node.service import Service
from rankdbg.process import rendezvous
from strangers import STRANGER, as_stranger, needs_root, public_place
from waiting import PATIENCE

WAITING = "import sys; print('ready', flush=True); sys.stdin.read()"

# What is for our own ranks alone.
OURS = "'for our own ranks alone'"

# A listener as an agent's, which notes what it is asked. It is bound by who starts it.
LISTENS = """
    import os, socket, sys
    path, user, heard = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    pid = int(sys.argv[4]) if len(sys.argv) > 4 else os.getpid()
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path.replace("PID", str(pid)))
    if user:
        os.setresuid(user, user, user)
    listening.listen(8)
    print("ready", flush=True)
    while True:
        connection, _ = listening.accept()
        data = connection.recv(1 << 16)
        with open(heard, "ab") as file:
            file.write(data)
        connection.close()
"""


def was_told(path: Path, heard: Path) -> bool:
    """Whether our question has come there. (Other nodes on this machine may ask it too.)"""
    with socket.socket(socket.AF_UNIX) as last:
        last.connect(str(path))
        last.sendall(b"end")
    wait_for(lambda: heard.exists() and b"end" in heard.read_bytes(), "the listener's notes")
    return OURS in heard.read_text()


def card_of(pid: int) -> dict[str, Any]:
    return {
        "card": 1,
        "pid": pid,
        "ppid": 1,
        "start": rendezvous.start_time(pid),
        "pid_namespace": rendezvous.pid_namespace(),
        "python": "3.11.0",
        "command": ["python", "train.py"],
        "labels": {"rank": 0, "job": "forged"},
    }


def write_card(directory: Path, named: int, **changes: Any) -> None:
    (directory / f"{named}.json").write_text(json.dumps({**card_of(named), **changes}))


@pytest.fixture
def start(programs: Programs) -> Callable[..., Any]:
    """A program that is no agent's."""

    def begin(code: str, *words: object, **settings: Any) -> Any:
        settings["env"] = {"RANKDBG": "0", **settings.get("env", {})}
        text = textwrap.dedent(code)
        return programs.start(*(("-c", text, *words) if words else (text,)), **settings)

    return begin


@contextmanager
def node_in(directory: Path) -> Iterator[Service]:
    before = os.environ.get("RANKDBG_DIR")
    os.environ["RANKDBG_DIR"] = str(directory)
    try:
        yield Service({})
    finally:
        os.environ.pop("RANKDBG_DIR")
        if before is not None:
            os.environ["RANKDBG_DIR"] = before


def asked_everything(directory: Path, pid: int) -> tuple[dict[str, Any], str]:
    """The row of a process, and why it does not answer a question."""
    with node_in(directory) as service:
        answer = service.answer({"ask": "roster", "where": False})["answer"]
        (row,) = [row for row in answer["processes"] if row["pid"] == pid]
        key = [row["pid"], row["start"]]
        question = {"ask": "evaluate", "expression": OURS, "processes": [key]}
        result = service.answer(question)["answer"]
    assert result["answers"] == []
    return row, str(result["silent"][0]["reason"])


# --- another user ---------------------------------------------------------------------------------


@pytest.fixture
def strangers() -> Iterator[Path]:
    """A directory of another user's, into which that user alone can write."""
    with public_place() as place:
        directory = place / "strangers"
        directory.mkdir(mode=0o700)
        os.chown(directory, STRANGER, STRANGER)
        yield directory


@needs_root
def test_root_is_not_led_into_the_directory_of_another_user(
    programs: Programs, strangers: Path
) -> None:
    """A process of that user names it in RANKDBG_DIR, and has a card and a listener there: it is
    shown as a process without agent, and is asked nothing."""
    heard = strangers / "heard"
    environment = {"RANKDBG": "1", "RANKDBG_DIR": str(strangers), "RANK": "0", "RANKDBG_JOB": "x"}
    listener = as_stranger(LISTENS, strangers / "PID.sock", 0, heard, env=environment)
    assert listener.stdout is not None and listener.stdout.readline() == "ready\n"
    try:
        write_card(strangers, listener.pid)
        row, reason = asked_everything(programs.directory, listener.pid)
        assert not row["agent"]
        told = f"it runs as uid {STRANGER}; to use its agent, run rankdbg as uid {STRANGER}"
        assert row["detail"] == told and told in reason
        assert not was_told(strangers / f"{listener.pid}.sock", heard)
    finally:
        listener.kill()
        listener.communicate()


@needs_root
def test_socket_on_which_another_user_listens_is_told_nothing(
    programs: Programs, start: Callable[..., Any], tmp_path: Path, strangers: Path
) -> None:
    """Even in a directory of our own, with a card of a process of ours."""
    programs.directory.mkdir(mode=0o700)
    rank, heard = start(WAITING, stdin=-1), strangers / "heard"
    start(LISTENS, programs.directory / "PID.sock", STRANGER, heard, rank.pid)
    write_card(programs.directory, rank.pid)
    row, reason = asked_everything(programs.directory, rank.pid)
    assert (row["agent"], row["detail"]) == (
        False,
        f"another user listens on its socket (uid {STRANGER})",
    )
    assert "another user listens" in reason
    assert not was_told(programs.socket(rank.pid), heard)


@needs_root
def test_process_that_has_become_another_user_is_not_asked(programs: Programs) -> None:
    """Its agent still listens as the user that has started it."""
    code = f"import os, sys; os.setuid({STRANGER}); print('ready', flush=True); sys.stdin.read()"
    program = programs.start(code, stdin=-1)
    row, _ = asked_everything(programs.directory, program.pid)
    assert not row["agent"] and row["detail"].startswith(f"it runs as uid {STRANGER}")


@needs_root
def test_package_that_another_user_may_have_put_there_is_not_given_to_ranks(
    strangers: Path, programs: Programs
) -> None:
    """The node's directory was made by that user before: ranks would import what lies there."""
    programs.directory.mkdir(mode=0o700)
    for directory in (strangers, programs.directory):
        (directory / "debugpy-1.0" / "site-packages").mkdir(parents=True)
    question = {"ask": "bring", "name": "debugpy-1.0"}
    with node_in(strangers) as service:
        assert service.answer(question) == {"answer": {"path": ""}}
    with node_in(programs.directory) as service:
        assert service.answer(question)["answer"]["path"].startswith(str(programs.directory))


# --- a rank of our own that lies -------------------------------------------------------------------


def test_socket_of_another_process_is_told_nothing(
    programs: Programs, start: Callable[..., Any], tmp_path: Path
) -> None:
    """A question for one rank goes to that rank or to none."""
    programs.directory.mkdir(mode=0o700)
    rank, heard = start(WAITING, stdin=-1), tmp_path / "heard"
    liar = start(LISTENS, programs.directory / "PID.sock", 0, heard, rank.pid)
    write_card(programs.directory, rank.pid)
    row, reason = asked_everything(programs.directory, rank.pid)
    assert not row["agent"] and f"another process listens on its socket (pid {liar.pid})" in reason
    assert not was_told(programs.socket(rank.pid), heard)


def test_card_of_another_process_than_its_name_says_is_none(
    programs: Programs, start: Callable[..., Any]
) -> None:
    """PID.json that names another pid is not a card, neither in the listing nor for a process
    that has just started."""
    programs.directory.mkdir(mode=0o700)
    rank = start(WAITING, stdin=-1, env={"RANK": "0"})
    (programs.directory / f"{rank.pid}.json").write_text(json.dumps(card_of(os.getpid())))
    assert not programs.roster()[rank.pid]["agent"]
    assert os.getpid() not in programs.roster()


def test_what_is_no_card_is_neither_followed_nor_waited_for_nor_removed(
    programs: Programs, tmp_path: Path
) -> None:
    """Pipes, links, directories, huge files; a living agent beside them answers as ever."""
    program = programs.start(WAITING, stdin=-1)
    outside = tmp_path / "outside.json"
    outside.write_text(json.dumps({**card_of(os.getpid()), "start": 1}))
    os.mkfifo(programs.directory / "11.json")
    (programs.directory / "12.json").symlink_to(outside)
    (programs.directory / "13.json").mkdir()
    (programs.directory / "14.json").symlink_to("/dev/zero")
    with (programs.directory / "15.json").open("wb") as sparse:
        sparse.truncate(1 << 40)
    before = sorted(os.listdir(programs.directory))
    roster = programs.roster()
    assert roster[program.pid]["agent"] and os.getpid() not in roster
    assert programs.answers(program.pid)
    assert sorted(os.listdir(programs.directory)) == before and outside.exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"pid": 10**30},
        {"start": -1},
        {"start": 1 << 70},
        {"ppid": -5},
        {"command": [None, {"a": 1}, 3]},
        {"python": "\x1b]52;c;aGk=\a"},
        {"labels": {"rank": "three", "world": [], "job": 7, "role": {}}},
        {"labels": {"rank": 1 << 80, "world": -1, "local_rank": True}},
        {"labels": {"rank": 0, "job": "j" * 100_000}},
        {"labels": {"mesh": 5, "coordinates": [1], "names": "x", "rank": 1}},
        {"labels": {"coordinates": {"tp": "x"}, "mesh": {"tp": None}, "rank": 1}},
        {"labels": {"environment": 3, "engine": [], "multiprocessing": 4, "place": "x"}},
    ],
    ids=lambda changes: str(changes)[:40],
)
def test_whatever_stands_in_a_card_the_others_are_listed(
    programs: Programs, start: Callable[..., Any], changes: dict[str, Any]
) -> None:
    """For a living process and a dead one: the roster has the rank beside it, and `ps` shows it."""
    rank = programs.start(WAITING, stdin=-1, env={"RANK": "0", "RANKDBG_JOB": "true"})
    other = start(WAITING, stdin=-1)
    dead = start("print('ready')")
    dead.wait()
    write_card(programs.directory, other.pid, **changes)
    ended = {"pid": dead.pid, "start": 1, **changes}
    (programs.directory / f"{dead.pid}.json").write_text(
        json.dumps({**card_of(other.pid), **ended})
    )
    assert programs.roster()[rank.pid]["agent"]
    words = [sys.executable, "-m", "rankdbg", "ps", "--all", "--json"]
    environment = {**os.environ, "RANKDBG_DIR": str(programs.directory)}
    shown = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert shown.returncode == 0, shown.stderr
    assert str(rank.pid) in shown.stdout


def test_pipe_in_the_place_of_a_card_does_not_hold_up_an_agent(programs: Programs) -> None:
    """Its process starts, takes the name for its own card, and answers."""
    programs.directory.mkdir(mode=0o700)
    programs.python = "sh"
    program = programs.start(
        f"mkfifo {programs.directory}/$$.json; exec {sys.executable} -c "
        "'import sys; print(1, flush=True); sys.stdin.read()'",
        stdin=-1,
    )
    assert programs.answers(program.pid)
    assert programs.roster()[program.pid]["agent"]
