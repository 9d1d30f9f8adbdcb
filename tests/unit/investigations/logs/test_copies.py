"""Lines that torchrun --tee prints, and that stand in the files of its ranks."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rankdbg.investigations.logs.copies import Copies
from rankdbg.logs.entries import LogQuery
from rankdbg.logs.places import LogFile
from rankdbg.logs.reading import read

TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1\n    run()\nOSError: full\n'


class Launched:
    """What torchrun has printed on a node, whose ranks are 4 and 5, and what they have written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: list[LogFile] = []

    def write(self, local: int, text: str, attempt: int = 0) -> None:
        path = self._folder / f"run/attempt_{attempt}/{local}/stderr.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self._files.append(LogFile("", str(path), "torchrun", ranks=(4 + local,)))

    def shown(self, printed: str) -> list[tuple[int | None, str]]:
        """What is shown of what it has printed."""
        path = self._folder / "job.log"
        path.write_text(printed)
        files = [*self._files, LogFile("", str(path), role="launcher")]
        entries = Copies(files).without(read(LogQuery(files), time.monotonic() + 30).entries)
        return [(entry.rank, entry.text) for entry in entries if entry.file == len(files) - 1]


@pytest.fixture
def launched(tmp_path: Path) -> Launched:
    return Launched(tmp_path)


def teed(local: int, text: str) -> str:
    return "".join(f"[default{local}]:{line}" for line in text.splitlines(keepends=True))


def test_lines_of_ranks(launched: Launched) -> None:
    """Each is in its rank's file; what torchrun itself says is not."""
    launched.write(0, "step 1\n")
    launched.write(1, f"2026-11-18 10:00:00 step 1\n{TRACEBACK}")
    printed = teed(0, "step 1\n") + teed(1, f"2026-11-18 10:00:00 step 1\n{TRACEBACK}")
    assert launched.shown(f"starting\n{printed}") == [(None, "starting")]


def test_long_line(launched: Launched) -> None:
    """It is cut where it is shown: in the copy a few characters earlier."""
    launched.write(0, f"{'x' * 300_000}\n")
    assert launched.shown(teed(0, f"{'x' * 300_000}\n")) == []


def test_line_in_pieces(launched: Launched) -> None:
    """What torchrun reads while it is written is printed so far, and the rest after what others say."""
    launched.write(0, "loss 1.25 at step 10\nstep 11\n")
    launched.write(1, "step 10\nstep 11\n")
    printed = "[default0]:loss 1.[default1]:step 10\n[default0]:25 at st[default1]:step 11\n"
    assert launched.shown(f"{printed}[default0]:ep 10\n[default0]:step 11\n") == []


def test_what_stands_in_no_file(launched: Launched) -> None:
    """Of an attempt whose files are gone: it is the rank's, whose number there is not that on its
    node. A line that is only like the beginning or the end of another stays."""
    launched.write(0, "step 10\n", attempt=1)
    printed = teed(0, "step 1\nep 10\n") + "[default0]:step 2[default1]:hello\n"
    assert launched.shown(printed) == [
        (4, "step 1"), (4, "ep 10"), (4, "step 2[default1]:hello")
    ]  # fmt: skip


def test_line_with_the_rank_in_it(launched: Launched) -> None:
    """torch itself says the rank's number in the job, which counts."""
    launched.write(1, "step 1\n")
    assert launched.shown("[default1]:[rank5]: step 2\n") == [(5, "step 2")]
