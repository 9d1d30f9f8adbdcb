"""Reading logs: the last messages of many files by time, and what comes to them later."""

from __future__ import annotations

import gzip
import os
import time
import tracemalloc
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rankdbg.errors import BadInput
from rankdbg.investigations.logs.copies import Copies
from rankdbg.investigations.logs.moments import parse_moment
from rankdbg.logs import backwards
from rankdbg.logs.entries import Entry, LogQuery, RankProcess, Reading, parse_grep
from rankdbg.logs.following import read_new
from rankdbg.logs.places import LogFile
from rankdbg.logs.positions import Position
from rankdbg.logs.reading import read

BEGIN = datetime(2026, 11, 15, 10)


def line(seconds: float, text: str) -> str:
    return f"{BEGIN + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S.%f} {text}\n"


def at(seconds: float) -> float:
    return (BEGIN + timedelta(seconds=seconds)).timestamp()


def written(folder: Path, **files: str) -> list[LogFile]:
    for name, text in files.items():
        (folder / name).write_text(text)
        os.utime(folder / name, (at(86400), at(86400)))
    return [LogFile("", str(folder / name)) for name in files]


def read_all(files: list[LogFile], **wanted: Any) -> Reading:
    return read(LogQuery(files, **wanted), time.monotonic() + 30)


def texts(reading: Reading) -> list[str]:
    return [entry.text for entry in reading.entries]


def test_merged_by_time(tmp_path: Path) -> None:
    """Messages of several files come in the order of their clocks, the oldest first."""
    files = written(
        tmp_path,
        rank_0="".join(line(step, f"a{step}") for step in range(0, 6, 2)),
        rank_1="".join(line(step, f"b{step}") for step in range(1, 6, 2)),
    )
    reading = read_all(files)
    assert texts(reading) == ["a0", "b1", "a2", "b3", "a4", "b5"]
    assert [entry.rank for entry in reading.entries] == [0, 1, 0, 1, 0, 1]
    assert not reading.older


def test_last_messages(tmp_path: Path) -> None:
    """Of more than are wanted, the last ones of all files; and that there are older ones."""
    files = written(
        tmp_path,
        rank_0="".join(line(step, f"a{step}") for step in range(100)),
        rank_1=line(97.5, "b"),
    )
    reading = read_all(files, limit=3)
    assert texts(reading) == ["b", "a98", "a99"]
    assert reading.older


def test_since_until_and_grep(tmp_path: Path) -> None:
    """Only what was written in that time, and matches."""
    files = written(tmp_path, rank_0="".join(line(step, f"step {step}") for step in range(1000)))
    assert texts(read_all(files, since=at(997))) == ["step 997", "step 998", "step 999"]
    assert texts(read_all(files, until=at(1))) == ["step 0", "step 1"]
    assert texts(read_all(files, since=at(10), until=at(11))) == ["step 10", "step 11"]
    assert texts(read_all(files, grep="step 99.$")) == [f"step {n}" for n in range(990, 1000)]
    assert texts(read_all(files, grep="10:00:07")) == ["step 7"]


def test_traceback_matches_as_a_whole(tmp_path: Path) -> None:
    """One line of a message that matches brings all of it."""
    trace = "Traceback (most recent call last):\n  File 'x'\nKeyError: 'lr'\n"
    files = written(tmp_path, rank_0=line(0, "a") + trace + line(1, "b"))
    assert texts(read_all(files, grep="KeyError")) == [trace.rstrip()]


def test_lines_without_a_clock(tmp_path: Path) -> None:
    """They stand behind the line that they follow, also at the end of a file."""
    files = written(
        tmp_path, rank_0=line(0, "a") + "after a\n" + line(9, "c") + "last\n", rank_1=line(5, "b")
    )
    reading = read_all(files)
    assert texts(reading) == ["a", "after a", "b", "c", "last"]
    assert reading.entries[1].time == at(0)


