"""The node process: questions on stdin, answers on stdout, nothing else.

It ends when its stdin ends: whoever started it has then gone, and a launcher that is
killed leaves nothing behind.
"""

from __future__ import annotations

import os
import resource
import select
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from typing import BinaryIO, NoReturn

from rankdbg import wire
from rankdbg.errors import RankdbgError
from rankdbg.node.service import Service
from rankdbg.node.streams import Streams

# Whoever starts us speaks at once, unless the way here is broken already.
OPENING_SECONDS = 60.0


def main(name: str = "", heard: bytes = b"") -> None:
    """With a name, only what is said `to` it is for this node; some was heard before this."""
    _raise_file_limit()
    _leave_on_signals()
    output = _claim_stdout()
    write = threading.Lock()
    encode = wire.encode

    def send(message: wire.Message) -> None:
        data = encode(message)
        with write:
            output.write(wire.in_short_lines(data, longest))
            output.flush()

    silence = OPENING_SECONDS
    longest = wire.LIMIT
    service = Service({})
    messages = _messages(lambda: silence, name, heard)
    try:
        scope = wire.check_hello(next(messages), "the client").get("scope", {})
        silence = float(scope.get("silence", 0))
        longest = int(scope.get("line", longest))
        encode = wire.encode_packed if scope.get("packed") else wire.encode
        service = Service(scope)
        streams = Streams(service, send)
        send(wire.hello())
        for message in messages:
            if message.get("ask") == "stream":
                streams.begin(message)
            elif "ask" not in message:
                streams.feed(message)
            else:
                # A thread a question: one that takes its time holds up no other.
                threading.Thread(target=_answer, args=(service, message, send), daemon=True).start()
    except StopIteration:
        pass
    except RankdbgError as error:
        send({"error": {"what": error.what, "hint": error.hint}})
    _leave()


def _answer(service: Service, message: wire.Message, send: Callable[[wire.Message], None]) -> None:
    try:
        answer = service.answer(message)
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        answer = {"error": {"what": f"the node failed at {message.get('ask')!r}: {what}"}}
    try:
        send({"id": message.get("id"), **answer})
    except (OSError, ValueError):
        _leave()  # nobody listens any more


def _messages(silence: Callable[[], float], name: str, heard: bytes) -> Iterator[wire.Message]:
    """Until stdin ends, or nothing has come for so many seconds (0: however many)."""
    lines = wire.Lines()
    while heard or select.select([0], [], [], silence() or None)[0]:
        data, heard = heard or os.read(0, 1 << 16), b""
        if not data:
            return
        for line in lines.feed(data):
            for message in wire.unbundled(wire.decode(line)):
                if not name or message.get("to") == name:
                    yield message


def _leave(*_: object) -> NoReturn:
    """Threads may hang in the kernel, beside the process that they look at: not waited for."""
    if landed := os.environ.get("RANKDBG_LANDED"):  # clusters/landing.py has put us there
        shutil.rmtree(landed, ignore_errors=True)
    os._exit(0)


def _leave_on_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _leave)


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
    # clusters/landing.py gives us these.
    main(globals().get("NAME", ""), globals().get("HEARD", b""))
