"""Operations, groups and culprits in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rankdbg.investigations.rank_labels import Paths, with_noun
from rankdbg.process.dimensions import dimension_of
from rankdbg.process.user_code import innermost_user_frame
from rankdbg.selection import Names, format_numbers
from rankdbg.types import Frame, Rank
from rankdbg.verdicts.collectives.culprits import CollectiveFindings, Culprit
from rankdbg.verdicts.collectives.mismatches import Mismatch
from rankdbg.verdicts.collectives.process_groups import ProcessGroup
from rankdbg.verdicts.collectives.schedules import MissedMessage
from rankdbg.verdicts.collectives.traces import Operation
from rankdbg.verdicts.collectives.waits import Wait
from rankdbg.verdicts.collectives.worlds import World

_MOST_RANKS = 40  # characters of a list of ranks in a sentence


class WorldNames:
    """What the processes of a world are called, by torch's numbers."""

    def __init__(self, world: World, all_ranks: Sequence[Rank]) -> None:
        self._world = world
        self._names = Names(all_ranks or list(world.ranks.values()))
        # Then numbers are names: there are thousands of groups to write.
        self._are_numbers = _are_numbers(world, all_ranks)

    def all(self, numbers: Iterable[int]) -> str:
        """A selection of exactly these processes."""
        if self._are_numbers:
            return format_numbers(numbers)
        return self._names.of(self._world.of(numbers))

    def numbers(self, numbers: Iterable[int]) -> str:
        """In few characters."""
        some = list(numbers)
        text = self.all(some)
        if len(text) <= _MOST_RANKS:
            return text
        return f"{text[: _MOST_RANKS - 8].rpartition(',')[0]},… ({len(some)})"

    def named(self, numbers: Iterable[int]) -> str:
        """rank 3; ranks 0-3; driver, Rollout 0-3"""
        some = list(numbers)
        return with_noun(self.numbers(some), len(some))

    def first(self, numbers: Iterable[int]) -> str:
        """At the start of a sentence: Rank 3; a role keeps its spelling."""
        text = self.named(numbers)
        return capital(text) if text.startswith("rank") else text


def _are_numbers(world: World, all_ranks: Sequence[Rank]) -> bool:
    if any(rank.number != number for number, rank in world.ranks.items()):
        return False
    numbers = [rank.number for rank in all_ranks if rank.number in world.ranks]
    return len({rank.role for rank in all_ranks}) < 2 and len(numbers) == len({*numbers})


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def operation(op: Operation, group: ProcessGroup, names: WorldNames) -> str:
    """all_reduce #13; of a send or recv its other end, as a rank of the job."""
    if not op.point_to_point:
        return f"{op.name} #{op.number}"
    other = far_end(op, group)
    if other is None:
        return op.name
    return f"{op.name} {'to' if op.name == 'send' else 'from'} {names.numbers([other])}"


def far_end(op: Operation, group: ProcessGroup) -> int | None:
    if op.ends is None:
        return None
    place = op.ends[1] if op.name == "send" else op.ends[0]
    return group.members[place] if place < len(group.members) else None


def tensors(op: Operation) -> str:
    """[2048, 5120] BFloat16"""
    sizes = op.input_sizes or op.output_sizes
    shown = " ".join(str(list(size)) for size in sizes[:2]) + (" …" if len(sizes) > 2 else "")
    return f"{shown} {' '.join(op.dtypes)}".strip()


def group_name(group: ProcessGroup) -> str:
    """group 3 (tp): the name of its dimension, as in selections, if it has one."""
    called = dimension_of(group.description) or group.description
    return f"group {group.name}" + (f" ({called})" if called else "")


def place(op: Operation) -> Frame | None:
    """The line of the user's that issued it."""
    if not op.frames:
        return None
    return op.frames[innermost_user_frame(frame.file for frame in op.frames)]


def culprit_sentence(culprit: Culprit, findings: CollectiveFindings, names: WorldNames) -> str:
    who, ranks = names.first(culprit.ranks), culprit.ranks
    one = len(ranks) == 1
    what = f"{operation(culprit.operation, culprit.group, names)} of {group_name(culprit.group)}"
    waiting = f"{names.named(culprit.waiting)} {'waits' if len(culprit.waiting) == 1 else 'wait'}"
    have = "has" if one else "have"
    match culprit.reason:
        case "absent":
            why = findings.job.traces[ranks[0]].absent
            return f"{who}: {why}, and {waiting} in {what}."
        case "mismatch":
            return _mismatch_sentence(culprit, findings, names, who)
        case "circle":
            return _circle_sentence(culprit, findings, names, who)
        case "behind":
            others = ", which the others have finished" if len(culprit.group.members) > 1 else ""
            return f"{who} {have} not left {what}{others}."
        case "not started":
            gpu = "its GPU" if one else "their GPUs"
            return f"{who}: {gpu} {have} not begun {what}, inside which the others wait."
        case "lagging":
            return (
                f"{who} {have} issued nothing more: all are in {what}, "
                f"and only the others have issued the operations after it."
            )
    sentence = f"{who} {have} not entered {what}, in which {waiting}."
    if culprit.operation.point_to_point:
        done = "received" if culprit.operation.name == "send" else "sent"
        through = (
            f"{operation(culprit.operation, culprit.group, names)}, {group_name(culprit.group)}"
        )
        sentence = f"{who} {have} not {done} what {waiting} for ({through})."
    if not culprit.group.certain:
        return f"{sentence} (The dumps do not say who is in that group.)"
    if culprit.inside is not None:
        inside = culprit.inside
        itself = "It is" if one else f"{names.first([inside.rank])} is"
        sentence += f" {itself} in {_inside(inside, names)}, which others have left."
    elif all(not findings.job.traces[rank].operations for rank in ranks):
        remark = findings.job.traces[ranks[0]].remark
        sentence += f" {capital(remark)}." if remark else " Nothing is under way there."
    return sentence