def test_clock_of_another_rank(tmp_path: Path) -> None:
    """It says where a line belongs, not when it was written."""
    text = line(0, "[rank0]: saving") + "[rank1]: waiting\n[rank0]: saved\nall saved\n"
    (file,) = written(tmp_path, all=text)
    found = [(entry.order, entry.time, entry.text) for entry in read_all([file]).entries]
    assert found == [
        (at(0), at(0), "saving"),
        (at(0), None, "waiting"),
        (at(0), at(0), "saved"),
        (at(0), None, "all saved"),
    ]


def test_file_without_any_clock(tmp_path: Path) -> None:
    """It keeps its order, has no times, and stands where it was last written."""
    files = written(tmp_path, rank_0="x\ny\n", rank_1=line(5, "b"))
    os.utime(files[0].path, (at(1), at(1)))
    reading = read_all(files)
    assert texts(reading) == ["x", "y", "b"]
    assert reading.entries[0].time is None
    assert reading.clockless == {0}


def test_time_of_day_over_midnight(tmp_path: Path) -> None:
    """A clock that falls back is of the day before."""
    files = written(tmp_path, rank_0="23:59:59 a\n00:00:01 b\n")
    os.utime(files[0].path, (at(60), at(60)))
    first, second = read_all(files).entries
    assert second.order - first.order == 2.0


def test_pieces_are_whole_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However small the pieces in which a file is read, the messages are the same."""
    trace = "Traceback (most recent call last):\n  File 'x'\n    y\nKeyError: 1\n"
    files = written(tmp_path, rank_0="".join(line(n, f"step {n}") + trace for n in range(200)))
    whole = texts(read_all(files))
    monkeypatch.setattr(backwards, "PIECE", 700)
    monkeypatch.setattr(backwards, "SMALLEST_PIECE", 700)
    assert texts(read_all(files)) == whole
    assert len(whole) == 400


def test_only_the_end_of_a_large_file_is_read(tmp_path: Path) -> None:
    """A file of 20 GB, of which ten messages are wanted: at once, in little memory."""
    path = tmp_path / "rank_0.log"
    with path.open("wb") as file:
        file.truncate(20 << 30)
        file.seek(20 << 30)
        file.write(("\n" + "".join(line(n, f"step {n}") for n in range(20))).encode())
    tracemalloc.start()
    begun = time.process_time()
    reading = read_all([LogFile("", str(path))], limit=10)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert texts(reading) == [f"step {n}" for n in range(10, 20)]
    assert most < 32 << 20
    assert time.process_time() - begun < 10


def test_place_by_clock(tmp_path: Path) -> None:
    """What was written after a moment is found without reading what lies before."""
    path = tmp_path / "rank_0.log"
    path.write_text("".join(line(n, "x" * 100) for n in range(20_000)))
    place = backwards.place_after(str(path), at(10_000), at(86400))
    half = path.stat().st_size // 2
    assert half <= place < half + (1 << 18)


def test_compressed(tmp_path: Path) -> None:
    """Of a compressed file too, the last messages that are wanted."""
    path = tmp_path / "rank_2.log.gz"
    path.write_bytes(gzip.compress("".join(line(n, f"step {n}") for n in range(5000)).encode()))
    files = [LogFile("", str(path))]
    assert texts(read_all(files, limit=2)) == ["step 4998", "step 4999"]
    assert texts(read_all(files, grep="step 7$")) == ["step 7"]


def test_unreadable_and_binary_files(tmp_path: Path) -> None:
    """One is said, the other is survived; what can be read is."""
    (tmp_path / "rank_0").write_bytes(bytes(range(256)) * 100)
    files = [LogFile("", str(tmp_path / "rank_0")), LogFile("", str(tmp_path / "gone"))]
    reading = read_all([*files, *written(tmp_path, rank_3=line(0, "a"))], grep="^a$")
    assert texts(reading) == ["a"]
    assert reading.errors == {1: "No such file or directory"}


def test_ranks_in_one_file(tmp_path: Path) -> None:
    """Lines that say their rank are that rank's; others are the file's, and of no rank."""
    text = line(0, "[rank0] a") + line(1, "[rank1] b") + line(2, "c")
    files = written(tmp_path, shared=text)
    assert [(e.rank, e.name) for e in read_all(files).entries] == [
        (0, ""),
        (1, ""),
        (None, "shared"),
    ]
    reading = read_all(files, ranks=frozenset({1}))
    assert texts(reading) == ["b"]
    assert reading.speakers == {(0, ""), (1, ""), (None, "shared")}


def test_kinds(tmp_path: Path) -> None:
    """For each rank its first message of each kind, and how often it came."""
    steps = "".join(line(n, f"step {n}") for n in range(50))
    files = written(tmp_path, rank_0=steps, rank_1=steps + line(60, "odd"))
    reading = read_all(files, kinds=True)
    found = [(e.rank, e.text, n) for e, n in zip(reading.entries, reading.counts, strict=True)]
    assert found == [(0, "step 0", 50), (1, "step 0", 50), (1, "odd", 1)]


def test_travels() -> None:
    """A question and its answer are the same after a journey."""
    wanted = LogQuery([LogFile("n", "/x", ranks=(3,))], 1.0, None, "x", 5, frozenset({3}))
    there = LogQuery.from_json(wanted.as_json())
    assert there.as_json() == wanted.as_json()
    entry = Entry(1.0, None, 0, 3, 7, "r", "text")
    reading = Reading(
        [entry], [], True, False, {(3, "r")}, {0: "no"}, {0}, {0: Position(1, 2, stamp="s")}
    )
    assert Reading.from_json(reading.as_json()) == reading


def test_deadline(tmp_path: Path) -> None:
    """When time is up, that is said, and nothing false is."""
    files = written(tmp_path, rank_0=line(0, "a"))
    reading = read(LogQuery(files), time.monotonic() - 1)
    assert (reading.entries, reading.late) == ([], True)


# --- following ----------------------------------------------------------------------------


class Followed:
    """A file that grows, and a reader that goes on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.wanted = LogQuery([LogFile("", str(path))], follow=True)
        self.positions: dict[int, Position] = {}

    def write(self, text: str, mode: str = "a") -> None:
        with self.path.open(mode) as file:
            file.write(text)
        self.settle()

    def settle(self) -> None:
        """As if nothing had come for a while."""
        long_ago = time.time() - 100
        os.utime(self.path, (long_ago, long_ago))

    def new(self) -> list[str]:
        reading = read_new(self.wanted, self.positions)
        self.positions |= reading.positions
        return texts(reading)


