"""What is read of a log that grows, is rotated, or is emptied."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from rankdbg.logs.growing import Addition, FileHits, scan_new
from rankdbg.logs.patterns import Pattern
from rankdbg.logs.scan import OUT_OF_TIME, Scanner

PATTERNS = [
    Pattern("error", (("ERROR", ""),)),
    Pattern("traceback", (("Traceback", ""),), after=20),
]


class Reader:
    """Reads one file again and again, as a follower does."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.memory = FileHits()
        self.scanner = Scanner(PATTERNS)
        self.last: list[Addition] = []

    def read(self) -> list[str]:
        self.last = scan_new(self.scanner, str(self.path), self.memory.position)
        # As it travels from a node.
        self.memory.add([Addition.from_json(addition.as_json()) for addition in self.last])
        return [hit.text for scan in self.memory.scans() for hit in scan.hits]


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    path = tmp_path / "train.log"
    path.write_text("a\nERROR 1\n")
    return Reader(path)


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_a_line_is_found_once(reader: Reader) -> None:
    """However often it is read, and whatever comes after it."""
    assert reader.read() == ["ERROR 1"]
    assert reader.read() == ["ERROR 1"]
    append(reader.path, "b\nERROR 2\n")
    assert reader.read() == ["ERROR 1", "ERROR 2"]
    (scan,) = reader.memory.scans()
    assert [hit.line for hit in scan.hits] == [2, 4]


@pytest.mark.parametrize("seed", range(5))
def test_numbers_of_lines(reader: Reader, seed: int) -> None:
    """Read in many parts, or at once: each line has the number that it has in the file."""
    numbers = random.Random(seed)
    for _ in range(24):
        words = ["ERROR ", "Traceback ", "y\rERROR ", *["x" * 2000] * 10, *["\n"] * 10]
        append(reader.path, "".join(numbers.choices(words, k=numbers.choice([1, 30, 300]))))
        reader.read()
    (scan,) = reader.memory.scans()
    whole = reader.path.read_bytes()
    assert len(scan.hits) > 30
    assert len(whole) > 500_000
    assert all(hit.line == 1 + whole[: hit.offset].count(b"\n") for hit in scan.hits)


def test_only_what_is_new_is_read(reader: Reader) -> None:
    """Of a large file with one more line, the end: the first lines are not met again."""
    append(reader.path, "nothing of interest\n" * 20_000)
    reader.read()
    append(reader.path, "ERROR 2\n")
    assert reader.read() == ["ERROR 1", "ERROR 2"]
    assert [hit.text for hit in reader.last[0].scan.hits] == ["ERROR 2"]
    assert reader.last[0].scan.beginning.startswith("nothing")


def test_an_unchanged_file_is_not_opened(reader: Reader) -> None:
    """Nothing new: no hits, the same position."""
    reader.read()
    position = reader.memory.position
    reader.read()
    assert (reader.last[0].scan.hits, reader.memory.position) == ((), position)


def test_a_line_that_comes_in_parts(reader: Reader) -> None:
    """It is what it is when it is whole."""
    append(reader.path, "ERR")
    reader.read()
    append(reader.path, "OR 2: half")
    reader.read()
    append(reader.path, " and half\n")
    assert reader.read() == ["ERROR 1", "ERROR 2: half and half"]


def test_a_traceback_that_comes_in_parts(reader: Reader) -> None:
    """The lines after a hit are those that have come since."""
    append(reader.path, "Traceback\n  one\n")
    reader.read()
    append(reader.path, "  two\nValueError\n")
    reader.read()
    (scan,) = reader.memory.scans()
    assert scan.hits[-1].after[:3] == ("  one", "  two", "ValueError")


def test_rotation(reader: Reader) -> None:
    """The rest of the old file is read, and the new one from its beginning."""
    reader.read()
    append(reader.path, "ERROR 2\n")
    reader.path.rename(reader.path.with_name("train.log.1"))
    reader.path.write_text("ERROR 3\n")
    assert reader.read() == ["ERROR 1", "ERROR 2", "ERROR 3"]
    append(reader.path, "ERROR 4\n")
    assert reader.read() == ["ERROR 1", "ERROR 2", "ERROR 3", "ERROR 4"]


def test_a_file_that_is_renamed(reader: Reader) -> None:
    """Its writer goes on writing into it, and nobody has made another."""
    reader.read()
    reader.path.rename(reader.path.with_name("train.log.1"))
    append(reader.path.with_name("train.log.1"), "ERROR 2\n")
    assert reader.read() == ["ERROR 1", "ERROR 2"]


def test_truncation(reader: Reader) -> None:
    """What was found before remains, and the file begins anew."""
    append(reader.path, "x\n" * 100)
    reader.read()
    reader.path.write_text("ERROR 2\n")
    assert reader.read() == ["ERROR 1", "ERROR 2"]
    assert [len(scan.hits) for scan in reader.memory.scans()] == [1, 1]


def test_a_file_that_goes_away(reader: Reader) -> None:
    """That is said; what it held is not forgotten, and it may come back."""
    reader.read()
    reader.path.unlink()
    assert reader.read() == ["ERROR 1"]
    assert "No such file" in reader.memory.scans()[-1].error
    reader.path.write_text("ERROR 2\n")
    assert reader.read() == ["ERROR 1", "ERROR 2"]
    assert reader.memory.scans()[-1].error == ""


def test_no_time(reader: Reader) -> None:
    """What was read until then counts; the rest comes with the next look."""
    append(reader.path, "nothing\n" * 3_000_000 + "ERROR 2\n")
    additions = scan_new(reader.scanner, str(reader.path), None, time.monotonic())
    assert additions[0].scan.error == OUT_OF_TIME
    reader.memory.add(additions)
    assert reader.read() == ["ERROR 1", "ERROR 2"]
