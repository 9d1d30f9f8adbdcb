"""Dumps of the flight recorder, as JSON and as a pickle of every protocol."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path
from random import Random

from fuzzing import Target, short_form, shown_by
from mutations import as_json, changed_document, damaged
from rankdbg.investigations.confined import ConfinedFailed
from rankdbg.investigations.dumps import recorder_dumps
from recorded_snapshot import DUMPS

FRAMES = [{"name": "step", "filename": "/job/train.py", "line": 12}]
NCCL = {
    "version": "2.10",
    "rank": 1,
    "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"}},
    "pg_status": {"0": {"last_enqueued_collective": 4, "last_completed_collective": 3}},
    "entries": [
        {
            **{"record_id": n, "pg_id": 0, "process_group": ["0", "default_pg"], "is_p2p": n == 3},
            **{"collective_seq_id": n, "p2p_seq_id": 1, "op_id": n, "time_created_ns": 10**18 + n},
            **{"profiling_name": "nccl:recv 0<-1" if n == 3 else "nccl:all_reduce"},
            **{"input_sizes": [[4, 2]], "output_sizes": [[4, 2]], "input_dtypes": ["Float"]},
            **{"state": "started" if n == 3 else "completed", "retired": n < 3, "frames": FRAMES},
        }
        for n in range(4)
    ],
}
VALID = [*DUMPS, NCCL]
# Opcodes that build, load or refer to something, and counts that promise more than there is.
OPCODES = (
    *(b"c", b"R", b"i", b"o", b"b", b"\x81", b"\x93", b"P", b"Q", b"\x82\x01", b"(", b"t", b"l"),
    *(b"d", b"}", b"]", b"\x8a\xff", b"\x8b\xff\xff\xff\x7f", b"2" * 40, b"\x86" * 20, b"."),
    *(b"\x8e\0\0\0\0\0\1\0\0", b"r\xff\xff\xff\x0f", b"\x94", b"h\0", b"s", b"u", b"\x80\x05"),
)


def dumps(random: Random) -> bytes:
    document = changed_document(random, VALID)
    if random.random() < 0.4:
        data = as_json(document)
        return damaged(random, data) if random.random() < 0.2 else data
    data = pickle.dumps(document, random.choice((2, 3, 4, 5)))
    return damaged(random, data, OPCODES) if random.random() < 0.5 else data


def check_reading(data: bytes) -> None:
    """What the confined child does, here: what it raises would be its end there, without a word."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "trace_rank_1")
        file.write_bytes(data)
        try:
            recorder_dumps._read_all([file])
        except (ConfinedFailed, MemoryError):
            pass


def check_verb(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "trace_rank_0.json").write_bytes(as_json(DUMPS[0]))
        Path(folder, "trace_rank_1").write_bytes(data)
        shown = shown_by("collectives", "--dumps", folder)
        assert "the process that read it has failed" not in shown
        shown_by("collectives", "--dumps", folder, "--json")


TARGETS = [
    Target("dumps", dumps, check_reading, 300),
    Target("collectives", dumps, check_verb, 20),
]
test_dumps, test_collectives = map(short_form, TARGETS)
