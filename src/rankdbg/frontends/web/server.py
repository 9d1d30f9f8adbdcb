"""The port, and how serving ends."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.wsproto_impl import WSProtocol

from rankdbg.errors import BadInput
from rankdbg.frontends.web.admission import Admission
from rankdbg.frontends.web.application import application
from rankdbg.frontends.web.board import Board
from rankdbg.investigations.job_view import JobView
from rankdbg.process import peers

ADDRESS = "127.0.0.1"
LARGEST_MESSAGE = 64 << 10  # of a tab
# A browser that reads nothing for so long is dropped, with what it was to be sent.
MOST_SECONDS_UNREAD = 20.0
SECONDS_TO_END = 1


def listen(port: int) -> socket.socket:
    try:
        return socket.create_server((ADDRESS, port))
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise BadInput(
            f"cannot listen on port {port}: {why}", hint="--port 0 uses any free port"
        ) from None


def link(listening: socket.socket, token: str) -> str:
    return f"http://{ADDRESS}:{listening.getsockname()[1]}/?token={token}"


def server_of(board: Board, admission: Admission, pace: float, job: JobView) -> uvicorn.Server:
    """It runs until it is to end: end_by_signals()."""
    config = uvicorn.Config(
        application(board, admission, pace, job),
        http=_HttpOfOneUser,
        ws=_TabConnection,
        loop="asyncio",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws_max_size=LARGEST_MESSAGE,
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=SECONDS_TO_END,
    )
    return _Server(config)


@contextmanager
def end_by_signals(server: uvicorn.Server) -> Iterator[None]:
    """Also before it runs. A signal takes its usual effect once the server has ended."""
    received: list[int] = []

    def end(number: int, _: object) -> None:
        server.force_exit = bool(received)
        server.should_exit = True
        received.append(number)

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if received:
            signal.raise_signal(received[0])


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Not here: what arrives before would end it half begun."""
        yield


class _HttpOfOneUser(H11Protocol):
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        refusal = peers.refusal(transport.get_extra_info("socket"))
        # What is not known is left to the token: in some sandboxes no user is.
        if refusal is not None and refusal.kind == "another user":
            self.app_state = {**self.app_state, "of_another_user": True}


class _TabConnection(WSProtocol):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._patience: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._patience = self.loop.call_later(MOST_SECONDS_UNREAD, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._have_patience()

    def connection_lost(self, exc: Exception | None) -> None:
        self._have_patience()
        super().connection_lost(exc)
        self.writable.set()  # older versions of uvicorn leave a sender waiting

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self.transport.abort()  # it would wait until all has been read

    def _have_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
