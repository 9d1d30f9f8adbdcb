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


def _controller(story: Story, node: str) -> Story:
    """The controller's log is of all jobs of a cluster."""
    story.put("slurmctld.log", 300, f"[{story.at(300):%Y-%m-%dT%H:%M:%S}.083] error: Nodes node-1 not responding")  # fmt: skip
    story.put("slurmctld.log", 700, f"[{story.at(700):%Y-%m-%dT%H:%M:%S}.083] error: Nodes {node} not responding, setting DOWN")  # fmt: skip
    return story


def node_that_the_controller_sets_down() -> Story:
    return _controller(_job(Story(("slurm_node_failed",), host="node-2"), "node-2"), "node-2")


def node_of_others_that_the_controller_sets_down() -> Story:
    return _controller(_job(Story(())), "node-9")


# --- what machines tell of others ------------------------------------------------------------------


def _kubelet(story: Story, second: float, text: str) -> None:
    story.put("nodes/gpu-17/kubelet.log", second, f"{story.at(second):%b %d %H:%M:%S} gpu-17 kubelet[2217]: E0504 09:40:01.613808    2217 {text}")  # fmt: skip


def image_that_a_node_cannot_fetch() -> Story:
    """Beside it a container of the cluster itself, which has nothing to do with the job."""
    story = Story(("k8s_image_pull_failed",), hosts=PODS)
    _kubelet(story, 30, 'kuberuntime_manager.go:1256] "container exited" container="node-cache" exitCode=137 reason="OOMKilled" pod="kube-system/node-cache-7kq2x"')  # fmt: skip
    _kubelet(story, 60, 'pod_workers.go:1324] "Error syncing pod, skipping" err="failed to \\"StartContainer\\" for \\"train\\" with ErrImagePull: ..." pod="ml/trainer-2"')  # fmt: skip
    for rank in range(8):
        story.put(story.out(rank), 20, f"{story.clock(20)} [rank{rank}] joins")
        story.traceback(rank, 931, "torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 8/16 clients joined.")  # fmt: skip
    return story


def container_of_the_cluster_without_memory() -> Story:
    story = _job(Story((), hosts=PODS))
    _kubelet(story, 590, 'kuberuntime_manager.go:1256] "container exited" container="node-cache" exitCode=137 reason="OOMKilled" pod="kube-system/node-cache-7kq2x"')  # fmt: skip
    return story


def _boot(story: Story, killed: str) -> Story:
    """A kernel that counts from its boot, of which the first line tells; audits quote another date."""
    path = "node-dmesg/node-2.log"
    story.put(path, -1e6, "# dmesg of node-2; boot 2026-05-04T09:00:00")
    for second in (-900, 0, 500):
        story.put(path, second, f"[{1800 + second:12.6f}] audit: type=1400 audit(1789975780.221:60069): apparmor=DENIED")  # fmt: skip
    story.put(path, 601, f"[ 2401.000000] Memory cgroup out of memory: Killed process 4242 ({killed}) total-vm:91223344kB, anon-rss:80112233kB, file-rss:0kB, shmem-rss:0kB, UID:0")  # fmt: skip
    return story


def kernel_whose_boot_is_told() -> Story:
    modes = ("k8s_oomkilled", "host_oom_kernel", "cgroup_oom")
    return _boot(_job(Story(modes, host="node-2"), "node-2"), "python3")


def kernel_that_has_killed_a_collector() -> Story:
    return _boot(_job(Story(())), "otel-collector")


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
    node_that_the_controller_sets_down,
    node_of_others_that_the_controller_sets_down,
    image_that_a_node_cannot_fetch,
    container_of_the_cluster_without_memory,
    kernel_whose_boot_is_told,
    kernel_that_has_killed_a_collector,
    memory_limit_that_only_sacct_tells,
    node_failure_that_only_sacct_tells,
    earlier_job_that_sacct_lists,
    eviction_of_this_run,
    eviction_before_this_run,
    eviction_before_a_healthy_run,
    eviction_that_this_run_has_survived,
]
