"""The watching process of a command, started by supervisor.py, which does not depend on it.

Orders arrive on stdin as lines of JSON: first what to watch and how, then each signal before it
is forwarded to the command. It exits when its stdin ends. On a separate pipe it reports when the
signal may be forwarded, and when the job hangs and is to be terminated.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import IO, Any

from rankdbg.frontends.watch.supervisor import COLLECTED, EVERYWHERE, HUNG, NEWS, say

# A collection that is under way when the command has ended has so long to finish; the supervisor
# waits little longer than that.
LAST_SECONDS = 9.0
# What is sent to all processes of a job reaches them within so many seconds.
SAME_SECONDS = 2.0


def main() -> None:
    received: dict[int, float] = {}
    _outlive_signals(received)
    send = _to_supervisor()
    _have_stderr()
    orders = os.fdopen(0, "rb", closefd=False)
    first = json.loads(orders.readline())
    watch(first, orders, send, received)


def watch(
    first: dict[str, Any],
    orders: IO[bytes],
    send: Callable[[bytes], None],
    received: Mapping[int, float],
) -> None:
    """`received`: when this process itself last got which signal."""
    from rankdbg.frontends.watch.sessions import ReportsOfVerdicts, opener
    from rankdbg.investigations.watch.reconnecting import Reaching, in_words
    from rankdbg.investigations.watch.watch_settings import WatchSettings
    from rankdbg.investigations.watch.watcher import Watcher

    settings = WatchSettings.from_json(first["settings"])
    over = threading.Event()  # never: this process ends when its orders do
    reaching = Reaching(opener(argparse.Namespace(**first["options"])))
    again = first["again"]  # another process has watched before this one
    watcher = Watcher(
        reaching,
        settings,
        say,
        first["job"],
        ReportsOfVerdicts(),
        started=first["started"],
        joins_late=again,
    )
    if again:
        watcher.skip_what_was_due()

    def hear_orders() -> None:
        for line in orders:
            try:
                order = json.loads(line)
                threading.Thread(target=collect, args=(order,), daemon=True).start()
            except (
                Exception
            ) as error:  # no memory for a thread: the signal is forwarded without collecting
                say(f"cannot collect: {in_words(error)}")
        # The command has ended. A poll may still wait for nodes: do not wait for it.
        watcher.collecting.wait(LAST_SECONDS)
        os._exit(0)

    def collect(order: dict[str, Any]) -> None:
        begun = time.monotonic()
        sender = f" from {order['sender']}" if order["sender"] else ""

        def pass_on() -> None:
            # This process has its own session: a sender that signals it has signalled everything here.
            everywhere = received.get(signal.Signals[order["signal"]], 0.0) > begun - SAME_SECONDS
            send(b"%b %d" % (EVERYWHERE if everywhere else COLLECTED, order["collection"]))

        try:
            watcher.collect_at_once(f"{order['signal']}{sender}", order["seconds"], pass_on)
        except Exception as error:
            say(f"cannot collect: {in_words(error)}")
        finally:
            pass_on()  # a second call has no effect

    threading.Thread(target=hear_orders, daemon=True).start()
    if watcher.run(over.wait):
        say(f"the job hangs and is terminated (--abort); exit status {settings.exit_status}")
        send(HUNG)
        over.wait()


def _outlive_signals(received: dict[int, float]) -> None:
    """A scheduler signals all processes of a job; this process must survive to collect. Handlers,
    not SIG_IGN: child processes would inherit ignored signals."""
    os.setsid()

    def note(number: int, _: object) -> None:
        received[number] = time.monotonic()

    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        usual = signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)
        if usual and number not in _FAULTS:
            signal.signal(number, note)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())


_FAULTS = (
    signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP,
    signal.SIGSYS, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGCONT,
)  # fmt: skip


def _to_supervisor() -> Callable[[bytes], None]:
    os.set_inheritable(NEWS, False)

    def send(word: bytes) -> None:
        try:
            os.write(NEWS, word + b"\n")
        except OSError:
            os._exit(0)  # the supervisor is gone

    return send


def _have_stderr() -> None:
    """If it is closed, the next opened file would get its descriptor."""
    if sys.stderr is None:
        while os.open(os.devnull, os.O_RDWR) < 2:
            pass
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
