"""The nodes of a cluster: a channel to each, reconnected where that is wanted; and one message to
many of them, in parallel."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rankdbg import wire
from rankdbg.clusters import NO_OPTIONS, Channel, Cluster, Options, Waiting
from rankdbg.clusters.finding import find_cluster
from rankdbg.errors import BadInput, DamagedSnapshot, RankdbgError, SnapshotError
from rankdbg.session.patience import find_patience
from rankdbg.session.warm_rosters import is_unchanged
from rankdbg.wire.streams import Stream

if TYPE_CHECKING:
    from typing_extensions import Self

# For an answer: the default of --timeout.
TIMEOUT_SECONDS = 5.0
# Time for a node to write and send the answer, in addition to its time limit; and to end.
GRACE_SECONDS = 1.0
# Between two attempts to reconnect to a node.
SHORTEST_PAUSE, LONGEST_PAUSE = 0.5, 30.0


class Connections:
    def __init__(
        self,
        target: str | Sequence[str] = "local",
        timeout: float | None = None,
        options: Options = NO_OPTIONS,
    ) -> None:
        """`timeout`: for an answer, in seconds; None: the usual one."""
        if timeout is not None and not 0 < timeout < float("inf"):
            raise BadInput(f"invalid timeout {timeout:g}: expected a number of seconds above 0")
        targets = [target] if isinstance(target, str) else target
        self._options = replace(options, patience=find_patience(options.patience))
        self.cluster: Cluster = find_cluster(targets, self._options)
        self.timeout = self._options.tolerance(TIMEOUT_SECONDS) if timeout is None else timeout
        self._grace = self._options.tolerance(GRACE_SECONDS)
        self.progress: Callable[[int, int], None] = lambda done, nodes: None
        self.reopens = False  # reconnect broken channels: for long sessions such as a shell
        self._retry_at: dict[str, tuple[float, float]] = {}  # node -> not before, next pause
        self._reached_again: set[str] = set()  # lost nodes that have not responded since
        self._channels: dict[str, Channel | RankdbgError] = {}
        self._opening = threading.Lock()  # a front end may have several threads
        self._lost: dict[str, str] = {}  # nodes lost since the last roster, and why
        self._asked: dict[str, list[tuple[wire.Message, Any]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        channels = [c for c in self._channels.values() if not isinstance(c, RankdbgError)]
        for channel in channels:
            channel.hang_up()
        deadline = time.monotonic() + GRACE_SECONDS
        for channel in channels:
            channel.close(deadline)
        self.cluster.close()

    def apart(self, timeout: float) -> Self:
        """A session with the same channels and another timeout, whose questions are saved
        separately. Close only this session."""
        other = copy.copy(self)
        other.timeout = timeout
        other._asked = {}
        return other

    def forget(self) -> None:
        """Drop the questions so far: a long watch would collect too many."""
        self._asked.clear()

    def command_prefix(self, node: str) -> str:
        """What a user types before a command to run it on this node."""
        return self.cluster.command_prefix(node)

    def open_stream(self, node: str, where: wire.Message, seconds: float) -> tuple[Stream, Any]:
        """Bytes to and from the debugger of a rank (`process`) or a port of the node (`port`)."""
        waiting = self._channel(node).begin({"ask": "stream", **self._limits(seconds), **where})
        return waiting.open_stream(seconds + self._grace)

    def _limits(self, seconds: float) -> dict[str, float]:
        """What each question tells about time: its limit, and how slow the others may be."""
        patience = self._options.patience
        return {"timeout": seconds, **({"patience": patience} if patience > 1 else {})}

    def _send_all(
        self, messages: dict[str, wire.Message], extra: float = 0.0
    ) -> Iterable[tuple[str, Any]]:
        """Send each node its message, in parallel; an error instead of an answer."""
        seconds = self.timeout + extra
        latest = seconds + self._grace

        begun: dict[str, Waiting | RankdbgError] = {}
        for node, message in messages.items():
            try:
                begun[node] = self._channel(node).begin({**message, **self._limits(seconds)})
            except DamagedSnapshot:
                raise
            except RankdbgError as error:
                begun[node] = error
        reached_again = self._reached_again & messages.keys()
        # Do not wait longer for lost nodes than for the others, if there are others.
        reach = latest if len(reached_again) < len(messages) else None
        for done, (node, waiting) in enumerate(begun.items()):
            self.progress(done, len(begun))
            try:
                if isinstance(waiting, RankdbgError):
                    raise waiting
                answer = waiting.answer(latest, reach if node in reached_again else None)
            except RankdbgError as error:
                answer = error
                if not isinstance(error, SnapshotError):  # which lacks an answer: no node is lost
                    self._lost.setdefault(node, error.what)
            if not isinstance(answer, RankdbgError):
                self._reached_again.discard(node)
                if not is_unchanged(answer):
                    self._asked.setdefault(node, []).append((messages[node], answer))
            yield node, answer
        self.progress(len(begun), len(begun))

    def _channel(self, node: str) -> Channel:
        with self._opening:
            return self._open_channel(node)

    def _open_channel(self, node: str) -> Channel:
        known = self._channels.get(node)
        broken = isinstance(known, RankdbgError) or (known is not None and not known.usable)
        if known is None or (broken and self.reopens and self._may_retry(node)):
            if known is not None and not isinstance(known, RankdbgError):
                if why := _why_broken(known):
                    self._lost.setdefault(node, why)
                known.close(time.monotonic())  # its launcher may be stuck and still running
            try:
                self._channels[node] = self.cluster.open(node)
            except RankdbgError as error:
                self._channels[node] = error
                # From now on: the failed attempt may have taken longer than the pause.
                self._pause(node)
        channel = self._channels[node]
        if isinstance(channel, RankdbgError):
            raise channel
        return channel

    def _may_retry(self, node: str) -> bool:
        """With growing pauses between attempts."""
        now = time.monotonic()
        not_before, _ = self._retry_at.get(node, (now, SHORTEST_PAUSE))
        if now < not_before:
            return False
        if now > not_before + LONGEST_PAUSE:
            del self._retry_at[node]  # it has worked for a while
        self._pause(node)
        self._reached_again.add(node)
        return True

    def _pause(self, node: str) -> None:
        now = time.monotonic()
        _, pause = self._retry_at.get(node, (now, SHORTEST_PAUSE))
        self._retry_at[node] = now + pause, min(2 * pause, LONGEST_PAUSE)

    def _why_gone(self, node: str) -> str:
        """For a node that is no longer part of the cluster."""
        channel = self._channels.get(node)
        why = "" if channel is None or isinstance(channel, RankdbgError) else _why_broken(channel)
        return why or f"{node} is no longer there"


def _why_broken(channel: Channel) -> str:
    return channel.failure.what if channel.failure is not None else ""
