"""A command in a terminal, where it may show what it does not write into a pipe."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path


def in_terminal(*words: object, cwd: Path | None = None, **environment: str) -> str:
    """What a command writes to a terminal of 80 columns."""
    main, other = pty.openpty()
    subprocess.run(
        [sys.executable, "-m", "rankdbg", *map(str, words)],
        cwd=cwd,
        stdout=other,
        stderr=other,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80", **environment},
        check=False,
    )
    os.close(other)
    data = b""
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:
            break
        if not part:
            break
        data += part
    os.close(main)
    return data.decode()
