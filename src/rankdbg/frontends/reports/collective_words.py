"""Operations, groups and culprits in words."""

from __future__ import annotations

from collections.abc import Iterable

from rankdbg.frontends.reports.ranks import Paths
from rankdbg.selection import format_numbers
from rankdbg.types import Frame
from rankdbg.user_code import innermost_user_frame
from rankdbg.verdicts.collectives import Culprit, Findings
from rankdbg.verdicts.groups import Group
from rankdbg.verdicts.mismatches import Mismatch
from rankdbg.verdicts.traces import Operation
from rankdbg.verdicts.waits import Wait

_MOST_RANKS = 40  # characters of a list of ranks in a sentence


def numbers(ranks: Iterable[int]) -> str:
    some = list(ranks)
    text = format_numbers(some)
    if len(text) <= _MOST_RANKS:
        return text
    return f"{text[: _MOST_RANKS - 8].rpartition(',')[0]},… ({len(some)})"


def named(ranks: Iterable[int]) -> str:
    some = list(ranks)
    return f"{'rank' if len(some) == 1 else 'ranks'} {numbers(some)}"


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def operation(op: Operation, group: Group) -> str:
    """all_reduce #13; of a send or recv its other end, as a rank of the job."""
    if not op.point_to_point:
        return f"{op.name} #{op.number}"
    other = far_end(op, group)
    if other is None:
        return op.name
    return f"{op.name} {'to' if op.name == 'send' else 'from'} {other}"


def far_end(op: Operation, group: Group) -> int | None:
    if op.ends is None:
        return None
    place = op.ends[1] if op.name == "send" else op.ends[0]
    return group.members[place] if place < len(group.members) else None


def tensors(op: Operation) -> str:
    """[2048, 5120] BFloat16"""
    sizes = op.input_sizes or op.output_sizes
    shown = " ".join(str(list(size)) for size in sizes[:2]) + (" …" if len(sizes) > 2 else "")
    return f"{shown} {' '.join(op.dtypes)}".strip()


def group_name(group: Group) -> str:
    return f"group {group.name}" + (f" ({group.description})" if group.description else "")


def place(op: Operation) -> Frame | None:
    """The line of the user's that issued it."""
    if not op.frames:
        return None
    return op.frames[innermost_user_frame(frame.file for frame in op.frames)]


def culprit_sentence(culprit: Culprit, findings: Findings) -> str:
    who, ranks = capital(named(culprit.ranks)), culprit.ranks
    one = len(ranks) == 1
    what = f"{operation(culprit.operation, culprit.group)} of {group_name(culprit.group)}"
    waiting = f"{named(culprit.waiting)} {'waits' if len(culprit.waiting) == 1 else 'wait'}"
    have = "has" if one else "have"
    match culprit.reason:
        case "absent":
            why = findings.job.traces[ranks[0]].absent
            return f"{who}: {why}, and {waiting} in {what}."
        case "mismatch":
            return _mismatch_sentence(culprit, findings, who)
        case "circle":
            return _circle_sentence(culprit, findings, who)
        case "behind":
            others = ", which the others have finished" if len(culprit.group.members) > 1 else ""
            return f"{who} {have} not come out of {what}{others}."
        case "not started":
            gpu = "its GPU" if one else "their GPUs"
            return f"{who}: {gpu} {have} not begun {what}, inside which the others wait."
        case "lagging":
            return (
                f"{who} {have} issued nothing more: all are in {what}, "
                f"and only the others have gone on to issue what comes after it."
            )
    sentence = f"{who} {have} not entered {what}, in which {waiting}."
    if culprit.operation.point_to_point:
        done = "received" if culprit.operation.name == "send" else "sent"
        through = f"{operation(culprit.operation, culprit.group)}, {group_name(culprit.group)}"
        sentence = f"{who} {have} not {done} what {waiting} for ({through})."
    if not culprit.group.certain:
        return f"{sentence} (The dumps do not say who is in that group.)"
    if culprit.inside is not None:
        inside = culprit.inside
        itself = "It is" if one else f"Rank {inside.rank} is"
        sentence += f" {itself} in {_inside(inside)}, which others have come out of."
    elif all(not findings.job.traces[rank].operations for rank in ranks):
        remark = findings.job.traces[ranks[0]].remark
        sentence += f" {capital(remark)}." if remark else " Nothing is under way there."
    return sentence


def _mismatch_sentence(culprit: Culprit, findings: Findings, who: str) -> str:
    number = culprit.operation.number
    for mismatch in findings.mismatches:
        same = mismatch.group == culprit.group and mismatch.number == number
        if same and {*mismatch.odd} & {*culprit.ranks}:
            return capital(mismatch_text(mismatch)) + "."
    return f"{who} came to #{number} of {group_name(culprit.group)} with another operation."


def mismatch_text(mismatch: Mismatch) -> str:
    """rank 2 has broadcast as #3 of group 0, where ranks 0-1,3 have all_reduce"""
    expected, found = mismatch.expected, mismatch.found
    one, other = expected.name, found.name
    if one == other:
        one, other = f"{one} of {tensors(expected)}", f"{other} of {tensors(found)}"
    text = (
        f"{named(mismatch.odd)} {'has' if len(mismatch.odd) == 1 else 'have'} {other} "
        f"as #{mismatch.number} of {group_name(mismatch.group)}, "
        f"where {named(mismatch.usual)} {'has' if len(mismatch.usual) == 1 else 'have'} {one}"
    )
    return f"{text}: the same in another order" if mismatch.kind == "order" else text


def _circle_sentence(culprit: Culprit, findings: Findings, who: str) -> str:
    own = {rank: findings.waits[rank] for rank in culprit.ranks}
    first = own[culprit.ranks[0]]
    others = [findings.waits[r] for r in culprit.waiting]
    if others and others[0].rank not in culprit.ranks:
        return (
            f"{who} {'is' if len(own) == 1 else 'are'} in {_inside(first)}, while "
            f"{named(culprit.waiting)} {'is' if len(others) == 1 else 'are'} in "
            f"{_inside(others[0])}: each side waits for the other."
        )
    places = "; ".join(f"rank {rank} in {_inside(wait)}" for rank, wait in list(own.items())[:4])
    return f"{who} wait for each other: {places}{'; …' if len(own) > 4 else ''}."


def _inside(wait: Wait) -> str:
    return f"{operation(wait.operation, wait.group)} of {group_name(wait.group)}"


def undecided_sentence(wait: Wait, paths: Paths) -> str:
    frame = place(wait.operation)
    line = f", {paths.line(frame)}" if frame else ""
    return (
        f"Nobody is missing from {_inside(wait)}{line}: {named(wait.group.members)} are all in, "
        f"and none has come out. It is at work, or the network or a GPU is stuck."
    )
