"""Where nothing may be changed, an expression looks, and does nothing else."""

from __future__ import annotations

import pytest

from rankdbg.errors import BadInput
from rankdbg.investigations.read_only import LONGEST, NotReadOnly, check_read_only


@pytest.mark.parametrize(
    "expression",
    [
        "loss",
        "self.model.layers[3].weight.shape",
        "batch['input_ids'][0, :8]",
        "len(queue) > 3 and not done",
        "(loss - last_loss) / 2 ** 0.5",
        "x.grad.abs().mean().item()",
        "x.isnan().any(dim=-1)",
        "x.norm(2)",
        "x.mean((0, 1), keepdim=True)",
        "step * 1000 + 7",
        "type(model)",
        "{'loss': loss, 'step': step}",
        "a if step % 2 else b",
        "-x[-1] // 3",
    ],
)
def test_looking_is_admitted(expression: str) -> None:
    """Names, attributes, indexing, arithmetic, len() and figures of tensors."""
    check_read_only(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "open('/etc/passwd').read()",
        "__import__('os').system('id')",
        "().__class__.__bases__[0].__subclasses__()",
        "model.eval()",
        "optimizer.step()",
        "queue.get()",
        "x.zero_()",
        "x.mean(out=weights)",
        "x.sum(0, None, weights)",  # the third is numpy's out
        "x.max(other)",
        "x.mean(**options)",
        "[x for x in numbers]",
        "sum(x for x in numbers)",
        "len([*numbers])",
        "(y := 3)",
        "lambda: 3",
        "f'{x}'",
        "9 ** 9 ** 9",
        "(x ** 16) ** 16",
        "x ** y",
        "1 << 10_000_000",
        "'a' * 10",
        "'%1000000000d' % 3",
        "[0] * 1_000_000_000",
        "x * 1000 * 1000 * 1000",
        "a @ b",
        "(f)()",
        "f(1)(2)",
        "len(x, y)",
        "breakpoint()",
        "__builtins__",
    ],
)
def test_doing_is_refused(expression: str) -> None:
    """In one sentence that names the option which would admit it."""
    with pytest.raises(NotReadOnly) as refused:
        check_read_only(expression)
    assert "figures of tensors such as .mean()" in refused.value.hint
    assert "\n" not in refused.value.what


@pytest.mark.parametrize("expression", ["1 +", "x = 3", "", "x" * (LONGEST + 1), "(" * 500])
def test_what_is_no_expression(expression: str) -> None:
    """That is said here once, and not by every rank."""
    with pytest.raises(BadInput):
        check_read_only(expression)
