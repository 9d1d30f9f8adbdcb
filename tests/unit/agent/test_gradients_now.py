"""Gradients are read between backward passes: a pass stores them without the GIL."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")

from rankdbg.agent.replicas import gradients_now  # noqa: E402, needs torch
from waiting import PATIENCE, wait_for  # noqa: E402, needs torch


class StaysInBackward(torch.autograd.Function):  # type: ignore[misc]
    """A backward pass that ends when it is told to."""

    entered, leave = threading.Event(), threading.Event()

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        StaysInBackward.entered.set()
        assert StaysInBackward.leave.wait(PATIENCE)
        return gradient * 2


def test_a_backward_pass_is_waited_for() -> None:
    """While one goes on nothing is read; then each parameter's gradient is, in their order."""
    used, unused = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    usual = sys.getswitchinterval()
    assert gradients_now.read([used, unused]) == [None, None]
    loss = StaysInBackward.apply(used).sum()
    passing = threading.Thread(target=loss.backward)
    passing.start()
    try:
        assert StaysInBackward.entered.wait(PATIENCE)
        assert gradients_now.read([used, unused], seconds=0.05) is None
    finally:
        StaysInBackward.leave.set()
        passing.join(PATIENCE)
    wait_for(lambda: gradients_now.read([used, unused]) is not None)
    first, second = gradients_now.read([used, unused]) or []
    assert (first.tolist(), second) == ([2.0] * 3, None)
    assert sys.getswitchinterval() == usual
