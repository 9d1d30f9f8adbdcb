"""Whose a connection is: this user's, another's, or nobody's that can be told."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from rankdbg.process import peers
from strangers import STRANGER, as_stranger, needs_root
from waiting import PATIENCE

LOOPBACK = "127.0.0.1"
MAPPED = "::ffff:127.0.0.1"

# Connects, does what it is told, says so, and stays until its stdin ends.
CLIENT = """
    import socket, struct, sys
    host, port, then, own = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    client = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    client.bind((host, own))
    client.connect((host, port))
    client.sendall(b"said")
    if then == "half":
        client.shutdown(socket.SHUT_WR)
    elif then == "both":
        client.shutdown(socket.SHUT_RDWR)
    elif then == "linger":
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_LINGER2, 100)
        client.close()
    elif then == "reset":
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    elif then == "close":
        client.close()
    print("done", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server((LOOPBACK, 0)) as listening:
        listening.settimeout(PATIENCE)
        yield listening


def connect_to(server: socket.socket, host: str, own: int = 0) -> socket.socket:
    client = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    client.settimeout(PATIENCE)
    client.bind((host, own))
    client.connect((host, server.getsockname()[1]))
    return client


def stranger_at(server: socket.socket, host: str, then: str) -> subprocess.Popen[str]:
    process = as_stranger(CLIENT, host, server.getsockname()[1], then, 0)
    assert process.stdout is not None and process.stdout.readline() == "done\n"
    return process


@needs_root
@pytest.mark.parametrize("host", [LOOPBACK, MAPPED])
@pytest.mark.parametrize("then", ["stay", "half", "both", "close", "linger", "reset"])
def test_another_user_is_refused_whatever_becomes_of_the_connection(
    server: socket.socket, host: str, then: str
) -> None:
    """By IPv4 and IPv6; while it is open, and when it is closed, of which the kernel says uid 0."""
    stranger = stranger_at(server, host, then)
    accepted, _ = server.accept()
    with accepted:
        refusal = peers.refusal(accepted)
    stranger.communicate()
    assert refusal is not None
    if then in ("stay", "half", "both"):
        assert refusal.kind == "another user" and f"(uid {STRANGER})" in refusal.text
    else:
        assert refusal.kind == "closed"


@pytest.mark.parametrize("host", [LOOPBACK, MAPPED])
@pytest.mark.parametrize("half", [False, True])
def test_own_user_is_let_in_also_when_it_has_said_all(
    server: socket.socket, host: str, half: bool
) -> None:
    """A client that shuts its side down at once still waits for its answer."""
    for _ in range(50):
        with connect_to(server, host) as client:
            client.sendall(b"said")
            if half:
                client.shutdown(socket.SHUT_WR)
            accepted, _ = server.accept()
            with accepted:
                assert peers.refusal(accepted) is None


def test_own_user_is_refused_when_it_has_gone(server: socket.socket) -> None:
    """Nobody can tell any more whose it was."""
    connect_to(server, LOOPBACK).close()
    accepted, _ = server.accept()
    with accepted:
        refusal = peers.refusal(accepted)
    assert refusal is not None and refusal.kind == "closed"


def test_own_user_on_the_loopback_of_ipv6() -> None:
    """A server there finds its clients too, and a dual one those of IPv4."""
    for address, dual in (("::1", False), ("::", True)):
        with socket.create_server((address, 0), family=socket.AF_INET6, dualstack_ipv6=dual) as six:
            six.settimeout(PATIENCE)
            for host in ("::1", LOOPBACK) if dual else ("::1",):
                with connect_to(six, host):
                    accepted, _ = six.accept()
                    with accepted:
                        assert peers.refusal(accepted) is None


@needs_root
def test_port_that_we_got_after_a_stranger_does_not_let_the_stranger_in(
    server: socket.socket,
) -> None:
    """It resets its connection, whose bytes are still read, and a client of our own connects from
    the same port: the row in the table is ours then."""
    stranger = stranger_at(server, LOOPBACK, "reset")
    strangers, (_, port) = server.accept()
    with strangers, connect_to(server, LOOPBACK, port):
        ours, _ = server.accept()
        with ours:
            refusal = peers.refusal(strangers)
            assert refusal is not None and refusal.kind == "closed"
            assert strangers.recv(100) == b"said"
            assert peers.refusal(ours) is None
    stranger.communicate()


def test_own_user_is_found_among_thousands(server: socket.socket) -> None:
    """Of idle connections of others."""
    with socket.create_server((LOOPBACK, 0), backlog=512) as crowd:
        idle = []
        for _ in range(400):
            idle += [connect_to(crowd, LOOPBACK), crowd.accept()[0]]
        for host in (LOOPBACK, MAPPED):
            with connect_to(server, host):
                accepted, _ = server.accept()
                with accepted:
                    assert peers.refusal(accepted) is None
        for each in idle:
            each.close()


def test_unix_socket_says_itself_who_is_there() -> None:
    """Of this very process, on both ends."""
    for end in socket.socketpair():
        with end:
            assert peers.refusal(end) is None


@needs_root
def test_user_that_stands_for_all_unknown_ones_is_refused() -> None:
    """In a user namespace without a map every user looks like `nobody`, and so do we."""
    code = """
        import socket
        from rankdbg.process import peers
        with socket.create_server(("127.0.0.1", 0)) as server:
            with socket.create_connection(server.getsockname()):
                print(peers.refusal(server.accept()[0]).kind)
        print(peers.refusal(socket.socketpair()[0]).kind)
    """
    import textwrap

    words = ["unshare", "--user", sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
    if "unshare failed" in done.stderr:
        pytest.skip("user namespaces are switched off here")
    assert done.stdout.split() == ["unknown", "unknown"], done.stderr
