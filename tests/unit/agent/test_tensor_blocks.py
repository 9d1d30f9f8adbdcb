"""Blocks of tensors: where two differ, and by how much."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")

from rankdbg.agent.replicas import tensor_blocks  # noqa: E402, needs torch
from rankdbg.agent.replicas.tensor_blocks import (  # noqa: E402
    BLOCK,
    block_hashes,
    block_size,
    block_values,
)
from rankdbg.verdicts.replicas.magnitudes import differing_blocks, measure, read_values  # noqa: E402


@pytest.mark.parametrize("size", [1, 7, 2048, 2049, 100_003])
def test_the_block_of_a_change(size: int) -> None:
    """One value in the last place, and one in the first."""
    tensor = torch.linspace(-1, 1, size)
    assert len(b64decode(block_hashes(tensor))) == 8 * -(-size * 4 // BLOCK)
    for place in (0, size - 1):
        changed = tensor.clone()
        changed[place] += 0.5
        found = differing_blocks(block_hashes(tensor), block_hashes(changed))
        assert found == [place * 4 // BLOCK]
        values = [read_values(*block_values(each, tuple(found))) for each in (tensor, changed)]
        assert measure(*values, "float32", 1.0).max_difference == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("dtype", "letter"),
    [
        (torch.float64, "d"),
        (torch.float32, "f"),
        (torch.bfloat16, "f"),
        (torch.float16, "f"),
        (torch.int64, "q"),
        (torch.uint8, "q"),
        (torch.bool, "q"),
    ],
)
def test_values_arrive_exactly(dtype: Any, letter: str) -> None:
    tensor = (torch.arange(10) % 2).to(dtype)
    form, text = block_values(tensor, (0,))
    assert form == letter
    assert [*read_values(form, text)] == [float(n % 2) for n in range(10)]


def test_complex_values_are_pairs() -> None:
    tensor = torch.complex(torch.arange(3.0), torch.ones(3))
    assert [*read_values(*block_values(tensor, (0,)))] == [0, 1, 1, 1, 2, 1]
    assert len(b64decode(block_hashes(tensor))) == 8


def test_memory_that_is_not_in_order() -> None:
    matrix = torch.arange(5000.0).view(50, 100)
    assert block_hashes(matrix.t()) == block_hashes(matrix.t().contiguous())
    assert block_hashes(torch.arange(5001.0)[1:]) == block_hashes(torch.arange(1.0, 5001.0))


def test_nothing() -> None:
    assert block_hashes(torch.empty(0)) == ""
    assert block_values(torch.empty(0), ()) == ("q", "")


def test_what_is_sent_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large tensor has larger blocks; no more values are sent than the limit, or one block."""
    tensor = torch.zeros(100_000)
    monkeypatch.setattr(tensor_blocks, "MOST_BLOCKS", 10)
    assert block_size(tensor) == 8 * BLOCK
    assert len(b64decode(block_hashes(tensor))) == 8 * 7
    monkeypatch.setattr(tensor_blocks, "MOST_VALUES", 400)
    assert len(read_values(*block_values(tensor, (0, 1, 2)))) == 8 * BLOCK // 4
