"""Who may attach: this user, with the token or by a Unix socket; and nobody else."""

from __future__ import annotations

import os
import socket
import stat
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from dap_client import DapClient
from editor import INITIALIZE, LOOP, DapServer, Editor
from jobs import PROGRAMS, Job, rankdbg
from rankdbg.frontends.dap import protocol
from rankdbg.frontends.dap import server as dap_server
from strangers import STRANGER, as_stranger, needs_root, public_place, stopped
from tiers import chiefly
from waiting import PATIENCE, wait_for

pytest.importorskip("debugpy", reason="needs debugpy")

# A machine whose kernel has no table of connections.
WITHOUT_TABLE = (
    "unshare",
    "--mount",
    "sh",
    "-c",
    'mount -t tmpfs none /proc/$$/net && exec "$@"',
    "sh",
)
CONFIGURATION: dict[str, Any] = {"name": "rankdbg", "type": "debugpy", "request": "attach"}
LACKS_TOKEN = "the configuration has no token for rankdbg dap, or a wrong one"


@pytest.fixture
def looping(job: Job) -> Job:
    job.start(sys.executable, PROGRAMS / "launch.py", 2, LOOP, "loops", "loops")
    job.wait_for(lambda ranks: len([rank for rank in ranks if rank.where]) == 2)
    return job


@pytest.fixture
def server(looping: Job) -> Iterator[DapServer]:
    with DapServer(looping) as server:
        yield server


def refusal(server: DapServer, **settings: Any) -> str:
    editor = Editor(server)
    try:
        return editor.parent.refused("attach", **CONFIGURATION, **settings)
    finally:
        editor.close()


def says(server: DapServer) -> str:
    assert server.process.stderr is not None
    return server.process.stderr.readline()


# --- the token ------------------------------------------------------------------------------------


def test_without_the_token_nobody_attaches(server: DapServer) -> None:
    """Nor with another, or with a rank's key that is made up; the terminal says so once. With it
    there is a session for each rank, and nobody has been there before."""
    made_up = ({"token": "x"}, {"token": None}, {"token": ["x"]}, {"rank": "0"}, {"rank": None})
    for wrong in (None, *made_up, {"token": "\ud800"}, "token", 7, []):
        assert LACKS_TOKEN in refusal(server, rankdbg=wrong)
    editor = Editor(server)
    assert list(editor.attach_all(2)) == [0, 1]
    editor.leave()
    server.process.terminate()
    _, said = server.process.communicate(timeout=PATIENCE)
    assert said == "rankdbg: refused an editor without the token printed above\n"


def test_key_of_a_session_opens_that_session_alone(server: DapServer) -> None:
    """Keys are long and all different, and hold until their session is over."""
    editor = Editor(server)
    editor.attach_all(2)
    offers = [
        m["arguments"] for m in editor.parent.messages if m.get("command") == "startDebugging"
    ]
    keys = {offer["configuration"]["rankdbg"]["rank"] for offer in offers}
    assert len(keys) == 2 and all(len(key) == 32 for key in keys)
    assert all("token" not in offer["configuration"]["rankdbg"] for offer in offers)
    for key in keys:
        assert "already has a session" in refusal(server, rankdbg={"rank": key})
    editor.leave()
    for key in keys:
        assert LACKS_TOKEN in refusal(server, rankdbg={"rank": key})


@pytest.mark.parametrize("words", [("--token", "open sesame"), ()], ids=["option", "environment"])
def test_token_of_the_users_own(looping: Job, words: tuple[str, ...]) -> None:
    """By an option, or by a variable, which other users cannot see and nodes do not get."""
    token = "open sesame"
    with DapServer(
        looping, *words, env={"RANKDBG_DAP_TOKEN": token} if not words else {}
    ) as server:
        assert server.configuration == {"rankdbg": {"token": token}}
        command = Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
        assert (token.encode() in command) == bool(words)
        children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
        for child in children.read_text().split() if children.exists() else ():
            assert token.encode() not in Path(f"/proc/{child}/environ").read_bytes()
        editor = Editor(server)
        assert list(editor.attach_all(2)) == [0, 1]
        editor.leave()


def test_token_is_kept_for_this_user_alone(looping: Job) -> None:
    """In a file 0600 in a directory 0700, for the next server and for `rankdbg vscode`."""
    with DapServer(looping) as first:
        (file,) = Path(looping.environment["XDG_STATE_HOME"]).rglob("dap-token")
        assert first.configuration == {"rankdbg": {"token": file.read_text().strip()}}
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent)]
        assert modes == [0o600, 0o700] and len(file.read_text().strip()) == 32
    with DapServer(looping) as second:
        assert second.configuration == first.configuration


