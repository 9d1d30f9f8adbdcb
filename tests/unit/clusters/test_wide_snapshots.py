"""Commands on snapshots: what they compute grows as the number of ranks, not faster."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from pathlib import Path

import pytest

from rankdbg.clusters import snapshot
from rankdbg.frontends import cli

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def calls_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str, int], int]:
    """How many functions a verb calls about so many ranks, by the snapshots of the benchmark."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from wide_snapshot import RANKS_A_NODE, asked

    def count(verb: str, world: int) -> int:
        place = tmp_path / str(world)
        if not place.exists():
            nodes = range(world // RANKS_A_NODE)
            saved = {f"node-{node}": asked(node, world, with_locals=False) for node in nodes}
            snapshot.save(place, "ssh:cluster", saved)
        with cProfile.Profile() as profile:
            cli.main([verb, "-t", f"snapshot:{place}"])
        assert capsys.readouterr().out
        total: int = pstats.Stats(profile).total_calls  # type: ignore[attr-defined]
        return total

    return count


@pytest.mark.parametrize("verb", ["ps", "stacks", "why"])
def test_work_grows_as_the_ranks(calls_of: Callable[[str, int], int], verb: str) -> None:
    """From 640 ranks to 1,280 as many calls are added as from 0 to 640, or few more; a loop over all
    pairs of ranks adds three times as many, one over all pairs of nodes shows, too."""
    calls_of(verb, 8)  # imports what is imported once
    few, some, many = (calls_of(verb, world) for world in (8, 640, 1280))
    assert many - some < 1.1 * (some - few), (few, some, many)
