"""nan and inf of all ranks as text."""

from __future__ import annotations

from rankdbg.frontends.reports.ranks import print_silent
from rankdbg.frontends.reports.rows import print_row, print_wrapped
from rankdbg.frontends.terminal import Terminal
from rankdbg.investigations.nonfinite import NanArming, NanState, counts_text
from rankdbg.investigations.rank_labels import label, named
from rankdbg.process.user_code import short_name
from rankdbg.text.escapes import visible_line
from rankdbg.types import Rank
from rankdbg.verdicts.nonfinite.first_values import BadTensor, origin_sentence
from rankdbg.wire.nan_answers import NanFigures, NanFinding

MOST_SHOWN = 8
_COLUMN = 12


def print_nan(terminal: Terminal, state: NanState, *, full: bool = False) -> None:
    if state.is_bad:
        terminal.print(terminal.red(visible_line(state.summary())))
    else:
        print_wrapped(terminal, state.summary())
    if state.findings:
        _print_finding(terminal, *state.findings[0], state)
        _print_later(terminal, state)
    if state.advice():
        print_row(terminal, "  next", state.advice(), _COLUMN, commands=True)
    if state.bad and state.findings:
        print_wrapped(terminal, state.count_sentence())
    shown = state.bad if full else state.bad[:MOST_SHOWN]
    for each in shown:
        _print_tensor(terminal, each, state)
    if len(shown) < len(state.bad):
        terminal.print(terminal.dim(f"and {len(state.bad) - len(shown)} more; --full shows them"))
    for text in _notes(state):
        print_wrapped(terminal, text)
    print_silent(terminal, state.no_response, state.all_ranks)


def _print_finding(terminal: Terminal, rank: Rank, found: NanFinding, state: NanState) -> None:
    passes = {"forward": "forward pass", "backward": "backward pass", "optimizer": "gradients"}
    kind = found.type if found.type != found.module else "the model"
    phase = passes.get(found.phase, found.phase)
    print_row(terminal, "  module", f"{found.module} ({kind}), {phase}", _COLUMN)
    for each in found.tensors:
        print_row(terminal, f"  {visible_line(each.role)}", _figures(each), _COLUMN)
    print_row(terminal, "  cause", origin_sentence(found), _COLUMN)
    if found.where is not None:
        place = f"{short_name(found.where.file)}:{found.where.line}"
        held = any(each.process == rank.process for each in state.stopped)
        stopped = "stopped in" if held else "was in"
        print_row(terminal, "  where", f"{stopped} {found.where.function} {place}", _COLUMN)


def _figures(each: NanFigures) -> str:
    texts = [counts_text(each.figures.nan, each.figures.inf)]
    for name in ("norm", "min", "max"):
        value = getattr(each.figures, name)
        texts += [f"{name} {value:.6g}"] if value is not None else []
    sizes = ",".join(map(str, each.shape))
    name = f"{each.name} " if each.role == "parameter" or each.name.startswith("[") else ""
    return f"{name}{each.dtype}[{sizes}]: {', '.join(texts)}"


def _print_later(terminal: Terminal, state: NanState) -> None:
    for rank, found in state.findings[1:]:
        step = f"step {found.step}, " if found.step is not None else ""
        later = f"{named([rank], state.all_ranks)}: {step}{found.kind} in {found.module}"
        print_row(terminal, "  later", later, _COLUMN)


def _print_tensor(terminal: Terminal, bad: BadTensor, state: NanState) -> None:
    sizes = ",".join(map(str, bad.shape))
    kind = "" if bad.kind == "parameter" else f" ({bad.kind})"
    terminal.print(terminal.bold(visible_line(f"{bad.name}{kind}, {bad.dtype}[{sizes}]")))
    labels = [named(members, state.all_ranks) for _, members in bad.groups]
    column = min(max(map(len, labels)) + 4, 30)
    for text, ((nan, inf), _) in zip(labels, bad.groups, strict=True):
        print_row(terminal, f"  {text}", counts_text(nan, inf), column)


def _notes(state: NanState) -> list[str]:
    notes = []
    if state.innocent:
        count, first = len(state.innocent), state.innocent[0]
        reason = (
            "a loss scaler skips such steps" if first.kind == "gradient" else "masks are made of it"
        )
        noun = "tensor" if count == 1 else "tensors"
        notes.append(f"not counted: inf in {count} {noun}, such as {first.name}: {reason}")
    if state.without_gradients:
        who = named(state.without_gradients, state.all_ranks)
        notes.append(f"gradients were not read: {who} stayed in a backward pass")
    if state.armed:
        checks = max(answer.value.checks for answer in state.answered if answer.value.armed)
        who = named(state.armed, state.all_ranks)
        notes.append(f"armed: {who}, {checks} outputs and gradients seen so far")
    for found in (answer.value.infinite for answer in state.answered if answer.value.armed):
        if found:
            step = f" since step {found['step']}" if found.get("step") is not None else ""
            module = visible_line(str(found.get("module", "")))
            notes.append(f"inf, at which no rank stops, is in the output of {module}{step}")
            break
    failures = {answer.value.failures for answer in state.answered} - {""}
    notes += (
        [f"some outputs could not be looked at: {visible_line(min(failures))}"] if failures else []
    )
    return notes


def print_arming(terminal: Terminal, arming: NanArming) -> None:
    for text, members in arming.groups():
        who = terminal.bold(label(members, arming.all_ranks))
        terminal.print(f"{who}  {visible_line(text)}")
    print_silent(terminal, arming.no_response, arming.all_ranks)