SPOILED = ["readable", "link", "empty", "pipe", "binary"]


@pytest.mark.parametrize("spoiled", chiefly(["readable", "link"], SPOILED))
def test_token_that_others_may_know_is_not_used(looping: Job, spoiled: str) -> None:
    """The server makes up one for this run, and says so; `rankdbg vscode` says what to do."""
    state = Path(looping.environment["XDG_STATE_HOME"], "rankdbg")
    state.mkdir(parents=True, mode=0o700)
    file = state / "dap-token"
    if spoiled == "link":
        (state / "elsewhere").write_text("known")
        file.symlink_to("elsewhere")
    elif spoiled == "pipe":
        os.mkfifo(file, 0o600)
    else:
        file.write_bytes({"readable": b"known", "empty": b"", "binary": b"\xff\xfe"}[spoiled])
        file.chmod(0o644 if spoiled == "readable" else 0o600)
    with DapServer(looping) as server:
        assert f"this token is valid for this run only: cannot use the token in {file}" in says(
            server
        )
        assert len(server.configuration["rankdbg"]["token"]) == 32
    refused = looping.cli("vscode", "--editor", "zed")
    assert refused.returncode == 2 and "fix or remove the file" in refused.stderr


# --- whose connection it is ------------------------------------------------------------------------

ATTACKS = """
    import json, socket, sys
    host, port, token, mark, stays = sys.argv[1], int(sys.argv[2]), *sys.argv[3:]
    def message(seq, command, **arguments):
        body = {"seq": seq, "type": "request", "command": command, "arguments": arguments}
        data = json.dumps(body).encode()
        return b"Content-Length: %d\\r\\n\\r\\n%b" % (len(data), data)
    line = f"ask all __import__('pathlib').Path({mark!r}).touch()"
    everything = (
        message(1, "initialize", adapterID="x")
        + message(2, "attach", name="x", request="attach", rankdbg={"token": token})
        + message(3, "configurationDone")
        + message(4, "evaluate", expression=line, context="repl")
    )
    for _ in range(20):
        client = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        client.settimeout(100)
        client.connect((host, port))
        try:
            client.sendall(everything)
            while stays == "stays" and client.recv(1 << 16):
                print("heard", flush=True)
        except OSError:
            pass
        client.close()
"""


