"""Saves a report, its JSON and its evidence as files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rankdbg.errors import BadInput
from rankdbg.files import private_files
from rankdbg.frontends.terminal import Terminal
from rankdbg.investigations.documents import json_text
from rankdbg.text.escapes import visible


class WithEvidence(Protocol):
    def as_json(self) -> dict[str, Any]: ...

    def evidence(self) -> list[str]: ...


R = TypeVar("R", bound=WithEvidence)


def save_report(
    directory: str, kind: str, result: R, print_result: Callable[[Terminal, R], None]
) -> None:
    folder = Path(directory)
    try:
        private_files.make_directory(folder)
        with private_files.open_file(folder / "report.txt", "w", "utf-8") as file:
            print_result(Terminal(file), result)
        with private_files.open_file(folder / "report.json", "w", "utf-8") as file:
            file.write(json_text(kind, result.as_json()))
        with private_files.open_file(folder / "evidence.txt", "w", "utf-8") as file:
            file.writelines(f"{visible(line)}\n" for line in result.evidence())
    except OSError as error:
        raise BadInput(
            f"cannot save the report in {directory}: {error.strerror}",
            hint="--save needs a writable directory",
        ) from None
    sys.stderr.write(f"saved: {folder / 'report.txt'}, report.json, evidence.txt\n")
