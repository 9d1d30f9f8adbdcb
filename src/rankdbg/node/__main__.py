"""The node process: questions on stdin, answers on stdout, nothing else.

It ends when its stdin ends: whoever started it has then gone, and a launcher that is
killed leaves nothing behind.
"""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Callable, Iterator
from typing import BinaryIO

from rankdbg import wire
from rankdbg.errors import RankdbgError
from rankdbg.node.service import Service


def main() -> None:
    _raise_file_limit()
    output = _claim_stdout()
    write = threading.Lock()

    def send(message: wire.Message) -> None:
        with write:
            output.write(wire.encode(message))
            output.flush()

    service = Service()
    send(wire.hello())
    try:
        for number, line in enumerate(_lines()):
            message = wire.decode(line)
            if number == 0:
                wire.check_hello(message, "the client")
            else:
                # A thread a question: one that takes its time holds up no other.
                threading.Thread(target=_answer, args=(service, message, send), daemon=True).start()
    except RankdbgError as error:
        send({"error": {"what": error.what, "hint": error.hint}})
    # Threads may hang in the kernel, beside the process that they look at.
    os._exit(0)


def _answer(service: Service, message: wire.Message, send: Callable[[wire.Message], None]) -> None:
    try:
        answer = service.answer(message)
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        answer = {"error": {"what": f"the node failed at {message.get('ask')!r}: {what}"}}
    try:
        send({"id": message.get("id"), **answer})
    except (OSError, ValueError):
        os._exit(0)  # nobody listens any more


def _lines() -> Iterator[bytes]:
    lines = wire.Lines()
    while data := os.read(0, 1 << 16):
        yield from lines.feed(data)


def _claim_stdout() -> BinaryIO:
    """Only messages may go to stdout: whatever else prints goes to stderr."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return output


def _raise_file_limit() -> None:
    """A question to a thousand agents needs a thousand sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 1 << 16) if hard > 0 else soft, hard))


if __name__ == "__main__":
    main()
