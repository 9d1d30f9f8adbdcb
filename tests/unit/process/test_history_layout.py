"""The file of a rank's history: what is written is read, and what is damaged is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankdbg.agent.history.ring import NO_TEXT, Ring, size_wanted
from rankdbg.process import history_layout as layout
from rankdbg.process.history_layout import BadHistory, History

SIZE = layout.LEAST


@pytest.fixture
def ring(tmp_path: Path) -> Ring:
    return Ring(str(tmp_path / "1-1.history"), SIZE)


def read(ring: Ring) -> History:
    return History(Path(ring.path).read_bytes())


def test_events_and_steps(ring: Ring) -> None:
    text = ring.text("key", "all_reduce float32[8]\t/train.py:84 train\t0\tdefault_pg\t4", "same")
    ring.step(7)
    ring.note(layout.COLLECTIVE, text, 3)
    mark = ring.text("mark", "loss\t/train.py:90 train")
    ring.note(layout.MARK, mark, 0, (layout.FLOAT, layout.float_bits(0.25)))
    ring.step(8)
    history = read(ring)
    step, call, marked, _ = history.events()
    assert (step["kind"], step["count"]) == ("step", 7)
    assert call["name"] == "all_reduce float32[8]"
    assert (call["place"], call["group"]) == ("/train.py:84 train", ["0", "default_pg", "4"])
    assert (marked["name"], marked["value"]) == ("loss", 0.25)
    before, seventh = history.digests()
    assert (before[0], seventh[0], seventh[3:]) == (-1, 7, (3, 0))


def test_hashes_are_of_what_all_ranks_do(tmp_path: Path) -> None:
    """Of calls: the operation and the group. Of all events: their lines, shapes and marks too."""
    hashes = []
    for number, (shape, marks) in enumerate([("8", 0), ("9", 0), ("8", 1)]):
        ring = Ring(str(tmp_path / str(number)), SIZE)
        ring.step(1)
        ring.note(layout.COLLECTIVE, ring.text("a", f"all_reduce [{shape}]\tx:1 f", "all_reduce"))
        for _ in range(marks):
            ring.note(layout.MARK, ring.text("m", "accepted\tx:2 f"))
        ring.step(2)
        hashes.append([*read(ring).digests()][-1][1:3])
    (calls, all_of_it), other_shape, with_mark = hashes
    assert calls == other_shape[0] == with_mark[0]
    assert len({all_of_it, other_shape[1], with_mark[1]}) == 3


def test_the_oldest_make_room(ring: Ring) -> None:
    count = 3 * SIZE // layout.EVENT.size
    for number in range(count):
        ring.note(layout.MARK, NO_TEXT, number)
    found = [event["count"] for event in read(ring).events()]
    assert found == [*range(found[0], count)]
    assert found[0] > 0
    assert read(ring).first_event == found[0]


def test_steps_reach_further_back_than_events(ring: Ring) -> None:
    for step in range(2000):
        ring.step(step)
        for _ in range(10):
            ring.note(layout.MARK, NO_TEXT)
    history = read(ring)
    first_step = next(history.digests())[0]
    first_event = next(event["count"] for event in history.events() if event["kind"] == "step")
    assert first_step < first_event


def test_texts_that_find_no_room(ring: Ring) -> None:
    """Their events stay, and so do their checksums."""
    for number in range(2000):
        ring.note(layout.MARK, ring.text(number, f"mark {number}"))
    names = [event["name"] for event in read(ring).events()]
    assert names[0] == "mark 0" or names[0] == ""
    assert "" in names
    assert ring.text("late", "late")[0] == 0 != ring.text("late", "late")[2]
    assert "late" not in ring.known


def test_values_leave_room_for_what_was_done(ring: Ring) -> None:
    for number in range(5000):
        ring.value_text(f"shard-{number}")
    assert ring.value_text("one more") == 0
    assert ring.text("call", "all_reduce")[0] > 0


def test_an_event_that_was_being_written(ring: Ring) -> None:
    """Its index, which comes last, is not there yet."""
    for number in range(5):
        ring.note(layout.MARK, NO_TEXT, number)
    content = bytearray(Path(ring.path).read_bytes())
    last = layout.parts(SIZE)[2] + 4 * layout.EVENT.size
    content[last + layout.EVENT.size - 8 : last + layout.EVENT.size] = bytes(8)
    assert [event["count"] for event in History(bytes(content)).events()] == [0, 1, 2, 3]


@pytest.mark.parametrize("content", [b"", b"x" * 5000, layout.new_header(SIZE)])
def test_other_files_are_refused(content: bytes) -> None:
    with pytest.raises(BadHistory):
        History(content)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("", layout.SIZE),
        ("1", layout.SIZE),
        ("0", 0),
        ("4M", 4 << 20),
        ("256k", 256 << 10),
        ("5", layout.LEAST),
        ("9999M", layout.LARGEST),
        ("much", layout.SIZE),
    ],
)
def test_size(text: str, size: int) -> None:
    assert size_wanted(text) == size
