"""A process that reads log files for the node process beside it. It scans: rules once, then file
by file; or it answers questions for messages that match an expression of the user's, which may
never finish (logs/expressions.py).

    -> {"patterns": [...], "clock": "...", "many": false}
    -> {"path": "/…/train.log", "last": null, "seconds": 20.0}
    <- [what was read]

    -> {"question": {"do": "read", ...}, "seconds": 20.0}
    <- {its answer}

It ends with its stdin.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from rankdbg.logs.positions import Position
from rankdbg.logs.scan import Scanner
from rankdbg.node.logs.log_reading import answer_here
from rankdbg.node.logs.log_scan import compile_rules, scan_one


def main() -> None:
    os.nice(19)  # the cores are the job's
    scanner: Scanner | None = None
    for line in sys.stdin.buffer:
        job = json.loads(line)
        if "patterns" in job:
            scanner = compile_rules(job)
            continue
        until = time.monotonic() + job["seconds"]
        made: Any
        if "question" in job:
            made = answer_here(job["question"], until)
        else:
            assert scanner is not None
            last = Position(*job["last"]) if job["last"] else None
            made = scan_one(scanner, job["path"], last, until)
        sys.stdout.buffer.write(json.dumps(made).encode() + b"\n")
        sys.stdout.buffer.flush()
