"""Sentences about modules and operators that compute otherwise in some ranks."""

from __future__ import annotations

from collections.abc import Sequence

from rankdbg.investigations.rank_labels import named
from rankdbg.investigations.replicas.findings import Computation, Machine
from rankdbg.types import Rank
from rankdbg.verdicts.replicas.odd_data import OddData
from rankdbg.verdicts.replicas.odd_modules import OddModule
from rankdbg.verdicts.replicas.odd_operators import OddOperator

_OTHER_PROGRAM = "The program does something else there."


def modules_text(found: Computation | None, all_ranks: Sequence[Rank]) -> str:
    if found is None:
        return "Not compared: the ranks reported no step (rankdbg.progress) in which to follow it."
    modules = found.modules
    if not modules.calls:
        return "No call of a module was seen; hooks do not see modules that are compiled."
    if not modules.compared:
        return (
            f"None of {modules.calls} module calls had equal inputs and parameters in several ranks: their "
            "data, or their parts of the model, differ."
        )
    odd = modules.first
    if odd is None:
        return (
            f"{modules.compared} of {modules.calls} module calls, forward and backward, had equal inputs "
            "and parameters in several ranks, and their outputs are equal."
        )
    equal = "for equal inputs and parameters in"
    if not odd.has_majority:
        ranks = named(odd.ranks, all_ranks)
        return f"{_module(odd)} returns different outputs {equal} {ranks}: which one is wrong is not known."
    text = f"{_module(odd)} returns different outputs {equal} {named(odd.odd, all_ranks)}"
    if not found.again:
        return f"{text}, but not in a second step: a kernel that is not deterministic may do that."
    return f"{text}, in two steps."


def _module(odd: OddModule) -> str:
    if odd.phase == "backward":
        return f"The backward pass of {odd.module} ({odd.type})"
    return f"{odd.type} {odd.module}".rstrip()


def data_text(odd: OddData, all_ranks: Sequence[Rank]) -> str:
    who = named(odd.odd, all_ranks)
    others = [rank for rank in odd.ranks if rank not in odd.odd]
    than = f"other inputs than {named(others, all_ranks)}" if others else "different inputs"
    model = odd.module or odd.type
    return (
        f"{model} gets {than} in {who}, though these ranks have parts of the same layers "
        f"({odd.dimension}): they read different data, or the program divides it among them."
    )


def operator_text(found: Computation | None, all_ranks: Sequence[Rank]) -> str:
    """Empty where no operator was followed."""
    if found is None or found.operators is None:
        return ""
    operators, odd = found.operators, found.operators.first
    if not operators.seen:
        return "No operator was seen: the module is compiled, or computes outside torch."
    if odd is None:
        return (
            f"{operators.seen} operators were followed, and none returned different outputs for equal "
            "inputs. The difference may come from random numbers, from another rank, or from outside torch."
        )
    name, ranks = odd.name, named(odd.odd, all_ranks)
    if odd.kind == "operator":
        return f"{ranks}: {odd.values[-1]} where others have {odd.values[0]}. {_OTHER_PROGRAM}"
    if odd.kind == "arguments":
        values = f"{odd.values[-1]} instead of {odd.values[0]}"
        return f"{name} is called with different arguments in {ranks}: {values}. {_OTHER_PROGRAM}"
    if odd.kind == "inputs":
        return (
            f"{name} gets a different tensor in {ranks}, which is not an input, parameter or buffer of the "
            f"module. {_OTHER_PROGRAM}"
        )
    return _outputs_text(found, odd, all_ranks)


def _outputs_text(found: Computation, odd: OddOperator, all_ranks: Sequence[Rank]) -> str:
    text = (
        f"{odd.name} returns different outputs for inputs that are equal bit for bit in "
        f"{named(odd.odd, all_ranks)}"
    )
    if odd.repeats is None:
        return f"{text}. It cannot be repeated, so whether that is a fault is not known."
    if not odd.repeats:
        return (
            f"{text}, and different ones again when it is repeated: the kernel is not deterministic, which is "
            "not a fault."
        )
    text = f"{text}, and the same ones when it is repeated"
    rank = found.suspect
    if rank is not None:
        machine = found.machines.get(rank.process, Machine())
        device = machine.gpu or "the processor"
        return f"{text}: silent data corruption. It ran on {device} of host {rank.host}."
    if not odd.has_majority or len(odd.odd) > 1:
        return f"{text}. Which ranks are wrong is not known."
    (rank,) = odd.odd
    others = sorted({found.kind_of(each) for each in odd.ranks if each is not rank})
    return (
        f"{text}. It computes on {found.kind_of(rank)}, the others on {' / '.join(others)}: their "
        "kernels differ, which is not a fault."
    )
