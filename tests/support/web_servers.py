"""`rankdbg web` for tests: as a command, and in this process with a look of the test's own."""

from __future__ import annotations

import contextlib
import http.client
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from jobs import Job
from rankdbg.frontends.web import looking
from rankdbg.frontends.web.admission import Admission
from rankdbg.frontends.web.board import Board
from rankdbg.frontends.web.server import link, listen, server_of
from rankdbg.investigations.hangs.job_verdicts import JobVerdict
from rankdbg.investigations.job_view import JobView
from rankdbg.investigations.watch.live_looks import LiveLook
from waiting import ANSWER_SECONDS, PATIENCE, wait_for

UNREACHED: Any = None  # of jobs of which a test asks nothing


class Served:
    """The command, and the link that it has printed."""

    def __init__(self, process: subprocess.Popen[str], link: str) -> None:
        self.process = process
        self.link = link

    def end(self, number: int = signal.SIGINT) -> tuple[int, str]:
        """Its exit status, and what it said on stderr."""
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, errors


@contextlib.contextmanager
def served(job: Job, *words: object) -> Iterator[Served]:
    named = [] if "-t" in words else ["--job", job.name]
    command = [sys.executable, "-m", "rankdbg", "web", "--timeout", f"{ANSWER_SECONDS:g}"]
    process = subprocess.Popen(
        [*command, *named, *map(str, words)],
        env=job.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        found = re.fullmatch(r"rankdbg web: (http://127\.0\.0\.1:\d+/\?token=\S+)\n", first)
        assert found, first + process.communicate()[1]
        yield Served(process, found[1])
    finally:
        process.kill()
        process.communicate()


@dataclass
class ServedHere:
    board: Board
    admission: Admission
    link: str

    @property
    def host(self) -> str:
        return urlsplit(self.link).netloc

    @property
    def cookie(self) -> str:
        return f"rankdbg={self.admission.cookie}"

    def ask(self, path: str, method: str = "GET", **headers: str) -> http.client.HTTPResponse:
        """The answer, as a client gets it that sends these headers and no others."""
        connection = http.client.HTTPConnection(self.host, timeout=PATIENCE)
        connection.putrequest(method, path, skip_host="Host" in headers, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        return connection.getresponse()

    def open_tab(self, receives: int = 0, **headers: str) -> socket.socket:
        """What a browser sends that opens a WebSocket. `receives`: bytes that it takes at once."""
        own = {
            "Host": self.host,
            "Origin": f"http://{self.host}",
            "Cookie": self.cookie,
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        }
        lines = [f"{name}: {value}\r\n" for name, value in {**own, **headers}.items() if value]
        client = socket.socket()
        if receives:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receives)
        client.settimeout(PATIENCE)
        client.connect(("127.0.0.1", urlsplit(self.link).port))
        path = f"{self.admission.folder}live"
        client.sendall(f"GET {path} HTTP/1.1\r\n{''.join(lines)}\r\n".encode())
        return client


@contextlib.contextmanager
def served_here(
    look: Callable[[], LiveLook], job: JobView | None = None, pace: float = 1.0
) -> Iterator[ServedHere]:
    board, admission = Board(), Admission()
    with listen(0) as listening:
        server = server_of(board, admission, pace, job or JobView(UNREACHED))
        where = link(listening, admission.token)
        looking.start(board, look, "local")
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            wait_for(lambda: server.started, "it serves")
            yield ServedHere(board, admission, where)
        finally:
            server.should_exit = True
            board.end()
            thread.join()


def always(found: JobVerdict) -> Callable[[], LiveLook]:
    return lambda: LiveLook(found, is_new=True)
