"""A report, its JSON and the lines that show it, as files to send to somebody."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Protocol

from rankdbg.errors import BadInput
from rankdbg.frontends.cli import json_text
from rankdbg.frontends.terminal import Terminal


class Report(Protocol):
    def as_json(self) -> dict[str, Any]: ...

    def print(self, terminal: Terminal) -> None: ...

    def evidence(self) -> list[str]: ...


def save_report(directory: str, kind: str, report: Report) -> None:
    folder = Path(directory)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _new(folder / "report.txt") as file:
            report.print(Terminal(file))
        with _new(folder / "report.json") as file:
            file.write(json_text(kind, report.as_json()))
        with _new(folder / "evidence.txt") as file:
            file.writelines(f"{line}\n" for line in report.evidence())
    except OSError as error:
        raise BadInput(
            f"the report cannot be kept in {directory}: {error.strerror}",
            hint="--save needs a directory that can be written",
        ) from None
    sys.stderr.write(f"saved: {folder / 'report.txt'}, report.json, evidence.txt\n")


def _new(path: Path) -> Any:
    """Logs may hold what others should not read."""
    return open(path, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600))
