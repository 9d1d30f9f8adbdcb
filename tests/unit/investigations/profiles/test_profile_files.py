"""The files that ranks have sent, read; and what is said of those that cannot be."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from rankdbg.investigations.profiles.profile_files import read_all
from rankdbg.investigations.profiles.profiling import RecordedFiles
from rankdbg.types import ProcessKey, Rank

FOLDED = {
    "unit": "samples", "whole": 2, "rate": 100,
    "frames": [["f", "x.py", 1]], "stacks": [["MainThread", True, [0], 2]],
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"whole": 10**400},
        {"rate": 10**400},
        {"whole": None},
        {"frames": [["f", "x.py", float("inf")]]},
        {"stacks": [[[], 1, [0], 10**400]]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_rank_with_a_damaged_profile_is_named(tmp_path: Path, change: dict[str, Any]) -> None:
    """With the reason; that of the rank beside it is read."""
    recorded = RecordedFiles(1.0)
    for number, document in enumerate(({**FOLDED, **change}, FOLDED)):
        rank = Rank(ProcessKey("node-1", number, 1), "train", number)
        path = tmp_path / f"{number}.json.gz"
        path.write_bytes(gzip.compress(json.dumps(document).encode()))
        recorded.ranks.append(rank)
        recorded.files[rank.process] = {"folded": path}
    assert [profile.rank.number for profile in read_all(recorded, tmp_path, str)] == [1]
    (silence,) = recorded.no_response
    assert silence.rank.number == 0
    assert silence.reason.startswith("its profile is damaged (")
