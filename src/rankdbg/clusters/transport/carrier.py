"""One thread that transfers bytes to and from all node processes.

A node that does not read blocks no other, and a thousand nodes need one thread.
"""

from __future__ import annotations

import os
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import cache

# Called in the carrier thread with received data; with b"" at the end, once.
Feed = Callable[[bytes], None]

_PORTION = 1 << 18
ROUND_SECONDS = 5.0


class Carrier:
    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._errands: deque[Callable[[], None]] = deque()
        self._rounds: list[Callable[[], bool]] = []
        self._bell, self._ring = os.pipe()
        os.set_blocking(self._bell, False)
        os.set_blocking(self._ring, False)
        self._selector.register(self._bell, selectors.EVENT_READ, self._run_errands)
        threading.Thread(target=self._run, name="rankdbg carrier", daemon=True).start()

    def read(self, descriptor: int, feed: Feed) -> None:
        """Feed the data of a descriptor until its end; then close it."""
        os.set_blocking(descriptor, False)

        def portion() -> None:
            try:
                data = os.read(descriptor, _PORTION)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.forget(descriptor)
                os.close(descriptor)
            feed(data)

        self.soon(lambda: self.watch(descriptor, selectors.EVENT_READ, portion))

    def write(self, descriptor: int, close: Callable[[int], None] = os.close) -> Outgoing:
        os.set_blocking(descriptor, False)
        return Outgoing(self, descriptor, close)

    def soon(self, errand: Callable[[], None]) -> None:
        """Call it in the carrier thread."""
        self._errands.append(errand)
        try:
            os.write(self._ring, b"!")
        except BlockingIOError:
            pass  # already woken

    def on_rounds(self, call: Callable[[], bool]) -> None:
        """Call it every few seconds, for as long as it returns True."""
        self.soon(lambda: self._rounds.append(call))

    def watch(self, descriptor: int, event: int, ready: Callable[[], None]) -> None:
        self._selector.register(descriptor, event, ready)

    def forget(self, descriptor: int) -> None:
        self._selector.unregister(descriptor)

    def _run_errands(self) -> None:
        os.read(self._bell, 4096)
        while self._errands:
            self._errands.popleft()()

    def _run(self) -> None:
        rounds = time.monotonic()
        while True:
            for key, _ in self._selector.select(ROUND_SECONDS):
                key.data()
            if time.monotonic() - rounds > ROUND_SECONDS:
                rounds = time.monotonic()
                self._rounds = [call for call in self._rounds if call()]


class Outgoing:
    """A pipe that is written to as it accepts data, in the carrier thread."""

    def __init__(
        self, carrier: Carrier, descriptor: int, close: Callable[[int], None] = os.close
    ) -> None:
        self._carrier = carrier
        self._descriptor = descriptor
        self._close = close
        self._waiting: deque[memoryview] = deque()
        self._watched = self._ending = self._closed = False

    def send(self, data: bytes) -> None:
        def put() -> None:
            self._waiting.append(memoryview(data))
            self._write()

        self._carrier.soon(put)

    def end(self) -> None:
        """Close it as soon as everything is written."""

        def put() -> None:
            self._ending = True
            self._write()

        self._carrier.soon(put)

    def _write(self) -> None:
        if self._closed:
            return
        try:
            while self._waiting:
                written = os.write(self._descriptor, self._waiting[0])
                rest = self._waiting.popleft()[written:]
                if rest:
                    self._waiting.appendleft(rest)
        except BlockingIOError:
            if not self._watched:
                self._watched = True
                self._carrier.watch(self._descriptor, selectors.EVENT_WRITE, self._write)
            return
        except OSError:  # closed by the reader; its output says why
            self._ending = True
        if self._watched:
            self._watched = False
            self._carrier.forget(self._descriptor)
        if self._ending:
            self._closed = True
            self._close(self._descriptor)


@cache
def shared() -> Carrier:
    return Carrier()
