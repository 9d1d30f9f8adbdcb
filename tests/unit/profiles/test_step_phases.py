"""Which frames tell the phase of a step: those of the frameworks' own sources, innermost first."""

from __future__ import annotations

import pytest

from rankdbg.profiles.documents import Profile, Weighted
from rankdbg.profiles.step_phases import group_alike, shares_of
from rankdbg.types import Frame, ProcessKey, Rank
from rankdbg.verdicts.rules.profile_rules import Phases, load_profile_rules

PHASES = Phases(load_profile_rules())
SITE = "/env/lib/python3.11/site-packages"
TRAINER = f"{SITE}/transformers/trainer.py"
LIGHTNING = f"{SITE}/lightning/pytorch"
MEGATRON = f"{SITE}/megatron/core"
TORCH = f"{SITE}/torch"


def phase(*frames: str) -> str:
    """Innermost first, as `function file`."""
    return PHASES.of([Frame(*text.split(), 1) for text in frames])


IN_TRAINER = [f"Trainer._run_epoch {TRAINER}", f"Trainer._inner_training_loop {TRAINER}"]
IN_STEP = [f"Trainer.training_step {TRAINER}", *IN_TRAINER]
IN_CLOSURE = [
    f"Closure.closure {LIGHTNING}/loops/optimization/automatic.py",
    f"Optimizer.profile_hook_step.<locals>.wrapper {TORCH}/optim/optimizer.py",
    f"Precision.optimizer_step {LIGHTNING}/plugins/precision/precision.py",
]
TELLING = [
    # plain torch
    ("forward", "Linear.forward /env/lib/python3.11/site-packages/torch/nn/modules/linear.py"),
    ("forward", "Net.forward /job/net.py"),
    ("backward", f"_engine_run_backward {TORCH}/autograd/graph.py"),
    ("backward", "Exp.backward /job/exp.py"),
    ("optimizer", f"AdamW.step {TORCH}/optim/adamw.py"),
    ("optimizer", f"clip_grad_norm_ {TORCH}/nn/utils/clip_grad.py"),
    ("data", f"_BaseDataLoaderIter.__next__ {TORCH}/utils/data/dataloader.py"),
    ("communication", f"all_reduce {TORCH}/distributed/distributed_c10d.py"),
    ("checkpoint", f"save {TORCH}/serialization.py"),
    ("other", "train /job/train.py"),
    # transformers
    ("data", f"Trainer.get_batch_samples {TRAINER}", *IN_TRAINER),
    ("forward", f"Trainer.compute_loss {TRAINER}", *IN_STEP),
    ("backward", f"Accelerator.backward {SITE}/accelerate/accelerator.py", *IN_STEP),
    ("optimizer", f"AcceleratedOptimizer.step {SITE}/accelerate/optimizer.py", *IN_TRAINER),
    ("checkpoint", f"Trainer._save_checkpoint {TRAINER}", *IN_TRAINER),
    ("other", *IN_TRAINER),
    # Lightning calls forward and backward within the optimizer's step
    ("forward", "Model.training_step /job/model.py", *IN_CLOSURE),
    ("backward", f"Strategy.backward {LIGHTNING}/strategies/strategy.py", *IN_CLOSURE),
    ("optimizer", *IN_CLOSURE),
    ("data", f"_PrefetchDataFetcher.__next__ {LIGHTNING}/loops/fetchers.py"),
    # Megatron
    ("forward", f"forward_step {MEGATRON}/pipeline_parallel/schedules.py"),
    ("backward", f"backward_step {MEGATRON}/pipeline_parallel/schedules.py"),
    ("communication", f"_communicate {MEGATRON}/pipeline_parallel/p2p_communication.py"),
    ("optimizer", f"MixedPrecisionOptimizer.step {MEGATRON}/optimizer/optimizer.py"),
    (
        "communication",
        f"BridgeCommunicator.recv {MEGATRON}/pipeline_parallel/bridge_communicator.py",
    ),
    ("communication", f"x {MEGATRON}/distributed/fsdp/src/megatron_fsdp/param_and_grad_buffer.py"),
    ("forward", f"combined_forward_backward_step {MEGATRON}/pipeline_parallel/combined_1f1b.py"),
    ("checkpoint", "save_checkpoint /job/megatron/training/checkpointing.py"),
    ("data", "GPTDataset.__getitem__ /job/megatron/core/datasets/gpt_dataset.py"),
    # torchtitan
    ("forward", f"Trainer._forward_backward_body {SITE}/torchtitan/trainer.py"),
    ("forward", f"Trainer.pp_forward_backward_step {SITE}/torchtitan/trainer.py"),
    ("optimizer", f"clip_grad_norm_ {SITE}/torchtitan/distributed/utils.py"),
    ("communication", f"_dist_reduce {SITE}/torchtitan/distributed/utils.py"),
    ("communication", f"dist_sum_tensor {SITE}/torchtitan/distributed/utils.py"),
    (
        "checkpoint",
        f"BaseCheckpointManager.maybe_wait_for_staging {SITE}/torchtitan/components/checkpointer/base.py",
    ),
    ("forward", f"Trainer.forward_backward_step {SITE}/torchtitan/trainer.py"),
    ("data", f"Trainer.batch_generator {SITE}/torchtitan/trainer.py"),
    ("optimizer", f"OptimizersContainer.step {SITE}/torchtitan/components/optimizer/optimizer.py"),
    # one within another
    ("backward", "Net.forward /job/net.py", f"Tensor.backward {TORCH}/_tensor.py"),
    (
        "data",
        f"interpolate {TORCH}/nn/functional.py",
        "Images.__getitem__ /job/images.py",
        f"_MapDatasetFetcher.fetch {TORCH}/utils/data/_utils/fetch.py",
    ),
    (
        "communication",
        f"all_reduce {TORCH}/distributed/distributed_c10d.py",
        f"Tensor.backward {TORCH}/_tensor.py",
    ),
    # the import of a module
    ("other", f"<module> {TORCH}/_dynamo/convert_frame.py", "train /job/train.py"),
    (
        "optimizer",
        f"<module> {TORCH}/distributed/distributed_c10d.py",
        f"AdamW.__init__ {TORCH}/optim/adamw.py",
    ),
    # with --native
    ("communication", "c10d::Reducer::finalize_backward libtorch_cpu.so", "backward /x/_tensor.py"),
]


@pytest.mark.parametrize(("expected", "frames"), [(row[0], row[1:]) for row in TELLING])
def test_frames_that_tell(expected: str, frames: tuple[str, ...]) -> None:
    assert phase(*frames) == expected


def profile(number: int, forward: float, data: float) -> Profile:
    rank = Rank(ProcessKey("node-1", number, 0), "job", number)
    main = [
        Weighted("MainThread", True, (Frame("forward", "/job/net.py", 1),), forward),
        Weighted("MainThread", True, (Frame("x", f"{TORCH}/utils/data/a.py", 1),), data),
        Weighted("pump", False, (Frame("forward", "/job/net.py", 1),), 100.0),
    ]
    return Profile(rank, "samples", forward + data, tuple(main))


def test_ranks_that_are_alike() -> None:
    """Shares are of the main thread; a rank that is more than 10 % off is in a group of its own."""
    profiles = [profile(0, 90, 10), profile(1, 85, 15), profile(2, 40, 60)]
    alike, apart = group_alike([shares_of(each, PHASES.of) for each in profiles])
    assert (alike.indices, apart.indices) == ((0, 1), (2,))
    assert alike.shares == pytest.approx({"forward": 0.875, "data": 0.125})
    assert apart.shares == pytest.approx({"forward": 0.4, "data": 0.6})