@pytest.fixture
def followed(tmp_path: Path) -> Followed:
    followed = Followed(tmp_path / "rank_0.log")
    followed.write("one\n")
    followed.positions = read(followed.wanted, time.monotonic() + 30).positions
    return followed


def test_what_is_new(followed: Followed) -> None:
    """Whole lines, each once; half a line when it is whole."""
    followed.write("two\nthr")
    assert followed.new() == ["two"]
    followed.write("ee\n")
    assert followed.new() == ["three"]
    assert followed.new() == []


def test_message_that_goes_on(followed: Followed) -> None:
    """A traceback that is being written is not shown in halves."""
    with followed.path.open("a") as file:
        file.write("two\nTraceback (most recent call last):\n")
    assert followed.new() == ["two"]
    followed.write("  File 'x'\nKeyError: 1\n")
    assert followed.new() == ["Traceback (most recent call last):\n  File 'x'\nKeyError: 1"]


def test_rotated(followed: Followed) -> None:
    """First the rest of the old file, then the new one from its beginning."""
    followed.write("two\n")
    followed.path.rename(followed.path.with_suffix(".log.1"))
    followed.write("three\n")
    assert followed.new() == ["two", "three"]
    assert followed.new() == []


def test_truncated(followed: Followed) -> None:
    """A file that is shorter than it was has begun anew."""
    followed.write("", mode="w")
    assert followed.new() == []
    followed.write("anew\n")
    assert followed.new() == ["anew"]