def _mismatch_sentence(
    culprit: Culprit, findings: CollectiveFindings, names: WorldNames, who: str
) -> str:
    number = culprit.operation.number
    for mismatch in findings.mismatches:
        same = mismatch.group == culprit.group and mismatch.number == number
        if same and {*mismatch.odd} & {*culprit.ranks}:
            text = mismatch_text(mismatch, names)
            return (capital(text) if text.startswith("rank") else text) + "."
    return f"{who} entered #{number} of {group_name(culprit.group)} with a different operation."


def mismatch_text(mismatch: Mismatch, names: WorldNames) -> str:
    """rank 2 has broadcast as #3 of group 0, where ranks 0-1,3 have all_reduce"""
    expected, found = mismatch.expected, mismatch.found
    one, other = expected.name, found.name
    if one == other:
        one, other = f"{one} of {tensors(expected)}", f"{other} of {tensors(found)}"
    text = (
        f"{names.named(mismatch.odd)} {'has' if len(mismatch.odd) == 1 else 'have'} {other} "
        f"as #{mismatch.number} of {group_name(mismatch.group)}, "
        f"where {names.named(mismatch.usual)} {'has' if len(mismatch.usual) == 1 else 'have'} {one}"
    )
    return f"{text}: the same in another order" if mismatch.kind == "order" else text


def _circle_sentence(
    culprit: Culprit, findings: CollectiveFindings, names: WorldNames, who: str
) -> str:
    own = {rank: findings.waits[rank] for rank in culprit.ranks}
    first = own[culprit.ranks[0]]
    others = [findings.waits[r] for r in culprit.waiting]
    if others and not _are_both_sides(own.values()):
        return (
            f"{who} {'is' if len(own) == 1 else 'are'} in {_inside(first, names)}, while "
            f"{names.named(culprit.waiting)} {'is' if len(others) == 1 else 'are'} in "
            f"{_inside(others[0], names)}: each side waits for the other."
            f"{_departure_sentence(culprit, names)}"
        )
    places = "; ".join(
        f"{names.named([rank])} in {_inside(wait, names)}" for rank, wait in list(own.items())[:4]
    )
    more = "; …" if len(own) > 4 else ""
    return f"{who} wait for each other: {places}{more}. {_UNDECIDED_ORDER}"


def _are_both_sides(waits: Iterable[Wait]) -> bool:
    """Whether ranks that wait for each other are all named: nothing tells which left the order."""
    return len({(wait.group, wait.operation.name, wait.operation.number) for wait in waits}) > 1


_UNDECIDED_ORDER = "The flight recorders do not show which side left the common order."


def _departure_sentence(culprit: Culprit, names: WorldNames) -> str:
    departure = culprit.departure
    if culprit.missed is not None:
        return _missed_sentence(culprit.missed, names)
    if departure is None:
        return f" {_UNDECIDED_ORDER}"
    have = "has" if len(departure.ranks) == 1 else "have"
    usual = f"the other ranks {departure.usual}"
    if not departure.by_peers:
        usual = f"and not {departure.usual} as in earlier rounds"
    return (
        f" Before {_inside(departure.before, names)}, {names.named(departure.ranks)} {have} "
        f"entered {departure.entered} collectives of {group_name(departure.counted)}, {usual}."
    )


def _missed_sentence(missed: MissedMessage, names: WorldNames) -> str:
    done = "sent {} messages to" if missed.call == "send" else "waited for {} messages from"
    return (
        f" Before {_inside(missed.before, names)}, {names.named([missed.rank])} has "
        f"{done.format(missed.messages)} {names.named([missed.other])}, and not {missed.usual} as "
        "in earlier rounds."
    )


def _inside(wait: Wait, names: WorldNames) -> str:
    return f"{operation(wait.operation, wait.group, names)} of {group_name(wait.group)}"


def undecided_sentence(wait: Wait, paths: Paths, names: WorldNames) -> str:
    frame = place(wait.operation)
    line = f", {paths.line(frame)}" if frame else ""
    return (
        f"No rank is missing from {_inside(wait, names)}{line}: {names.named(wait.group.members)} are all in, "
        f"and none has left it. It is in progress, or the network or a GPU is stuck."
    )
