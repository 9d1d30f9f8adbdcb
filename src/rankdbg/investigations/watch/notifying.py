"""Notifications of a hang: the --notify command and the webhook."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import Any

from rankdbg.investigations.watch.watch_settings import WatchSettings

SECONDS = 20.0


def tell(settings: WatchSettings, summary: dict[str, Any], say: Callable[[str], None]) -> None:
    """Failures are reported and otherwise ignored: they must not affect the job."""
    ways = [
        (what, threading.Thread(target=way, args=(to, summary, say), daemon=True))
        for what, way, to in (
            ("the --notify command", _run, settings.notify),
            ("the webhook", _post, settings.webhook),
        )
        if to
    ]
    deadline = time.monotonic() + SECONDS + 2.0
    for _, thread in ways:
        thread.start()
    for what, thread in ways:
        # A server that sends one byte at a time never reaches a timeout of its own.
        thread.join(max(0.0, deadline - time.monotonic()))
        if thread.is_alive():
            say(f"{what} has not finished within {SECONDS:.0f} s; no longer waiting for it")


def _run(command: str, summary: dict[str, Any], say: Callable[[str], None]) -> None:
    environment = {
        **os.environ,
        "RANKDBG_CULPRIT": summary["culprit"],
        "RANKDBG_CAUSE": summary["cause"],
        "RANKDBG_WAITING": summary["waiting"],
        "RANKDBG_NEXT": summary["next"],
        "RANKDBG_REPORT": os.path.join(summary["directory"], "report.txt"),
    }
    try:
        process = subprocess.Popen(
            command,
            shell=True,
            env=environment,
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,  # so that all of it can be ended
        )
    except OSError as error:
        say(f"the --notify command failed: {error}")
        return
    try:
        process.communicate(json.dumps(summary), timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        say(f"the --notify command failed: {error}")
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return
    if process.returncode != 0:
        say(f"the --notify command ended with status {process.returncode}")


def _post(address: str, summary: dict[str, Any], say: Callable[[str], None]) -> None:
    text = f"{summary['says']} Culprit: {summary['culprit'] or 'none'} ({summary['cause']})"
    body = json.dumps({"text": text, **summary}).encode()
    request = urllib.request.Request(
        address, body, {"Content-Type": "application/json"}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=SECONDS):
            pass
    except (OSError, ValueError, http.client.HTTPException) as error:
        say(f"the webhook did not accept the report: {error}")
