"""A launcher as a local process: stdin, stdout, and stderr kept separately."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from rankdbg.clusters.transport import carrier
from rankdbg.errors import NodeFailed


class Program(Protocol):
    """The node process, however it is connected: its stdin, stdout, stderr and end."""

    def listen(self, hear: carrier.Feed, hear_complaint: carrier.Feed) -> None: ...

    def send(self, data: bytes) -> None: ...

    def hang_up(self) -> None: ...

    def wait_or_kill(self, deadline: float) -> None: ...

    def reap(self, seconds: float, then: Callable[[int | None], None]) -> None: ...


class Launched:
    """Starts to transfer data when listen() is called."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        folder: str | None = None,
        whose: str = "",
    ) -> None:
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=None if environment is None else dict(environment),
                cwd=folder,
                bufsize=0,
                start_new_session=True,  # Ctrl-C is for the user's command, which cleans up
            )
        except OSError as error:
            prefix = f"{whose}: " if whose else ""
            raise NodeFailed(f"{prefix}cannot start {command[0]}: {error.strerror}") from None
        self._outgoing = carrier.shared().write(_taken(self._process.stdin))

    @property
    def pid(self) -> int:
        return self._process.pid

    def listen(self, hear: carrier.Feed, hear_complaint: carrier.Feed) -> None:
        carrier.shared().read(_taken(self._process.stderr), hear_complaint)
        carrier.shared().read(_taken(self._process.stdout), hear)

    def send(self, data: bytes) -> None:
        self._outgoing.send(data)

    def hang_up(self) -> None:
        """Close its stdin; the process then exits."""
        self._outgoing.end()

    def wait_or_kill(self, deadline: float) -> None:
        """Kill the process if it has not ended by then, without waiting longer."""
        if self._status(max(0.0, deadline - time.monotonic())) is None:
            self._process.kill()

    def reap(self, seconds: float, then: Callable[[int | None], None]) -> None:
        """Call `then` with the exit status, or with None after `seconds`. In a new thread: stderr
        may still have data."""
        threading.Thread(target=lambda: then(self._status(seconds)), daemon=True).start()

    def _status(self, seconds: float) -> int | None:
        try:
            return self._process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None


def _taken(pipe: Any) -> int:
    """The pipe's descriptor, for the carrier to close."""
    descriptor: int = pipe.fileno()
    pipe.close = lambda: None
    return descriptor
