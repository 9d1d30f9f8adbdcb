"""The node process: questions on stdin, answers on stdout, nothing else.

It exits when its stdin ends: its client has then ended, and a killed launcher leaves nothing
behind.
"""

from __future__ import annotations

import gc
import os
import resource
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator

from rankdbg import wire
from rankdbg.errors import RankdbgError
from rankdbg.node import offers
from rankdbg.node.service import Service

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO, NoReturn

    from rankdbg.node.open_streams import Streams

# The client sends at once, unless the connection is already broken.
OPENING_SECONDS = 60.0
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
# A message of this size takes time over a slow connection; reported this often.
LARGE, SIGN_EVERY = 1 << 18, 2.0


def main(name: str = "", heard: bytes = b"") -> None:
    """With a name, only what is said `to` it is for this node; some was heard before this."""
    gc.enable()  # clusters/transport/landing.py has disabled it
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
    messages = _messages(lambda: silence, name, heard, lambda size: send({"coming": size}))
    try:
        scope = wire.check_hello(next(messages), "the client").get("scope", {})
        silence = float(scope.get("silence", 0))
        longest = int(scope.get("line", longest))
        encode = wire.encode_packed if scope.get("packed") else wire.encode
        os.environ["RANKDBG_THERE"] = str(scope.get("there", ""))
        offers.offer(scope.get("offers", ()))
        service = Service(scope)
        streams: Streams | None = None
        send(wire.hello())
        for message in messages:
            if "give" in message:
                offers.take(message["give"], message["files"])
            elif message.get("ask") == "stream" or "ask" not in message:
                try:
                    streams = streams or _make_streams(service, send)
                    (streams.begin if "ask" in message else streams.feed)(message)
                except offers.MissingTool as lacking:
                    send({"id": message.get("id"), "lacks": lacking.kind})
            else:
                # One thread per question: a slow one does not delay the others.
                threading.Thread(target=_answer, args=(service, message, send), daemon=True).start()
    except StopIteration:
        pass
    except RankdbgError as error:
        send({"error": {"what": error.what, "hint": error.hint}})
    _leave()


def _make_streams(service: Service, send: Callable[[wire.Message], None]) -> Streams:
    """Few nodes have any, and what they need is not loaded at the start of all."""
    from rankdbg.node.open_streams import Streams

    return Streams(service, send)


def _answer(service: Service, message: wire.Message, send: Callable[[wire.Message], None]) -> None:
    try:
        answer = service.answer(message)
    except offers.MissingTool as lacking:
        answer = {"lacks": lacking.kind}
    except RankdbgError as error:
        answer = {"error": {"what": error.what, "hint": error.hint}}
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        answer = {
            "error": {
                "what": f"internal error of the node process in {message.get('ask')!r}: {what}"
            }
        }
    try:
        send({"id": message.get("id"), **answer})
    except (OSError, ValueError):
        _leave()  # the client has gone


def _messages(
    silence: Callable[[], float], name: str, heard: bytes, tell_of_coming: Callable[[int], None]
) -> Iterator[wire.Message]:
    """Messages until stdin ends, or until nothing was received for so many seconds (0: no limit).
    While a long message is being received, that is reported every few seconds."""
    lines = wire.Lines()
    told = time.monotonic()
    while heard or select.select([0], [], [], silence() or None)[0]:
        data, heard = heard or os.read(0, 1 << 16), b""
        if not data:
            return
        for line in lines.feed(data):
            for message in wire.unbundled(wire.decode(line)):
                if not name or message.get("to") == name:
                    yield message
        if lines.unfinished > LARGE and time.monotonic() > told + SIGN_EVERY:
            told = time.monotonic()
            tell_of_coming(lines.unfinished)


def _leave(*_: object) -> NoReturn:
    """Does not wait for threads, which may hang in the kernel."""
    if landed := os.environ.get("RANKDBG_LANDED"):  # created by clusters/transport/landing.py
        _remove(landed)
    os._exit(0)


def _remove(directory: str) -> None:
    """With its content, as far as possible. (Importing shutil takes 8 ms in every pod.)"""
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    _remove(entry.path)
                else:
                    os.unlink(entry.path)
        os.rmdir(directory)
    except OSError:
        pass


def _leave_on_signals() -> None:
    """Signals that the launcher ignores have no effect here, but child processes get the default
    handlers."""
    for number in signal.Signals:
        if signal.getsignal(number) == signal.SIG_IGN and number not in _IGNORED_BY_PYTHON:
            signal.signal(number, lambda *_: None)
        elif number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, _leave)


def _claim_stdout() -> BinaryIO:
    """stdout is for messages only: other output goes to stderr."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return output


def _raise_file_limit() -> None:
    """A question to a thousand agents needs a thousand sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 1 << 16) if hard > 0 else soft, hard))


if __name__ == "__main__":
    # clusters/transport/landing.py gives us these.
    main()
