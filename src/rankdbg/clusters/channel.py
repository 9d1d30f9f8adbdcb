"""A channel to a node process that speaks on its stdin and stdout."""

from __future__ import annotations

import itertools
import queue
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from rankdbg import wire
from rankdbg.errors import NodeFailed, RankdbgError


class ProcessChannel:
    """Starts the command, and carries questions and answers; many may be under way."""

    def __init__(self, node: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._node = node
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(environment),
                start_new_session=True,  # Ctrl-C is for the user's command, which tidies up
            )
        except OSError as error:
            raise NodeFailed(f"{node}: cannot start {command[0]}: {error.strerror}") from None
        self._ids = itertools.count(1)
        self._waiting: dict[int, queue.SimpleQueue[wire.Message]] = {}
        self._failure: RankdbgError | None = None
        self._lock = threading.Lock()
        self._complaints = bytearray()
        threading.Thread(target=self._read_answers, daemon=True).start()
        threading.Thread(target=self._read_complaints, daemon=True).start()
        self._send(wire.hello())

    def ask(self, message: wire.Message, seconds: float) -> Any:
        ident = next(self._ids)
        answer: queue.SimpleQueue[wire.Message] = queue.SimpleQueue()
        with self._lock:
            if self._failure is not None:
                raise self._failure
            self._waiting[ident] = answer
        self._send({"id": ident, **message})
        try:
            reply = answer.get(timeout=seconds)
        except queue.Empty:
            raise NodeFailed(f"{self._node} did not answer within {seconds:.1f} s") from None
        finally:
            self._waiting.pop(ident, None)
        if "answer" in reply:
            return reply["answer"]
        if self._failure is not None:
            raise self._failure
        raise NodeFailed(f"{self._node}: {reply.get('error', {}).get('what', 'no answer')}")

    def close(self) -> None:
        """The node ends when its stdin ends. If it cannot, it is not waited for."""
        try:
            assert self._process.stdin is not None
            self._process.stdin.close()
        except OSError:
            pass
        try:
            self._process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _send(self, message: wire.Message) -> None:
        try:
            with self._lock:
                assert self._process.stdin is not None
                self._process.stdin.write(wire.encode(message))
                self._process.stdin.flush()
        except OSError:
            pass  # the node has ended: the reader finds out why, and tells

    def _read_answers(self) -> None:
        assert self._process.stdout is not None
        try:
            lines = wire.Lines()
            greeted = False
            while data := self._process.stdout.read1(1 << 18):  # type: ignore[attr-defined]
                for line in lines.feed(data):
                    message = wire.decode(line)
                    if not greeted:
                        wire.check_hello(message, f"the node {self._node}")
                        greeted = True
                    elif message.get("id") in self._waiting:
                        self._waiting[message["id"]].put(message)
                    elif "id" not in message and "error" in message:
                        self._fail(NodeFailed(f"{self._node}: {message['error'].get('what')}"))
            self._fail(NodeFailed(f"the node process on {self._node} ended", *self._last_words()))
        except RankdbgError as error:
            self._fail(error)

    def _fail(self, failure: RankdbgError) -> None:
        with self._lock:
            self._failure = self._failure or failure
            for waiting in self._waiting.values():
                waiting.put({})

    def _read_complaints(self) -> None:
        assert self._process.stderr is not None
        while data := self._process.stderr.read1(4096):  # type: ignore[attr-defined]
            self._complaints += data
            del self._complaints[:-8192]

    def _last_words(self) -> list[str]:
        try:
            self._process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            pass
        lines = self._complaints.decode(errors="replace").splitlines()
        return [line.strip() for line in lines if line.strip()][-1:]
