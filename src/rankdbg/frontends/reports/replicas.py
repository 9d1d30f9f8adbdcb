"""Which replicas differ, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from rankdbg.frontends.reports.ranks import print_silent
from rankdbg.frontends.reports.rows import print_row, print_wrapped
from rankdbg.frontends.terminal import Terminal
from rankdbg.investigations.rank_labels import named
from rankdbg.investigations.replicas import words
from rankdbg.investigations.replicas.computation_words import (
    data_text,
    modules_text,
    operator_text,
)
from rankdbg.investigations.replicas.findings import FirstDifference
from rankdbg.investigations.replicas.results import Replicas
from rankdbg.text.amounts import duration
from rankdbg.text.escapes import visible_line
from rankdbg.types import Rank
from rankdbg.verdicts.replicas.differences import Difference
from rankdbg.wire.tensor_figures import TensorFigures

MOST_SHOWN = 8


def print_replicas(terminal: Terminal, found: Replicas, *, full: bool = False) -> None:
    all_ranks = found.all_ranks
    if found.is_faulty and found.differences:
        terminal.print(terminal.red(visible_line(found.summary())))
    else:
        print_wrapped(terminal, found.summary())
        if found.differences:
            print_wrapped(terminal, f"Rounding: {words.NOT_A_FAULT}.")
    shown = found.differences if full else found.differences[:MOST_SHOWN]
    for difference in shown:
        _print_difference(terminal, difference, found, all_ranks)
    if len(shown) < len(found.differences):
        left = len(found.differences) - len(shown)
        terminal.print(terminal.dim(f"and {left} more; --full shows them"))
    if found.first is not None:
        _print_first(terminal, found.first, all_ranks, full=full)
    for note in found.random:
        print_row(terminal, "note", words.random_text(note, all_ranks))
    if found.tensors:
        terminal.print(terminal.dim(f"hashed {cost(found)}"))
    _print_besides(terminal, found)
    print_silent(terminal, found.without, all_ranks)


def cost(found: Replicas) -> str:
    taken = f"{found.seconds * 1000:.0f} ms" if found.seconds < 10 else duration(found.seconds)
    return f"{found.bytes / 1e6:.1f} MB a rank in {taken}"


def print_cost(terminal: Terminal, found: Replicas, every: int) -> None:
    """Before it is so."""
    each = "at each step" if every == 1 else f"at one of {every} steps"
    print_wrapped(terminal, f"Cost: {cost(found)}, {each}, in the program's own thread.")


def print_keeping(terminal: Terminal, found: Replicas, every: int) -> None:
    ranks = named(found.ranks, found.all_ranks)
    if not every:
        terminal.print(f"No hashes are kept any more: {ranks}.")
        return
    print_wrapped(
        terminal,
        f"From now on hashes are kept: {ranks}. `rankdbg diverge` says since which step tensors differ; "
        "`rankdbg diverge --every 0` ends it.",
    )


def _print_besides(terminal: Terminal, found: Replicas) -> None:
    if found.resynced:
        buffers = "1 buffer" if found.resynced == 1 else f"{found.resynced} buffers"
        text = f"not compared: {buffers} that DDP broadcasts before each forward pass"
        terminal.print(terminal.dim(text))
    if found.undecided:
        print_wrapped(terminal, words.undecided_text(found.undecided))
    if text := words.keeping_text(found.keeping):
        terminal.print(terminal.dim(text))
    for rank, why in found.keeping.ended:
        text = f"{named([rank], found.all_ranks)} no longer keeps hashes: {why}"
        print_wrapped(terminal, text)


def _print_first(
    terminal: Terminal, first: FirstDifference, all_ranks: Sequence[Rank], *, full: bool
) -> None:
    if first.differences:
        print_row(terminal, "first", words.first_text(first, all_ranks))
    texts = words.cause_texts(first.causes, all_ranks)
    for text in texts if full else texts[:MOST_SHOWN]:
        print_row(terminal, "cause", text)
    for data in first.computation.data if first.computation and first.differences else ():
        print_row(terminal, "data", data_text(data, all_ranks))
    print_row(terminal, "modules", modules_text(first.computation, all_ranks))
    if operator := operator_text(first.computation, all_ranks):
        print_row(terminal, "operator", operator)


def _print_difference(
    terminal: Terminal, difference: Difference, found: Replicas, all_ranks: Sequence[Rank]
) -> None:
    sizes = ",".join(map(str, difference.shape))
    kind = "" if difference.kind == "parameter" else f" ({difference.kind})"
    since = found.since_of(difference)
    along = f", along {' and '.join(difference.along)}" if difference.along else ""
    when = f", {since}" if since else ""
    title = f"{difference.name}{kind}, {difference.dtype}[{sizes}]{along}{when}"
    terminal.print(terminal.bold(visible_line(title)))
    labels = [named(group, all_ranks) for group in difference.groups]
    column = min(max(map(len, labels)) + 4, 30)
    for label, group in zip(labels, difference.groups, strict=True):
        figures = found.figures_of(difference, group)
        texts = [_figures_text(figures)] if figures else []
        if magnitude := found.magnitude_of(difference, group):
            texts.insert(0, words.magnitude_text(magnitude, difference.dtype))
        print_row(terminal, f"  {label}", "; ".join(texts), column)


def _figures_text(figures: TensorFigures) -> str:
    texts = [
        f"{name} {value:.9g}"
        for name in ("norm", "min", "max")
        if (value := getattr(figures, name)) is not None
    ]
    texts += [f"{count} {name}" for name in ("nan", "inf") if (count := getattr(figures, name))]
    return ", ".join(texts)
