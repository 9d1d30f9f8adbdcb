"""Small jobs in which one host has other versions than all others, which matters or does not."""

from __future__ import annotations

from stories import GPUS, Story

HOSTS = ("node-1", "node-2", "node-3", "node-4")
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def _versions(story: Story, nccl: str = "2.27.3", torch: str = "2.7.0+cu126") -> Story:
    """Of the third host; the others have the default ones."""
    for rank in range(story.world):
        host, pid = story.host_of(rank), story.pid(rank)
        is_odd = host == HOSTS[2]
        story.put(
            story.err(rank), 5, f"{story.clock(5)} [rank{rank}] env: torch=={torch if is_odd else '2.7.0+cu126'}",
            f"{host}:{pid}:{pid} [{rank % GPUS}] NCCL INFO NCCL version {nccl if is_odd else '2.27.3'}+cuda12.9",
        )  # fmt: skip
    return story


def other_nccl_and_an_internal_error() -> Story:
    """All ranks fail in the first collective; none says why."""
    story = _versions(Story(("nccl_version_mismatch",), host=HOSTS[2], hosts=HOSTS), nccl="2.26.2")
    for rank in range(story.world):
        story.traceback(rank, 31, "torch.distributed.DistBackendError: NCCL error in: /pytorch/NCCLUtils.cpp:94, internal error - please report this issue to the NCCL developers", "ncclInternalError: Internal check failed.")  # fmt: skip
    return story


def other_torch_and_an_error_that_it_raises() -> Story:
    story = _versions(Story(("version_mismatch",), host=HOSTS[2], hosts=HOSTS), torch="2.5.1+cu124")
    for rank in range(2 * GPUS, 3 * GPUS):
        story.traceback(
            rank, 31, "AttributeError: module 'torch.distributed' has no attribute 'reset'"
        )
    for rank in story.others(*range(2 * GPUS, 3 * GPUS)):
        story.closed(rank, 33, HOSTS[2])
    return story


def other_versions_of_a_healthy_job() -> Story:
    story = _versions(Story((), hosts=HOSTS), "2.26.2", "2.5.1+cu124")
    story.steps(300)
    return story


def other_versions_and_an_error_of_something_else() -> Story:
    story = _versions(Story(("cuda_oom",), 17, hosts=HOSTS), "2.26.2", "2.5.1+cu124")
    story.traceback(17, 31, OOM)
    for rank in story.others(17):
        story.closed(rank, 33, HOSTS[2])
    return story


def other_versions_with_which_a_job_has_trained() -> Story:
    story = _versions(Story(("segfault",), 17, hosts=HOSTS), "2.26.2")
    story.steps(300)
    story.put(story.err(17), 301, "Fatal Python error: Segmentation fault")
    for rank in story.others(17):
        story.closed(rank, 303, HOSTS[2])
    return story


STORIES_OF_VERSIONS = [
    other_nccl_and_an_internal_error,
    other_torch_and_an_error_that_it_raises,
    other_versions_of_a_healthy_job,
    other_versions_and_an_error_of_something_else,
    other_versions_with_which_a_job_has_trained,
]
