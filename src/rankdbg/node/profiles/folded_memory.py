"""memray's record of a rank -> a document of folded stacks, with bytes.

Only memray can read it, and only where the rank has it: so the rank's own interpreter is run
once more, as a program of its own, so that the rank does not pay for it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from typing import Any

# The allocations that were held when the most was held. Stacks come innermost first.
_PROGRAM = """
import json, sys, memray
reader = memray.FileReader(sys.argv[1])
frames, stacks = {}, []
for record in reader.get_high_watermark_allocation_records(merge_threads=True):
    stack = record.stack_trace() or [("outside of Python", "", 0)]
    if "/rankdbg/agent/" in stack[-1][1]:
        continue
    indices = [frames.setdefault(tuple(f), len(frames)) for f in reversed(stack)]
    stacks.append(["memory", True, indices, record.size])
whole = sum(stack[3] for stack in stacks)
print(json.dumps({"unit": "bytes", "whole": whole, "frames": list(frames), "stacks": stacks}))
"""
FOLDING_SECONDS = 60.0


def fold_memray(file: int, python: Mapping[str, Any] | None) -> bytes | None:
    """None if that cannot be done: the record itself is still sent."""
    if python is None:
        return None
    words = [str(python.get("executable")), "-c", _PROGRAM, f"/dev/fd/{file}"]
    path = os.pathsep.join(str(entry) for entry in python.get("path", ()) if entry)
    environment = {**os.environ, "RANKDBG": "0", "PYTHONPATH": path}
    try:
        ran = subprocess.run(
            words,
            env=environment,
            pass_fds=[file],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=FOLDING_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ran.stdout if ran.returncode == 0 else None
