"""stdout and stderr of the command line: write errors never become tracebacks, and control
characters in untrusted text are escaped."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from rankdbg.errors import OutputFailed
from rankdbg.text.escapes import visible


class StandardStream(io.TextIOBase):
    """Around one of Python's own, which is None if the caller has closed it."""

    def __init__(self, raw: TextIO | None) -> None:
        self.raw = raw
        self._failure: Exception | None = None
        if isinstance(raw, io.TextIOWrapper):
            raw.reconfigure(errors="backslashreplace")  # an encoding may lack any character

    def write(self, text: str) -> int:
        self.write_shown(visible(text))
        return len(text)

    def write_shown(self, text: str) -> None:
        """Text whose control characters are rankdbg's own: Terminal's alone."""
        self._try(lambda raw: _write_all(raw, text))

    def flush(self) -> None:
        if self.raw is not None:
            self._try(lambda raw: raw.flush())

    def _try(self, action: Callable[[TextIO], object]) -> None:
        if self._failure is not None:
            raise self._failure
        try:
            if self.raw is None:
                raise OSError("stdout is closed")
            action(self.raw)
        except (OSError, ValueError) as error:  # ValueError: closed meanwhile
            self._give_up()
            self._failure = self._failed(error)
            raise self._failure from None

    def _failed(self, error: OSError | ValueError) -> Exception:
        if isinstance(error, BrokenPipeError):
            return error
        reason = error.strerror if isinstance(error, OSError) else None
        return OutputFailed(f"cannot write the output: {reason or error}")

    def _give_up(self) -> None:
        """What is still in its buffer would make Python complain at exit."""
        try:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, self.fileno(), inheritable=False)
            os.close(nothing)
        except (OSError, ValueError):  # not a file
            pass

    def close_quietly(self) -> None:
        try:
            self.flush()
        except (OutputFailed, BrokenPipeError):
            pass

    # --- what else is asked of a stream -----------------------------------------------------

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.raw.encoding if self.raw is not None else "utf-8"

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self.raw.errors if self.raw is not None else None

    def isatty(self) -> bool:
        return self.raw is not None and self.raw.isatty()

    def fileno(self) -> int:
        if self.raw is None:
            raise io.UnsupportedOperation("the stream is closed")
        return self.raw.fileno()

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        """The stream below is Python's to close; a destructor would flush it once more."""


class MessageStream(StandardStream):
    """stderr: messages that cannot be written are dropped."""

    def _try(self, action: Callable[[TextIO], object]) -> None:
        try:
            super()._try(action)
        except (OutputFailed, BrokenPipeError):
            pass


def _write_all(raw: TextIO, text: str) -> None:
    """With PYTHONUNBUFFERED Python would lose what one write does not take: a full disk, a reader
    that has gone."""
    below = getattr(raw, "buffer", None)
    if not isinstance(below, io.RawIOBase):
        raw.write(text)
        return
    data = text.encode(raw.encoding, "backslashreplace")
    while data:
        written = below.write(data)
        if written is None:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        data = data[written:]


@contextmanager
def guarded() -> Iterator[None]:
    """sys.stdout and sys.stderr are such streams meanwhile."""
    before = sys.stdin, sys.stdout, sys.stderr
    _take_closed_descriptors()
    output, messages = StandardStream(unguarded(sys.stdout)), MessageStream(unguarded(sys.stderr))
    if before[0] is None:
        sys.stdin = io.StringIO()
    sys.stdout, sys.stderr = cast("TextIO", output), cast("TextIO", messages)
    try:
        yield
    finally:
        output.close_quietly()
        messages.close_quietly()
        sys.stdin, sys.stdout, sys.stderr = before


def unguarded(stream: Any) -> Any:
    """For programs that draw a screen of their own."""
    return stream.raw if isinstance(stream, StandardStream) else stream


def _take_closed_descriptors() -> None:
    """The next file would get the number of a closed stdout, and all output with it."""
    try:
        while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
    except OSError:  # no /dev here
        return
    os.close(descriptor)
