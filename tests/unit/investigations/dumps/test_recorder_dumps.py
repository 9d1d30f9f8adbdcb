"""Dumps of the flight recorder in files: found, read without running anything, or named."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from jobs import rankdbg
from rankdbg.errors import BadInput
from rankdbg.investigations.dumps.recorder_dumps import read_dumps


def document(*numbers: int, finished: bool = False) -> dict[str, Any]:
    entries = [
        {
            "process_group": ["0", "default_pg"],
            "profiling_name": "nccl:all_reduce",
            "collective_seq_id": number,
            "state": "completed" if finished else "scheduled",
            "time_created_ns": number,
            "record_id": number,
            "frames": [{"name": "step", "filename": "/home/me/train.py", "line": 88}],
        }
        for number in numbers
    ]
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"}}
    return {"version": "2.10", "entries": entries, "pg_config": config, "pg_status": {}}


class Harmful:
    def __reduce__(self) -> Any:
        return (open, ("harmed", "w"))


def skipped(tmp_path: Path, name: str, data: bytes) -> str:
    """Why a file is skipped, beside a good one."""
    (tmp_path / "trace_rank_0.json").write_text(json.dumps(document(1)))
    (tmp_path / name).write_bytes(data)
    dumps = read_dumps([str(tmp_path)])
    assert [trace.rank for trace in dumps.traces] == [0]
    ((file, reason),) = dumps.skipped
    assert file == str(tmp_path / name)
    return reason


@pytest.mark.parametrize(
    "name",
    ["nccl_trace_rank_3", "_dump_3", "trace-rank3.json", "job7_rank_3.pkl", "3", "fr.rank_3.v2"],
)
def test_the_rank_is_in_the_name(tmp_path: Path, name: str) -> None:
    """In the forms that torch, its users and others give to files, pickle or JSON."""
    (tmp_path / name).write_bytes(pickle.dumps(document(1), protocol=2))
    assert [trace.rank for trace in read_dumps([str(tmp_path / name)]).traces] == [3]
    (tmp_path / name).write_text(json.dumps(document(1)))
    assert [trace.rank for trace in read_dumps([str(tmp_path)]).traces] == [3]


def test_a_rank_in_the_dump_itself_comes_first(tmp_path: Path) -> None:
    """A name may be anything then."""
    (tmp_path / "dump.json").write_text(json.dumps({**document(1), "rank": 5}))
    assert [trace.rank for trace in read_dumps([str(tmp_path)]).traces] == [5]


def test_a_pickle_that_would_run_something_is_refused(tmp_path: Path) -> None:
    """It is named with what it would load, and nothing of it runs."""
    reason = skipped(tmp_path, "trace_rank_1", pickle.dumps({"entries": Harmful()}))
    assert reason.startswith("refused: it is a pickle that would load")
    assert "open" in reason
    assert not Path("harmed").exists()


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_damaged_pickle_is_skipped(tmp_path: Path, protocol: int) -> None:
    """Cut short, in any protocol."""
    data = pickle.dumps(document(*range(50)), protocol=protocol)
    assert "damaged" in skipped(tmp_path, "trace_rank_1", data[: len(data) // 2])


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("trace_rank_1", b"", "it is empty"),
        ("trace_rank_1.json", b'{"entries": [', "damaged"),
        ("trace_rank_1.json", b'{"some": "thing"}', "no dump"),
        ("trace_rank_1.json", b"[" * 100_000, "damaged"),
        ("trace_rank_1", pickle.dumps([1, 2]), "no dump"),
        ("notes.txt", b"step 3 of 7\n", "neither a pickle nor JSON"),
        ("trace.json", json.dumps(document(1)).encode(), "its name does not end with a rank"),
    ],
)
def test_what_is_no_dump_is_named_and_skipped(
    tmp_path: Path, name: str, data: bytes, reason: str
) -> None:
    """Empty, damaged, or something else."""
    assert reason in skipped(tmp_path, name, data)


def test_the_same_dump_twice_is_one(tmp_path: Path) -> None:
    """Pickle beside JSON, and an older one beside a newer: finished stays finished."""
    (tmp_path / "trace_rank_0").write_bytes(pickle.dumps(document(1, 2)))
    (tmp_path / "trace_rank_0.json").write_text(json.dumps(document(1, finished=True)))
    (trace,) = read_dumps([str(tmp_path)]).traces
    assert [(op.number, op.finished) for op in trace.operations] == [(1, True), (2, False)]


def test_folders(tmp_path: Path) -> None:
    """Several may be named; one that has only folders is refused with the first of them."""
    for rank in (0, 1):
        (tmp_path / f"node-{rank}").mkdir()
        (tmp_path / f"node-{rank}" / f"trace_rank_{rank}").write_bytes(pickle.dumps(document(1)))
    both = read_dumps([str(tmp_path / "node-0"), str(tmp_path / "node-1")])
    assert [trace.rank for trace in both.traces] == [0, 1]
    with pytest.raises(BadInput, match="node-0"):
        read_dumps([str(tmp_path)])


# --- the command line ---------------------------------------------------------------------


def write_job(tmp_path: Path) -> None:
    """Rank 1 has not entered #2, in which 0 and 2 wait."""
    for rank, numbers in enumerate([(1, 2), (1,), (1, 2)]):
        done, *pending = numbers
        content = document(*pending)
        content["entries"] = document(done, finished=True)["entries"] + content["entries"]
        (tmp_path / f"trace_rank_{rank}").write_bytes(pickle.dumps(content))


