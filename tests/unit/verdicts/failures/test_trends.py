"""What the numbers of steps tell: jumps of the loss, slow jobs and slow ranks; and what is usual."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable

import pytest

from rankdbg.verdicts.failures.step_values import StepLine
from rankdbg.verdicts.failures.trends import Trend, find_trends

LINES = {
    "torchtitan": "[titan] 2026-05-04 09:30:00,123 - root - INFO - step: {step}  loss: {loss:8.5f}  grad_norm: {norm:7.4f}  memory: 60.1GiB(75.90%)  tps: {speed:,.0f}  tflops: 300.2  mfu: 31.02%",
    "megatron": " [2026-05-04 09:30:00] iteration {step:8d}/   20000 | consumed samples: 256 | elapsed time per iteration (ms): {time:.1f} | throughput per GPU (TFLOP/s/GPU): {speed:.1f} | learning rate: 1.5E-04 | lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: {norm:.3f} | number of nan iterations:   0 |",
    "hugging face": "{{'loss': {loss:.4f}, 'grad_norm': {norm:.4f}, 'learning_rate': 1.2e-05, 'epoch': 0.3, 'step': {step}, 'step_time': {time:.2f}}}",
    "plain": "2026-05-04 09:30:00 step {step} | loss {loss:.4f} | gnorm {norm:.3f} | {speed:.0f} tok/s",
}
STEPS = range(1, 161)


def usual_loss(step: int) -> float:
    """Falls, with noise."""
    noise = random.Random(step).gauss(0, 0.12)
    return 2.2 + 9.0 * math.exp(-step / 40) + noise


def lines(
    loss: Callable[[int], float] = usual_loss,
    norm: Callable[[int], float] = lambda step: 0.6 + random.Random(step).random(),
    speed: Callable[[int], float] = lambda step: 7000 + 90 * random.Random(step).random(),
    time: Callable[[int], float] = lambda step: 4000 + 90 * random.Random(step).random(),
    form: str = "plain",
    who: int | str = 0,
) -> list[StepLine]:
    return [
        StepLine(
            who,
            step,
            LINES[form].format(
                step=step, loss=loss(step), norm=norm(step), speed=speed(step), time=time(step)
            ),
        )
        for step in STEPS
    ]


def trends(told: Iterable[StepLine]) -> list[tuple[str, tuple[int, ...], int, bool]]:
    return [(t.measure, t.ranks, t.step, t.lasts) for t in find_trends(told)]


@pytest.mark.parametrize("form", LINES)
def test_loss_that_stays_up(form: str) -> None:
    """A loss that jumps and stays there is told, with its step, in the lines of each stack."""
    told = lines(lambda step: usual_loss(step) + (4.0 if step >= 120 else 0.0), form=form)
    assert trends(told) == [("loss", (), 120, True)]


def test_loss_that_comes_back() -> None:
    """A jump that is over is told as such."""
    (found,) = find_trends(lines(lambda s: usual_loss(s) + (5.0 if 100 <= s < 104 else 0.0)))
    assert (found.step, found.lasts) == (100, False)
    assert found.sentence.endswith("it recovered later")


def test_loss_of_one_rank() -> None:
    """If only one rank's loss jumps, that rank is named."""
    told = lines(lambda step: usual_loss(step) + (4.0 if step >= 90 else 0.0), who=5)
    for rank in (0, 1, 2, 3, 4, 6, 7):
        told += lines(who=rank)
    assert trends(told) == [("loss", (5,), 90, True)]


def test_gradients_that_explode() -> None:
    """A gradient norm far outside of its history is told."""
    assert trends(lines(norm=lambda step: 80.0 if step == 77 else 0.7)) == [
        ("gradient norm", (), 77, False)
    ]


def test_rank_that_gets_slower() -> None:
    """A rank whose steps take longer than those of the others is named, and since when."""
    told = lines(time=lambda s: 5900.0 if s >= 100 else 4000.0, form="megatron", who=3)
    for rank in (0, 1, 2, 4, 5, 6, 7):
        told += lines(form="megatron", who=rank)
    (found,) = find_trends(told)
    assert (found.measure, found.ranks, found.step) == ("step time", (3,), 100)
    assert found.against == "other ranks"


def test_job_that_gets_slower() -> None:
    """A throughput that falls and stays down is of all ranks."""
    told = lines(speed=lambda step: 4000.0 if step >= 110 else 7000.0)
    assert trends(told) == [("throughput", (), 110, True)]


# --- what is usual --------------------------------------------------------------------------------


@pytest.mark.parametrize("form", LINES)
@pytest.mark.parametrize("seed", range(3))
def test_noise(form: str, seed: int) -> None:
    """A loss that falls noisily, gradients that vary: nothing to tell."""
    noisy = random.Random(seed)
    told = lines(
        lambda step: usual_loss(step) + noisy.gauss(0, 0.15),
        norm=lambda step: noisy.lognormvariate(0, 0.5),
        speed=lambda step: noisy.gauss(7000, 300),
        time=lambda step: noisy.gauss(4000, 150),
        form=form,
    )
    assert trends(told) == []


def test_warm_up() -> None:
    """A slow first step and gradients that fall: nothing to tell."""
    told = lines(
        norm=lambda step: 300 / step,
        speed=lambda step: 300.0 if step < 4 else 7000.0,
        time=lambda step: 60_000.0 if step < 4 else 4000.0,
        form="megatron",
    )
    assert trends(told) == []


def test_checkpoints_and_evaluations() -> None:
    """Every twentieth step takes ten times as long; evaluations have losses of their own."""
    told = lines(
        speed=lambda step: 700.0 if step % 20 == 0 else 7000.0,
        time=lambda step: 40_000.0 if step % 20 == 0 else 4000.0,
        form="megatron",
    )
    told += [StepLine(0, s, f"eval step {s} | val_loss 9.1 | loss 9.1") for s in range(100, 110)]
    assert trends(told) == []


def test_rank_that_saves() -> None:
    """Rank 0 alone writes checkpoints, and is slow in these steps only."""
    told = lines(time=lambda s: 40_000.0 if s % 10 == 0 else 4000.0, form="megatron", who=0)
    for rank in range(1, 8):
        told += lines(form="megatron", who=rank)
    assert trends(told) == []


def test_ranks_with_different_work() -> None:
    """Stages of a pipeline have step times of their own: half of the ranks are slower for ever."""
    told: list[StepLine] = []
    for rank in range(8):
        slow = 6000.0 if rank >= 4 else 4000.0
        told += lines(time=lambda _, slow=slow: slow, form="megatron", who=rank)  # type: ignore[misc]
    assert trends(told) == []


def test_schedule_of_the_learning_rate() -> None:
    """A learning rate that rises is no loss, and steps that begin anew are not a jump."""
    told = [StepLine(0, s, f"step {s} lr {1e-6 * s:.2e} loss scale 65536 weight_norm {s}") for s in STEPS]  # fmt: skip
    assert trends(told) == []


def test_words() -> None:
    """What is told can be read as a sentence."""
    trend = Trend("step time", (3,), 100, 5900.0, 4000.0, "other ranks")
    assert trend.sentence == "step time 5900 since step 100, 4000 on the other ranks"
