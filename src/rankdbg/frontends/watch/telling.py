"""Somebody is told that the job hangs: a command of the user's, or a webhook."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from rankdbg.frontends.watch.settings import Settings

SECONDS = 20.0


def tell(settings: Settings, summary: dict[str, Any], say: Callable[[str], None]) -> None:
    """Whatever goes wrong here is said, and nothing else happens: the job comes first."""
    if settings.notify:
        _run(settings.notify, summary, say)
    if settings.webhook:
        _post(settings.webhook, summary, say)


def _run(command: str, summary: dict[str, Any], say: Callable[[str], None]) -> None:
    environment = {
        **os.environ,
        "RANKDBG_GUILTY": summary["guilty"],
        "RANKDBG_CAUSE": summary["cause"],
        "RANKDBG_REPORT": os.path.join(summary["directory"], "report.txt"),
    }
    try:
        done = subprocess.run(
            command,
            shell=True,
            env=environment,
            input=json.dumps(summary),
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        say(f"the command of notify failed: {error}")
        return
    if done.returncode != 0:
        say(f"the command of notify ended with status {done.returncode}")


def _post(address: str, summary: dict[str, Any], say: Callable[[str], None]) -> None:
    text = f"{summary['says']} guilty: {summary['guilty'] or 'nobody'} ({summary['cause']})"
    body = json.dumps({"text": text, **summary}).encode()
    request = urllib.request.Request(
        address, body, {"Content-Type": "application/json"}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=SECONDS):
            pass
    except (OSError, ValueError, urllib.error.URLError) as error:
        say(f"the webhook did not take the report: {error}")
