"""Kernel messages of this node: OOM kills, errors of GPUs, disks and links.

Read from /dev/kmsg, or from the journal if users may not read that. Lines are prefixed with the
wall clock of the node, so that they can be sorted together with log files.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from datetime import datetime

from rankdbg.logs.literals import Literals
from rankdbg.logs.patterns import Hit, Pattern, PatternSet

_RECORD = 8192  # the kernel's own limit
_JOURNAL_SECONDS = 3.0
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")


class KernelLogUnreadable(Exception):
    """Why it cannot be read."""


def find(patterns: Sequence[Pattern], since: float) -> list[Hit]:
    """The messages after a time (Unix time) that match patterns."""
    known = PatternSet(patterns)
    literals = Literals(known.literals())
    hits: list[Hit] = []
    number = 0  # of matching lines: pages of registers and tables are between them
    for line in _lines(since):
        raw = line.encode()
        having = dict.fromkeys(literal for literal, _ in literals.find(raw, 0, len(raw)))
        knowing = [p for p in known.known(having) if known.matches(p, having, line)]
        number += bool(knowing)
        hits += [Hit(p.name, number, number, line, line, line[:19]) for p in knowing]
    return hits


def _lines(since: float) -> Iterator[str]:
    try:
        messages = list(_kmsg())
    except OSError as error:
        messages = list(_journal(since, error))
    for moment, text in messages:
        if moment >= since:
            yield f"{datetime.fromtimestamp(moment):%Y-%m-%d %H:%M:%S} kernel: {text}"


def _kmsg(path: str = "/dev/kmsg") -> Iterator[tuple[float, str]]:
    """Each read is a record: `priority,number,microseconds,flags;text`, then lines of details."""
    booted = time.time() - time.clock_gettime(time.CLOCK_MONOTONIC)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        while True:
            try:
                record = os.read(descriptor, _RECORD).decode(errors="replace")
            except BlockingIOError:
                return
            except BrokenPipeError:  # overwritten while reading: continue with the next one
                continue
            if not record:
                return
            head, _, text = record.partition(";")
            fields = head.split(",")
            if len(fields) > 2 and fields[2].isdigit():
                yield booted + int(fields[2]) / 1e6, _unescaped(text.partition("\n")[0])
    finally:
        os.close(descriptor)


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


def _journal(since: float, why: OSError) -> Iterator[tuple[float, str]]:
    words = ["journalctl", "--dmesg", "--no-pager", "--quiet", "--output=short-unix"]
    try:
        done = subprocess.run(
            [*words, f"--since=@{int(since)}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_JOURNAL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        raise KernelLogUnreadable(
            f"/dev/kmsg: {why.strerror}, and the journal does not respond"
        ) from None
    if not done.stdout:
        raise KernelLogUnreadable(f"/dev/kmsg: {why.strerror}, and the journal shows nothing")
    for line in done.stdout.decode(errors="replace").splitlines():
        moment, _, rest = line.partition(" ")
        text = rest.partition(" kernel: ")[2]
        if text and moment.replace(".", "", 1).isdigit():
            yield float(moment), text
