"""tests/isolate: a corner for each worker, which none of the others can disturb."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from waiting import PATIENCE, wait_for

ISOLATE = Path(__file__).parents[1] / "isolate"
DAEMON = "setsid sh -c 'echo starts; exec sleep 1000' & wait"
LOOKS = """
import glob, json, os, socket, sys
port = int(sys.argv[1])
with socket.socket() as client:
    refused = client.connect_ex(("127.0.0.1", port))
with socket.create_server(("127.0.0.1", port)):
    pass
print(json.dumps({
    "processes": len(glob.glob("/proc/[0-9]*")),
    "connects": refused == 0,
    "shared": os.listdir("/dev/shm"),
    "agents": os.listdir("/tmp/rankdbg-0"),
    "interfaces": sorted(name for _, name in socket.if_nameindex()),
}))
"""


def isolated(*command: object) -> list[str]:
    return [*map(str, (ISOLATE, *command))]


@pytest.fixture(autouse=True, scope="module")
def needs_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, for namespaces")


@pytest.fixture
def of_others() -> Iterator[None]:
    """What other programs have in the places that all share."""
    os.makedirs("/tmp/rankdbg-0", mode=0o700, exist_ok=True)
    files = [Path(place, f"of-others-{os.getpid()}") for place in ("/dev/shm", "/tmp/rankdbg-0")]
    for file in files:
        file.touch()
    yield
    for file in files:
        file.unlink()


@pytest.mark.usefixtures("of_others")
def test_it_meets_nobody() -> None:
    """No process, no port, no shared memory, no agents; and a network with more than loopback."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = isolated(sys.executable, "-c", LOOKS, port)
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert json.loads(done.stdout) == {
        "processes": 2,  # the shell and this one
        "connects": False,
        "shared": [],
        "agents": [],
        "interfaces": ["eth0", "eth1", "lo"],
    }


def test_another_user_is_refused() -> None:
    """And does not take root's place for agents: nothing is made."""
    as_user = "setpriv --reuid 12345 --regid 12345 --clear-groups sh -s true"
    script = f"mount -t tmpfs -o mode=1777 tmpfs /tmp && {as_user}; ls /tmp"
    with ISOLATE.open() as isolate:
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", script],
            stdin=isolate,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    assert (done.stdout, done.stderr) == ("", "isolate: only root can make namespaces\n")


def test_its_exit_status_is_that_of_the_command() -> None:
    assert subprocess.run(isolated("sh", "-c", "exit 7"), check=False).returncode == 7


def test_nothing_outlives_it() -> None:
    """Not even a daemon in a session of its own, when it is killed."""
    with subprocess.Popen(isolated("sh", "-c", DAEMON), stdout=subprocess.PIPE) as corner:
        assert corner.stdout is not None
        assert corner.stdout.readline() == b"starts\n"
        corner.send_signal(signal.SIGKILL)
        assert corner.stdout.read() == b""  # nobody has the other end any more


def test_orphans_are_reaped() -> None:
    """What a test has left alone does not stay as a zombie."""
    program = """
import os, sys
if os.fork() == 0:
    orphan = os.fork()
    if orphan:
        print(orphan, flush=True)
    os._exit(0)
os.wait()
sys.stdin.readline()
"""
    words = isolated(sys.executable, "-c", program)
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as corner:
        assert corner.stdout is not None and corner.stdin is not None
        orphan = int(corner.stdout.readline())
        (shell,) = Path(f"/proc/{corner.pid}/task/{corner.pid}/children").read_text().split()
        wait_for(lambda: not Path(f"/proc/{shell}/root/proc/{orphan}").exists(), "it is reaped")
        corner.stdin.close()


def test_this_worker_has_one() -> None:
    """Process 1 is the shell of its corner."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        pytest.skip("there are no workers without pytest -n")
    assert b"isolate" in Path("/proc/1/cmdline").read_bytes()
