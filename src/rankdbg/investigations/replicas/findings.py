"""Parts of what was found about replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rankdbg.types import ProcessKey, Rank
from rankdbg.verdicts.replicas.causes import Cause
from rankdbg.verdicts.replicas.differences import Difference
from rankdbg.verdicts.replicas.kept_steps import FirstDifferingStep
from rankdbg.verdicts.replicas.magnitudes import Magnitude
from rankdbg.verdicts.replicas.odd_data import OddData
from rankdbg.verdicts.replicas.odd_modules import ModulePass
from rankdbg.verdicts.replicas.odd_operators import OperatorPass
from rankdbg.wire.replica_answers import TensorBlocks

# By rank, kind and name of a tensor: of one rank of each group; since when, by the first rank of all.
Place = tuple[ProcessKey, str, str]
Figures = Mapping[Place, TensorBlocks]
Magnitudes = dict[Place, Magnitude]
Sinces = dict[Place, FirstDifferingStep]


@dataclass(frozen=True)
class KeptSteps:
    """What ranks keep: at every N-th step (0: nothing), from the first to the last of `steps`, in so
    many `seconds` each. `ended`: ranks that no longer do, and why."""

    every: int = 0
    steps: tuple[int, int] | None = None
    seconds: float = 0.0
    ended: tuple[tuple[Rank, str], ...] = ()


@dataclass(frozen=True)
class Machine:
    """What a rank computes on: `gpu` by its own name, or empty; `kind` of GPU or processor, with the
    version of torch."""

    gpu: str = ""
    kind: str = ""


@dataclass(frozen=True)
class Computation:
    """Modules of one step, forward and backward. `again`: whether a second step has found the same;
    None: there was nothing to find again. `operators`: of that module, in the second step. `data`: ranks
    that have parts of the same layers and get other inputs."""

    modules: ModulePass
    step: int | None
    again: bool | None = None
    operators: OperatorPass | None = None
    machines: Mapping[ProcessKey, Machine] = field(default_factory=dict)
    data: tuple[OddData, ...] = ()

    @property
    def suspect(self) -> Rank | None:
        """A rank that alone returns different outputs for inputs that are equal bit for bit: the same module
        in both steps, and its operator again when it is repeated, on the same kind of machine."""
        odd = self.modules.first
        operator = self.operators.first if self.operators else None
        if odd is None or operator is None or not self.again or not operator.repeats:
            return None
        if operator.kind != "outputs" or not operator.has_majority or len(operator.odd) != 1:
            return None
        (rank,) = operator.odd
        return None if self.is_other_machine(rank, operator.ranks) else rank

    def is_other_machine(self, rank: Rank, ranks: Sequence[Rank]) -> bool:
        """Whether no other of these ranks computes on the same kind."""
        kinds = [self.kind_of(each) for each in ranks if each.process != rank.process]
        return self.kind_of(rank) not in kinds

    def kind_of(self, rank: Rank) -> str:
        return self.machines.get(rank.process, Machine()).kind


@dataclass(frozen=True)
class FirstDifference:
    """`since`: None if no hashes were kept. `computation`: None if no step came."""

    since: FirstDifferingStep | None
    differences: Sequence[Difference]
    causes: tuple[Cause, ...]
    computation: Computation | None
