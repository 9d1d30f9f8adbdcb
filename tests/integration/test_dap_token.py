"""An editor whose user the kernel does not tell: the token decides."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from editor import LOOP, DapServer, Editor
from jobs import PROGRAMS, Job

pytest.importorskip("debugpy", reason="needs debugpy")
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a mount namespace")

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


@pytest.fixture(params=[(), ("--token", "open sesame")], ids=["made up", "given"])
def server(job: Job, request: pytest.FixtureRequest) -> Iterator[DapServer]:
    job.start(sys.executable, PROGRAMS / "launch.py", 2, LOOP, "loops", "loops")
    job.wait_for(lambda ranks: len([rank for rank in ranks if rank.where]) == 2)
    with DapServer(job, *request.param, inside=WITHOUT_TABLE) as server:
        yield server


def refusal(server: DapServer, **settings: Any) -> str:
    editor = Editor(server.port)
    try:
        return editor.parent.refused("attach", **CONFIGURATION, **settings)
    finally:
        editor.close()


def test_token_lets_in_whom_the_kernel_does_not_tell(server: DapServer) -> None:
    """Without it, or with another, an attach is refused, and the server's terminal says what to
    write; with it there is a session for each rank."""
    why = "rankdbg cannot tell whose editor this is; its terminal says how"
    assert refusal(server) == why
    assert server.process.stderr is not None
    said = server.process.stderr.readline()
    found = re.search(r'"rankdbg": \{"token": "(.+)"\}$', said.strip())
    assert found, said
    for wrong in ({"token": "another"}, {"token": None}, {"rank": "nobody"}, "token", 7):
        assert refusal(server, rankdbg=wrong) == why
    editor = Editor(server.port, rankdbg={"token": found[1]})
    assert list(editor.attach_all(2)) == [0, 1]
    editor.leave()
