"""Small jobs of which Slurm or Kubernetes say more than their own logs: rows of sacct, records of
nodes, events that only say how long ago they were."""

from __future__ import annotations

from stories import Story

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
PODS = ("trainer-1", "trainer-2")


def _job(story: Story, lost: str = "", until: float = 600.0) -> Story:
    """`lost`: the host that the ranks of the first one have lost at the end."""
    story.nccl_init()
    story.steps(until)
    for rank in range(8) if lost else ():
        story.closed(rank, until + 3, lost)
    return story


# --- nodes of Slurm -------------------------------------------------------------------------------


def _record(story: Story, node: str, state: str, reason: str = "") -> None:
    story.put(
        "scontrol-show-node.txt", 900, f"NodeName={node} Arch=x86_64 CoresPerSocket=56",
        f"   State={state} ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A",
        "   BootTime=2026-04-02T11:00:00 SlurmdStartTime=2026-04-02T11:02:00",
        *([f"   Reason={reason}"] if reason else []),
    )  # fmt: skip


def node_that_slurm_has_lost() -> Story:
    """Slurm notices it five minutes later."""
    story = _job(Story(("slurm_node_failed",), host="node-2"), "node-2")
    _record(story, "node-1", "ALLOCATED")
    _record(story, "node-2", "DOWN*", "Not responding [slurm@2026-05-04T09:45:12]")
    return story


def node_of_others_that_slurm_has_lost() -> Story:
    story = _job(Story(("cuda_oom",), 3, "node-1"))
    story.traceback(3, 601, OOM)
    _record(story, "node-9", "DOWN*", "Not responding [slurm@2026-05-04T09:39:12]")
    return story


def node_of_others_that_is_down_beside_a_healthy_job() -> Story:
    story = _job(Story(()))
    _record(story, "node-9", "DOWN*+DRAIN", "Kill task failed [root@2026-05-04T09:39:12]")
    return story


# --- rows of sacct ---------------------------------------------------------------------------------


def _rows(story: Story, *rows: str) -> Story:
    head = "JobID|JobName|State|ExitCode|Start|End|NodeList"
    story.put("sacct.txt", 900, head, *rows)
    return story


def memory_limit_that_only_sacct_tells() -> Story:
    story = _job(Story(("cgroup_oom_slurm",), host="node-2"), "node-2")
    return _rows(
        story,
        "4711|sft|FAILED|1:0|2026-05-04T09:30:00|2026-05-04T09:40:05|node-[1-2]",
        "4711.0|srun|OUT_OF_MEMORY|0:125|2026-05-04T09:30:00|2026-05-04T09:40:01|node-2",
    )


def node_failure_that_only_sacct_tells() -> Story:
    """It names all nodes of the job; the ranks have lost one."""
    story = _job(Story(("slurm_node_failed",), host="node-2"), "node-2")
    return _rows(story, "4711|sft|NODE_FAIL|1:0|2026-05-04T09:30:00|2026-05-04T09:41:05|node-[1-2]")


def earlier_job_that_sacct_lists() -> Story:
    return _rows(
        _job(Story(())),
        "4710|sft|NODE_FAIL|1:0|2026-05-03T09:30:00|2026-05-03T09:40:00|node-[1-2]",
        "4711|sft|RUNNING|0:0|2026-05-04T09:30:00|Unknown|node-[1-2]",
    )


# --- events with ages ------------------------------------------------------------------------------


def _events(story: Story, *rows: str) -> Story:
    head = "LAST SEEN   TYPE      REASON             OBJECT                     MESSAGE"
    story.put("kubectl-get-events.txt", 1300, head, *rows)
    return story


EVICTED = (
    "The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 3Gi."
)


def eviction_of_this_run() -> Story:
    story = _job(Story(("k8s_evicted_ephemeral_storage",), host="trainer-2", hosts=PODS), PODS[1])
    return _events(
        story,
        "21m         Normal    Scheduled          pod/trainer-2              Successfully assigned ml/trainer-2 to gpu-17",
        "21m         Normal    Started            pod/trainer-2              Started container train",
        f"12m         Warning   Evicted            pod/trainer-2              {EVICTED}",
    )


def _before(story: Story) -> Story:
    """A pod of the same name was evicted, and placed again: then this run has begun."""
    return _events(
        story,
        "3h12m       Warning   NodeNotReady       pod/trainer-2              Node is not ready",
        f"3h1m        Warning   Evicted            pod/trainer-2              {EVICTED}",
        "31m         Normal    Scheduled          pod/trainer-2              Successfully assigned ml/trainer-2 to gpu-17",
    )


def eviction_before_this_run() -> Story:
    story = _job(Story(("cuda_oom",), 5, hosts=PODS))
    story.traceback(5, 601, OOM)
    return _before(story)


def eviction_before_a_healthy_run() -> Story:
    return _before(_job(Story((), hosts=PODS)))


def eviction_that_this_run_has_survived() -> Story:
    """Of a pod beside those that train: a list that is dated by the start of a container."""
    story = _job(Story((), hosts=PODS), until=1200)
    return _events(
        story,
        "21m         Normal    Started            pod/trainer-2              Started container train",
        f"14m         Warning   Evicted            pod/trainer-eval           {EVICTED}",
    )


STORIES_OF_RECORDS = [
    node_that_slurm_has_lost,
    node_of_others_that_slurm_has_lost,
    node_of_others_that_is_down_beside_a_healthy_job,
    memory_limit_that_only_sacct_tells,
    node_failure_that_only_sacct_tells,
    earlier_job_that_sacct_lists,
    eviction_of_this_run,
    eviction_before_this_run,
    eviction_before_a_healthy_run,
    eviction_that_this_run_has_survived,
]