@needs_root
@pytest.mark.parametrize("host", ["127.0.0.1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize(("stays", "late"), [("stays", False), ("closes", False), ("closes", True)])
def test_another_user_executes_nothing_even_with_the_token(
    server: DapServer, tmp_path: Path, host: str, stays: str, late: bool
) -> None:
    """By IPv4 or IPv6, whether it waits or has closed when it is looked at; twenty tries are one
    line in the terminal, or two. Then this user attaches as ever."""
    mark, token = tmp_path / "mark", server.configuration["rankdbg"]["token"]
    with stopped(server.process) if late else nullcontext():
        stranger = as_stranger(ATTACKS, host, server.port, token, mark, stays)
        heard, _ = stranger.communicate(timeout=PATIENCE)
    assert heard == ""
    editor = Editor(server)
    assert list(editor.attach_all(2)) == [0, 1]
    assert editor.say("ask all 6 * 7").split() == ["0-1", "42"]
    editor.leave()
    assert not mark.exists()
    server.process.terminate()
    _, said = server.process.communicate(timeout=PATIENCE)
    lines = said.splitlines()
    assert len(lines) in (1, 2) and all("rankdbg: refused a connection" in line for line in lines)


@needs_root
def test_where_the_user_cannot_be_told_only_a_socket_is_let_in(looping: Job) -> None:
    """On a machine without tables of connections the port refuses all, token or not, and says what
    can be used instead."""
    path = looping.directory / "dap.sock"
    with DapServer(looping, inside=WITHOUT_TABLE) as by_port:
        client = DapClient.connect(by_port.port)
        client.wait_closed()
        client.close()
        words = "a connection whose user cannot be determined; use rankdbg dap --socket PATH"
        assert words in says(by_port)
    with DapServer(looping, "--socket", path, inside=WITHOUT_TABLE) as by_socket:
        editor = Editor(by_socket)
        assert list(editor.attach_all(2)) == [0, 1]
        editor.leave()


# --- a Unix socket -----------------------------------------------------------------------------------


def test_socket_needs_no_token_and_no_port(looping: Job) -> None:
    """Editors come by an adapter on stdin and stdout, the parent's session and the ranks'. The
    socket is private, and is removed at the end."""
    path = looping.directory / "dap.sock"
    with DapServer(looping, "--socket", path) as server:
        assert server.address == str(path) and server.configuration == {}
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        editor = Editor(server)
        assert list(editor.attach_all(2)) == [0, 1]
        assert editor.say("ask all 6 * 7").split() == ["0-1", "42"]
        editor.leave()
        again = looping.cli("dap", "--socket", path)
        assert again.returncode == 2 and "another server listens there" in again.stderr
    assert server.process.returncode is not None
    with DapServer(looping, "--socket", path):  # in the place of one that was killed
        pass


@needs_root
def test_another_user_is_refused_at_the_socket(looping: Job) -> None:
    """Even where the way to it has been opened by mistake."""
    with public_place() as place, DapServer(looping, "--socket", place / "own/s") as server:
        path = place / "own/s"
        path.parent.chmod(0o755)
        path.chmod(0o777)
        code = """
            import socket, sys
            client = socket.socket(socket.AF_UNIX)
            client.connect(sys.argv[1])
            print(client.recv(100))
        """
        heard, _ = as_stranger(code, path).communicate(timeout=PATIENCE)
        assert heard == "b''\n"
        assert f"refused a connection of another user (uid {STRANGER})" in says(server)


@pytest.mark.parametrize("place", ["open", "file", "taken"])
def test_place_that_is_no_place_for_a_socket_is_refused(tmp_path: Path, place: str) -> None:
    """A directory that others can enter, or what is not a socket: one sentence, status 2."""
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "file").write_text("")
    (tmp_path / "private").mkdir(mode=0o700)
    (tmp_path / "private/taken").write_text("mine")
    path = {"open": "open/s", "file": "file/s", "taken": "private/taken"}[place]
    result = rankdbg("dap", "--socket", tmp_path / path)
    assert result.returncode == 2 and "Traceback" not in result.stderr
    assert f"error: cannot listen on {tmp_path / path}: " in result.stderr
    assert "hint: use a directory of your own: --socket /" in result.stderr
    assert (tmp_path / "private/taken").read_text() == "mine"


def test_adapter_without_a_server_says_so(tmp_path: Path) -> None:
    """One sentence with what to start first."""
    result = rankdbg("dap", "--connect", tmp_path / "nothing.sock")
    assert result.returncode == 2
    assert (
        f"hint: start the server first: rankdbg dap --socket {tmp_path}/nothing.sock"
        in result.stderr
    )


# --- what a connection may cost before its attach ----------------------------------------------------


def test_long_message_before_the_attach_is_refused(server: DapServer) -> None:
    """More than a mebibyte is not even read; an editor that has attached may send that."""
    longest = protocol.LONGEST_GREETING
    with socket.create_connection(("127.0.0.1", server.port), 20) as connection:
        connection.sendall(b"Content-Length: %d\r\n\r\n" % (longest + 1))
        assert connection.recv(100) == b""
    editor = Editor(server)
    editor.attach_all(2)
    editor.parent.ask("setExceptionBreakpoints", filters=["x" * (longest + 1)])
    editor.leave()


def test_connections_without_an_attach_are_few(server: DapServer) -> None:
    """So many wait, the next is closed at once; when they have gone, an editor attaches."""
    waiting = [
        socket.create_connection(("127.0.0.1", server.port), 20)
        for _ in range(dap_server.MOST_UNATTACHED + 16)
    ]
    with socket.create_connection(("127.0.0.1", server.port), 20) as one_more:
        assert one_more.recv(100) == b""
    assert "too many connections have not attached" in says(server)
    for connection in waiting:
        connection.close()

    def attaches() -> bool:
        try:
            client = DapClient.connect(server.port)
            client.ask("initialize", **INITIALIZE)
            client.close()
        except (AssertionError, OSError):
            return False
        return True

    wait_for(attaches, "room for an editor")
    editor = Editor(server)
    assert list(editor.attach_all(2)) == [0, 1]
    editor.leave()


def test_connection_that_never_attaches_is_closed(looping: Job) -> None:
    """After the limit, also if it says something now and again."""
    limit = "rankdbg.frontends.dap.server:ATTACH_SECONDS=3"
    with DapServer(looping, limit=limit) as server:
        client = DapClient.connect(server.port)

        def is_closed() -> bool:
            try:
                client.request("initialize", **INITIALIZE)
            except OSError:
                return True
            return client.closed

        assert not is_closed()
        wait_for(is_closed, "the limit is over")
        client.wait_closed()
        client.close()
