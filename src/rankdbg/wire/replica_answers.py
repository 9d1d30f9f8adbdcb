"""What agents answer about tensors that other ranks must have too, as questions.py names it."""

from __future__ import annotations

from dataclasses import dataclass, field

from rankdbg.wire.tensor_figures import TensorFigures


@dataclass(frozen=True)
class ReplicaTensor:
    """`placement`: of a DTensor, each dimension of its mesh with replicate, shard or partial.
    `resynced`: a buffer that DDP overwrites with that of rank 0 before each forward pass.
    `optimized`: whether an optimizer has this parameter, with these `settings`; None: not known."""

    kind: str
    name: str
    hash: str
    shape: tuple[int, ...] = ()
    dtype: str = ""
    placement: tuple[tuple[str, str], ...] = ()
    resynced: bool = False
    optimized: bool | None = None
    settings: str = ""


@dataclass(frozen=True)
class ReplicaHashes:
    """`passed`: the step had begun before the question came; `why`: there are no hashes."""

    tensors: tuple[ReplicaTensor, ...] = ()
    step: int | None = None
    bytes: int = 0
    seconds: float = 0.0
    passed: bool = False
    why: str = ""


@dataclass(frozen=True)
class TensorBlocks:
    """`hashes`: 8 bytes for each block of `block` bytes, as base64. `values`: base64 of an array of the
    type `format` (f, d or q)."""

    kind: str
    name: str
    bytes: int = 0
    block: int = 0
    hashes: str = ""
    format: str = ""
    values: str = ""
    figures: TensorFigures = field(default_factory=TensorFigures)


@dataclass(frozen=True)
class ReplicaBlocks:
    """`passed` and `why` as in ReplicaHashes."""

    tensors: tuple[TensorBlocks, ...] = ()
    step: int | None = None
    passed: bool = False
    why: str = ""


@dataclass(frozen=True)
class ReplicaKeeping:
    every: int = 0
    step: int | None = None


@dataclass(frozen=True)
class ReplicaRecords:
    """`tensors`: those of the step that was asked for. `histories`: of each tensor that was asked for,
    hashes beside `steps`, empty where it was not there. `why`: the rank no longer keeps hashes."""

    every: int = 0
    kinds: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()
    seconds: float = 0.0
    why: str = ""
    tensors: tuple[ReplicaTensor, ...] = ()
    histories: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class ModuleCall:
    """A call of a module; or, `phase` backward, of a node of autograd that it has made, whose name is
    the `type`. `part`: of DTensors, which part this rank is given and makes: ranks with other parts
    rightly differ. `random`: it has drawn random numbers."""

    name: str
    type: str = ""
    inputs: str = ""
    parameters: str = ""
    outputs: str = ""
    random: bool = False
    device: str = ""
    phase: str = "forward"
    part: str = ""


@dataclass(frozen=True)
class OperatorCall:
    """An operator of the module that was asked for, or a node of its backward pass. `arguments`: those
    that are no tensors. `repeated`: outputs when it is repeated; empty: it was not. `free`: equal inputs
    need not make equal outputs (random, memory, other ranks)."""

    name: str
    phase: str = "forward"
    arguments: str = ""
    inputs: str = ""
    outputs: str = ""
    repeated: str = ""
    free: str = ""


@dataclass(frozen=True)
class ModuleCalls:
    """`passed` and `why` as in ReplicaHashes; `gpu`: on which the modules ran; `kind`: of GPU or
    processor, and the version of torch."""

    calls: tuple[ModuleCall, ...] = ()
    operators: tuple[OperatorCall, ...] = ()
    step: int | None = None
    gpu: str = ""
    kind: str = ""
    passed: bool = False
    why: str = ""
