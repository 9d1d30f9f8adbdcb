"""A process that scans log files for the node process beside it: rules once, then file by file.

    -> {"patterns": [...], "clock": "..."}
    -> {"path": "/…/train.log", "last": null, "seconds": 20.0}
    <- [what was read]

It ends with its stdin.
"""

from __future__ import annotations

import json
import os
import sys
import time

from rankdbg.logs.growing import Position
from rankdbg.node.log_scan import compile_rules, scan_one


def main() -> None:
    os.nice(19)  # the cores are the job's
    scanner = compile_rules(json.loads(sys.stdin.buffer.readline()))
    for line in sys.stdin.buffer:
        job = json.loads(line)
        until = time.monotonic() + job["seconds"]
        made = scan_one(scanner, job["path"], Position.from_json(job["last"]), until)
        sys.stdout.buffer.write(json.dumps(made).encode() + b"\n")
        sys.stdout.buffer.flush()