def test_renamed(followed: Followed) -> None:
    """What was written before a file got another name is read under that name."""
    followed.write("two\n")
    followed.path.rename(followed.path.with_suffix(".log.1"))
    assert followed.new() == ["two"]


def test_compressed_after_rotation(followed: Followed, tmp_path: Path) -> None:
    """What was compressed was read before: its bytes are not messages."""
    packed = tmp_path / "rank_0.log.1.gz"
    packed.write_bytes(gzip.compress(b"one\n"))
    files = [*followed.wanted.files, LogFile("", str(packed))]
    followed.wanted = replace(followed.wanted, files=files)
    followed.write("two\n")
    assert followed.new() == ["two"]


def test_gone_and_back(followed: Followed) -> None:
    """A file that is gone for a while is said to be, and read on when it is there again."""
    elsewhere = followed.path.rename(followed.path.with_name("elsewhere"))
    assert read_new(followed.wanted, followed.positions).errors == {0: "No such file or directory"}
    assert followed.new() == []
    elsewhere.rename(followed.path)
    followed.write("two\n")
    assert followed.new() == ["two"]


# --- what is made of it -------------------------------------------------------------------


def test_copies_of_rays_driver() -> None:
    """What stands in a worker's own file is shown once; what Ray left out shows again there. What
    stands nowhere else is kept, with its count."""
    workers = [f"/tmp/ray/session_1/logs/worker-aa-01-{pid}.out" for pid in (11, 12)]
    files = [LogFile("", path) for path in ("driver.log", *workers)]
    own = [Entry(1.0, None, n, n - 1, 10 + n, "Trainer", "loading") for n in (1, 2)]
    copy = Entry(2.0, None, 0, 0, 11, "Trainer", "loading", 1, "ray")
    lost = Entry(2.0, None, 0, None, 13, "Trainer", "loading", 4, "ray")
    copies = Copies(files)
    assert copies.without([*own, copy]) == own
    assert copies.hidden == 0
    (kept,) = copies.without([lost])
    assert kept.text == "loading  [repeated 4x across cluster]"
    assert copies.hidden == 4


def test_pids_tell_ranks(tmp_path: Path) -> None:
    """A pid in a line is the rank's that has it; of two with that pid, the one on that node."""
    files = written(tmp_path, driver="(T pid=7, ip=a) x\n(T pid=7, ip=b) y\n(T pid=8) z\n")
    known = [RankProcess("a", 7, 0, "T"), RankProcess("b", 7, 1, "T"), RankProcess("a", 8, 2, "T")]
    assert [e.rank for e in read_all(files, known=known).entries] == [0, 1, 2]


def test_output_of_a_pod(tmp_path: Path) -> None:
    """It is the rank's that runs there; with several, only what lines say tells."""
    path = tmp_path / "train-1.main.0.log"
    path.write_text(line(0, "a"))
    pod = LogFile("train-1", "kubectl logs train-1 -c main", kind="pod", read_at=str(path))
    one, two = RankProcess("train-1", 7, 4, ""), RankProcess("train-1", 8, 5, "")
    other = RankProcess("train-0", 7, 0, "")
    assert [e.rank for e in read_all([pod], known=[one, other]).entries] == [4]
    assert [e.rank for e in read_all([pod], known=[one, two]).entries] == [None]


def test_moments() -> None:
    """Ago, a time of day, a date, or both; anything else is refused with what is possible."""
    now = at(7200)
    assert parse_moment("--since", "10m", now) == at(6600)
    assert parse_moment("--since", "1.5h", now) == at(1800)
    assert parse_moment("--since", "10:41", now) == at(41 * 60)
    assert parse_moment("--since", "2026-11-15 10:00:07", now) == at(7)
    assert parse_moment("--since", "2026-11-15", now) == at(-36000)
    for wrong in ("soon", "10", "99:99", "-5m"):
        with pytest.raises(BadInput, match="invalid time"):
            parse_moment("--since", wrong, now)


def test_wrong_expression() -> None:
    """It is refused with its place."""
    with pytest.raises(BadInput, match="unterminated character set at character 2"):
        parse_grep("a[")
