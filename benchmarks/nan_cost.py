"""What armed hooks (`rankdbg nan --arm`) cost a training step of a small transformer. The peer is
torch.autograd.detect_anomaly() around the same step, with which users look for nan today.

On a GPU also with `exact`, which waits for the GPU at each output.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from _measuring import begin, table, take_turns

from rankdbg.agent.nonfinite import arming

ROUNDS = 9
# Layers, width, tokens in a batch.
SIZES = {"cpu": (4, 256, 256), "cuda": (24, 1024, 8192)}


class Step:
    """Of a decoder with a causal mask, as it is trained."""

    def __init__(self, device: str) -> None:
        layers, width, tokens = SIZES[device]
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(
            width, width // 64, 4 * width, batch_first=True, norm_first=True, device=device
        )
        self.model = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.batch = torch.randn(tokens // 128, 128, width, device=device)
        self.mask = torch.nn.Transformer.generate_square_subsequent_mask(128, device=device)
        self.device = device

    def __call__(self) -> None:
        self.optimizer.zero_grad()
        with torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda"):
            self.model(self.batch, mask=self.mask).square().mean().backward()
        self.optimizer.step()
        if self.device == "cuda":
            torch.cuda.synchronize()


def armed(step: Callable[[], Any], exact: bool = False) -> Callable[[], None]:
    def run() -> None:
        arming.arm(exact)
        step()
        assert arming.state()["found"] is None
        arming.disarm()

    return run


def with_anomaly_detection(step: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        with torch.autograd.detect_anomaly(check_nan=True):
            step()

    return run


def measure(device: str) -> None:
    step = Step(device)
    works: dict[str, Callable[[], Any]] = {
        "bare": step,
        "armed": armed(step),
        "detect_anomaly": with_anomaly_detection(step),
    }
    if device == "cuda":
        works["armed, exact"] = armed(step, exact=True)
    # Of a CPU the processor time: what a busy machine changes least.
    clock = time.process_time if device == "cpu" else time.perf_counter
    taken = dict(zip(works, take_turns(ROUNDS, *works.values(), clock=clock), strict=True))
    rows = [[f"a step on {device}, {SIZES[device][0]} layers", "best", "median", "more (best)"]]
    bare = min(taken["bare"])
    for name, seconds in taken.items():
        best, median = min(seconds), statistics.median(seconds)
        more = f"{best / bare - 1:+.1%}" if name != "bare" else ""
        rows.append([name, f"{best * 1e3:.1f} ms", f"{median * 1e3:.1f} ms", more])
    table(rows)


def main() -> None:
    begin(f"hooks for nan, {ROUNDS} rounds in turns")
    torch.set_num_threads(1)
    measure("cpu")
    if torch.cuda.is_available():
        measure("cuda")


if __name__ == "__main__":
    main()
