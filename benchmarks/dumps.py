"""Dumps of the flight recorder: rankdbg collectives --dumps, and torch's own torchfrtrace.

Needs a directory with dumps of NCCL (RANKDBG_DUMPS=DIR): torchfrtrace crashes on gloo's.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from _measuring import BIN, begin, seconds, table


def peer(folder: Path) -> tuple[float, str]:
    """How long it took, and how many findings it printed, or how it ended."""
    names = sorted(path.name for path in folder.iterdir())
    prefix = re.sub(r"\d+$", "", names[0])
    words = [str(BIN / "torchfrtrace"), "--prefix", prefix, str(folder)]
    done: list[subprocess.CompletedProcess[str]] = []
    taken = seconds(
        lambda: done.append(subprocess.run(words, capture_output=True, text=True, check=False))
    )
    text = done[0].stdout + done[0].stderr
    if done[0].returncode != 0:
        return taken, f"crashed: {text.strip().splitlines()[-1][:50]}"
    findings = len(re.findall(r"(?i)error|mismatch|missing|not all ranks", text))
    return taken, f"{findings} lines of findings"


def ours(folder: Path) -> tuple[float, str]:
    words = [str(BIN / "rankdbg"), "collectives", "--dumps", str(folder), "--json"]
    done: list[subprocess.CompletedProcess[str]] = []
    taken = seconds(
        lambda: done.append(subprocess.run(words, capture_output=True, text=True, check=True))
    )
    return taken, f"culprit: {json.loads(done[0].stdout)['culprit'] or 'nobody'}"


def main() -> None:
    begin("dumps of a flight recorder")
    place = os.environ.get("RANKDBG_DUMPS")
    folders = sorted(path for path in Path(place).iterdir() if path.is_dir()) if place else []
    if not folders:
        print("RANKDBG_DUMPS names no directory with folders of dumps: nothing to measure")
        return
    rows = [["", "rankdbg", "", "torchfrtrace", "", "ratio"]]
    for folder in folders:
        (mine, found), (theirs, said) = ours(folder), peer(folder)
        rows.append(
            [folder.name, f"{mine:.2f} s", found, f"{theirs:.2f} s", said, f"{mine / theirs:.2f}"]
        )
    table(rows)


if __name__ == "__main__":
    sys.exit(main())
