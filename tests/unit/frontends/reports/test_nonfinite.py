"""What ranks say about nan and inf, as text."""

from __future__ import annotations

import io

from rankdbg.frontends.reports.nonfinite import print_nan
from rankdbg.frontends.terminal import Terminal
from rankdbg.investigations.nonfinite import NanState
from rankdbg.types import Answer, ProcessKey, Rank, Silence
from rankdbg.wire.nan_answers import NanFigures, NanFinding, NanReport, NanTensor
from rankdbg.wire.tensor_figures import TensorFigures

RANKS = [Rank(ProcessKey("a", 100 + number, 1), "job", number) for number in range(3)]


def shown(*reports: NanReport | str, stopped: int | None = None) -> str:
    """With these answers; a text is why a rank has given none."""
    replies = [
        Silence(rank, each) if isinstance(each, str) else Answer(rank, each)
        for rank, each in zip(RANKS, reports, strict=False)
    ]
    held = [RANKS[stopped]] if stopped is not None else []
    file = io.StringIO()
    print_nan(Terminal(file), NanState(replies, RANKS, held))
    return " ".join(file.getvalue().split())


def finding(module: str, step: int, exact: bool = True) -> NanFinding:
    figures = (NanFigures("input", "[0]", (2, 4), "float32", TensorFigures(1.0, -1.0, 1.0)),)
    return NanFinding(
        5.0, "forward", "nan", module, "Norm", "output", "module", step, figures, exact=exact
    )


def test_nothing() -> None:
    report = NanReport(checked=9, models=1, step=3)
    assert shown(report, report, report) == ("No nan and no inf: 9 tensors of ranks 0-2 at step 3.")


def test_a_stopped_rank_and_one_that_came_later() -> None:
    """The rank of the least step; what to type; who is still armed."""
    first, later = finding("norm", 7), finding("head", 8)
    text = shown(
        NanReport(models=1, found=later),
        NanReport(models=1, found=first),
        NanReport(models=1, armed=True),
        stopped=1,
    )
    assert "The first nan is in rank 1 at step 7, in the output of norm" in text
    assert "input [0] float32[2,4]: finite, norm 1, min -1, max 1" in text
    assert "norm made it: its inputs and its parameters were finite" in text
    assert "later rank 0: step 8, nan in head" in text
    assert "attach 1, looks at it; rank 2: still armed" in text
    assert "rankdbg continue 1 resumes the rank" in text


def test_after_a_pass_on_a_gpu() -> None:
    text = shown(NanReport(models=1, found=finding("norm", 7, exact=False)), stopped=0)
    assert "--stop-on-nan=exact stops in the module itself" in text


def test_what_is_over() -> None:
    """Tensors are grouped by ranks, and the report says how to catch the first one next time."""
    bad = NanReport((NanTensor("gradient", "w", 2, 1, (4,), "float32"),), 1, 9, 1)
    text = shown(bad, NanReport(checked=9, models=1), "the GIL is held")
    assert "nan or inf in 1 of 9 tensors now, in rank 0; the first is w" in text
    assert "rankdbg run --stop-on-nan -- COMMAND" in text
    assert "w (gradient), float32[4] rank 0 2 nan, 1 inf rank 1 finite" in text
    assert "no response: 2 (the GIL is held)" in text


def test_words_of_a_rank_do_not_reach_the_terminal() -> None:
    """They are text, whatever is in them."""
    hostile = NanFinding(
        5.0, "\x1b[1m", "\x1b[2J", "\x1b]0;x\x07", tensors=(NanFigures("\x1b[3m", "\x1b[4m"),)
    )
    assert "\x1b" not in shown(NanReport(models=1, found=hostile, failures="\x1b[5m"))
