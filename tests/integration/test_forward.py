"""`rankdbg forward` and rankdbg.listen(): ports, for those who want them."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from agents import Programs
from backwards import serve_backwards
from dap_client import DapClient
from jobs import free_port, rankdbg
from strangers import as_stranger, needs_root, stopped
from waiting import PATIENCE, processes_beside, wait_for


@contextmanager
def forwarding(*words: object, **settings: object) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """`rankdbg forward`, and its first port here."""
    command = [sys.executable, "-m", "rankdbg", "forward", "-t", "local", *map(str, words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, **pipes)  # type: ignore[call-overload]
    try:
        line = process.stdout.readline()
        found = re.match(r"127\.0\.0\.1:(\d+) -> ", line)
        assert found, process.stderr.read()
        yield process, int(found[1])
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def echo() -> Iterator[int]:
    """A server that sends back what it got when the other side has said all; its port."""
    listening = serve_backwards()
    yield listening.getsockname()[1]
    listening.close()


def said_back(port: int, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        heard = bytearray()
        while portion := connection.recv(1 << 16):
            heard += portion
    return bytes(heard)


def test_bytes_come_through_as_they_are(echo: int) -> None:
    """Many times what may be on its way at once, in both directions, several at a time."""
    with forwarding(f"{echo}:0") as (_, port):
        data = os.urandom(5 << 20)
        assert said_back(port, b"") == b""
        assert said_back(port, data) == data[::-1]
        answers: list[bytes] = []
        threads = [
            threading.Thread(target=lambda: answers.append(said_back(port, data[: 1 << 20])))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [data[: 1 << 20][::-1]] * 4


def test_port_where_nobody_listens_is_said(echo: int) -> None:
    """The connection is closed, and the next one to another port works."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # and nobody else gets it meanwhile
        nobody = silent.getsockname()[1]
        with forwarding(f"{nobody}:0", f"{echo}:0") as (process, port):
            assert said_back(port, b"") == b""
            assert f"nothing listens on port {nobody} there" in process.stderr.readline()  # type: ignore[union-attr]
            second = int(re.findall(r":(\d+) ->", process.stdout.readline())[0])  # type: ignore[union-attr]
            assert said_back(second, b"abc") == b"cba"


def test_broken_channel_is_opened_again(echo: int) -> None:
    """The node process is killed; the next connections go through a new one."""
    with forwarding(f"{echo}:0") as (process, port):
        assert said_back(port, b"abc") == b"cba"
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        (node,) = [
            pid
            for pid in processes_beside(process.pid, "rankdbg.node")
            if _parent(pid) == process.pid
        ]
        assert children.exists() or node
        os.kill(node, signal.SIGKILL)

        def works() -> bool:
            try:
                return said_back(port, b"xyz") == b"zyx"
            except OSError:
                return False

        wait_for(works, "a connection through a new node process")


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


SENDS = """
    import socket, struct, sys
    host, port, then = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    for _ in range(20):
        client = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        client.settimeout(100)
        client.connect((host, port))
        try:
            client.sendall(b"stolen")
            if then == "waits":
                client.shutdown(socket.SHUT_WR)
                while heard := client.recv(100):
                    print(heard, flush=True)
            elif then == "resets":
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass
        client.close()
"""


@needs_root
@pytest.mark.parametrize("host", ["127.0.0.1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize(
    ("then", "late"),
    [("waits", False), ("closes", False), ("resets", False), ("closes", True), ("resets", True)],
)
def test_another_user_reaches_nothing(host: str, then: str, late: bool) -> None:
    """Not even a connection to the port there is opened, however it comes and goes, also if it is
    looked at when all is over; the terminal says so in a line or two, and this user is served
    before and after."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as there:
        there.settimeout(PATIENCE)
        with forwarding(f"{there.getsockname()[1]}:0") as (process, port):
            with stopped(process) if late else nullcontext():
                heard, _ = as_stranger(SENDS, host, port, then).communicate(timeout=PATIENCE)
            assert heard == ""
            for family in ("127.0.0.1", "::ffff:127.0.0.1"):
                with socket.create_connection((family, port), 30) as ours:
                    ours.sendall(b"ours")
                    ours.shutdown(socket.SHUT_WR)
                    arrived, _ = there.accept()  # the first that has come at all
                    with arrived:
                        assert arrived.recv(100) == b"ours"
            process.terminate()
            _, said = process.communicate(timeout=PATIENCE)
    assert 1 <= len(said.splitlines()) <= 2
    assert all(line.startswith("rankdbg: refused a connection ") for line in said.splitlines())


@pytest.mark.parametrize("ports", ["x", "0", "70000", "5680-5678", "5678:x", ""])
def test_what_is_no_port_is_refused(ports: str) -> None:
    """In one sentence, with status 2."""
    result = rankdbg("forward", "-t", "local", ports)
    assert result.returncode == 2
    assert result.stderr.startswith("error: ") and "Traceback" not in result.stderr


def test_unknown_node_is_refused() -> None:
    """With those there are."""
    result = rankdbg("forward", "-t", "local", "--node", "nowhere", "5678")
    assert result.returncode == 2
    assert f"there are: {os.uname().nodename}" in result.stderr


def test_listen_waits_for_an_editor_at_its_own_port(programs: Programs) -> None:
    """On loopback, at the base and the local rank; an editor that attaches lets it go on."""
    pytest.importorskip("debugpy", reason="needs debugpy")
    base = free_port() - 3
    code = f"""
    import rankdbg
    print("begins", flush=True)
    port = rankdbg.listen(port_base={base})
    print("port", port, flush=True)
    """
    process = programs.start(code, env={"RANK": "3", "LOCAL_RANK": "3"})
    says = iter(process.stderr.readline, "")
    assert next(says) == f"rankdbg: rank 3: debugpy listens on 127.0.0.1:{base + 3}\n"
    assert next(says) == "rankdbg: rank 3: Waiting for debugger to attach…\n"
    client = DapClient.connect(base + 3)
    client.ask("initialize", adapterID="test")
    client.request("attach", justMyCode=True)
    client.event("initialized")
    client.ask("configurationDone")
    assert process.stdout.readline() == f"port {base + 3}\n"
    client.close()