def test_the_sentence_comes_first(tmp_path: Path) -> None:
    """Who is culprit and why, then the groups, with the line that issued it, in 80 columns."""
    write_job(tmp_path)
    (tmp_path / "junk").write_text("junk")
    result = rankdbg("collectives", "--dumps", tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == "Rank 1 holds the others up."
    assert lines[1].startswith("Rank 1 has not entered all_reduce #2 of group 0 (default_pg)")
    assert any(line.startswith("  0,2  in all_reduce #2  train.py:88") for line in lines)
    assert any(line.startswith("  1  ") and line.endswith("<- missing") for line in lines)
    assert any(line.startswith("skipped: ") and "junk" in line for line in lines)
    assert all(len(line) <= 80 for line in lines if not line.startswith("skipped"))


def test_json(tmp_path: Path) -> None:
    """culprit as text, groups with what each rank has entered and finished, mismatches."""
    write_job(tmp_path)
    result = rankdbg("collectives", "--json", "--dumps", tmp_path)
    found = json.loads(result.stdout)
    assert found["schema"] == "rankdbg.collectives/1"
    assert (found["culprit"], found["state"], found["waiting"]) == ("1", "held up", "0,2")
    (group,) = found["groups"]
    assert (group["group"], group["members"], group["missing"]) == ("0", "0-2", "1")
    waiting, missing = group["ranks"]
    assert (waiting["ranks"], waiting["waiting"]) == ("0,2", True)
    assert waiting["entered"]["number"] == 2
    assert waiting["entered"]["where"]["line"] == 88
    assert (missing["finished"]["number"], missing["mark"]) == (1, "missing")
    assert found["mismatches"] == []


def test_a_healthy_job(tmp_path: Path) -> None:
    """Nobody waits, and that is no failure."""
    for rank in range(3):
        (tmp_path / f"trace_rank_{rank}").write_bytes(pickle.dumps(document(1, finished=True)))
    result = rankdbg("collectives", "--dumps", tmp_path)
    assert result.returncode == 0
    assert result.stdout.startswith("No rank waits: all that was entered has been finished.")


def test_dumps_without_entries(tmp_path: Path) -> None:
    """Nothing is known: exit status 1."""
    (tmp_path / "trace_rank_0").write_bytes(pickle.dumps(document()))
    result = rankdbg("collectives", "--dumps", tmp_path)
    assert result.returncode == 1
    assert result.stdout.startswith("Nothing is known")
    assert "TORCH_FR_BUFFER_SIZE" in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--dumps", "nowhere"), "no file or directory nowhere"),
        (("--dumps", "."), "no files in ."),
        (("--dumps", "a", "-t", "local"), "does not take -t"),
        (("7", "--dumps", "full"), "7"),
        (("--dumps", "bad"), "none of these files is a flight recorder dump"),
    ],
)
def test_bad_input(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    """One sentence, exit status 2, no traceback."""
    for name in ("full", "bad"):
        (tmp_path / "files" / name).mkdir(parents=True)
    write_job(tmp_path / "files" / "full")
    (tmp_path / "files" / "bad" / "notes").write_text("notes")
    (tmp_path / "empty").mkdir()
    place = tmp_path / ("empty" if words[-1] == "." else "files")
    result = rankdbg("collectives", *words, cwd=place)
    assert (result.returncode, result.stdout) == (2, "")
    assert said in result.stderr
    assert "Traceback" not in result.stderr
