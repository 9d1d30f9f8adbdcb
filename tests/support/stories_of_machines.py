"""Small jobs whose cause only other logs tell: of kernels in another zone, of the controllers of
machines, of the schedulers of a cluster. Beside each the twin in which the same log accuses nobody."""

from __future__ import annotations

from datetime import timedelta

from stories import BUS, EPOCH, GPUS, Story

UTC7 = timedelta(hours=-7)


def _job(story: Story, until: float = 600.0) -> Story:
    story.nccl_init()
    story.steps(until)
    return story


def _lost(story: Story, rank: int) -> Story:
    for other in story.others(rank):
        story.closed(other, 604, story.host_of(rank))
    return story


# --- zones and names of kernels' logs ---------------------------------------------------------------


def _xid(story: Story, second: float, rank: int, node: str) -> None:
    """As journalctl -k -o short-iso prints it, in another zone than the job."""
    moment = EPOCH + timedelta(seconds=second) + UTC7
    story.put(f"nodes/{node}-journal-k.txt", second, f"{moment:%Y-%m-%dT%H:%M:%S}-0700 {node} kernel: NVRM: Xid (PCI:0000:{BUS[rank % GPUS]}:00): 79, pid=912, name=python3, GPU has fallen off the bus.")  # fmt: skip


def kernel_that_prints_its_zone() -> Story:
    story = _lost(_job(Story(("xid_79_off_bus",), 11, "node-2")), 11)
    _xid(story, 601, 11, "node-2")
    return story


def _placed(story: Story, *nodes: str) -> Story:
    """Pods that are called otherwise than their nodes."""
    for pod, node in zip(story.hosts, nodes, strict=True):
        story.put("events.txt", 5, f"118m        Normal    Scheduled                 pod/{pod}                Successfully assigned train/{pod} to {node}")  # fmt: skip
    return story


def kernel_of_the_node_of_a_pod() -> Story:
    story = _lost(_job(Story(("xid_79_off_bus",), 11, hosts=("sft-0", "sft-1"))), 11)
    _placed(story, "metal-7", "metal-9")
    _xid(story, 601, 11, "metal-9")
    return story


# --- file servers ------------------------------------------------------------------------------------


def _nfs(story: Story, second: float, server: str, text: str, host: str) -> None:
    """Its clock is four hours ahead, and does not say so."""
    moment = EPOCH + timedelta(seconds=second, hours=4)
    story.put(f"{host}/journal.txt", second, f"{moment:%b %d %H:%M:%S} {host} kernel: nfs: server {server} {text}")  # fmt: skip


def file_server_that_stays_away() -> Story:
    """Another one was away before, which by a nearer zone would have been at the end."""
    story = _job(Story(("nfs_not_responding",), 2, "node-1"))
    _nfs(story, -4800, "home", "not responding, still trying", "node-2")
    _nfs(story, -4790, "home", "OK", "node-2")
    _nfs(story, 598, "data", "not responding, still trying", "node-1")
    _nfs(story, 620, "home", "OK", "node-1")
    for rank in story.others(2):
        story.timeout(rank, 1200)
    return story


# --- controllers of machines, and JAX ------------------------------------------------------------------


def _sel(story: Story, host: str, second: float, event: str) -> None:
    story.put(f"bmc/{host}-sel.txt", second, f"   4 | {story.at(second):%m/%d/%Y | %H:%M:%S} UTC | Memory #0x87 | {event} | DIMM_B1 | Asserted")  # fmt: skip


def _heartbeats(story: Story, task: int) -> Story:
    """One task on each host: the coordinator, in the log of the first, misses one of them."""
    for rank in range(4):
        path = f"task-{rank}.log"
        for step in range(1, 100):
            story.put(path, step * 5, f"I{story.glog(step * 5)} 30100 train.py:188] step={step} loss=2.9 step_time=4.4s")  # fmt: skip
        if rank != task:
            story.put(path, 601, f"F{story.glog(601)} 30190 client.h:80] Terminating process because the JAX distributed service detected fatal errors. This most likely indicates that another task died")  # fmt: skip
    story.put("task-0.log", 600, f"E{story.glog(600)} 30188 coordination_service.cc:1170] /job:jax_worker/replica:0/task:{task} has been set to ERROR in coordination service: UNAVAILABLE: Task /job:jax_worker/replica:0/task:{task} heartbeat timeout. This indicates that the remote task has failed, got preempted, or crashed unexpectedly.")  # fmt: skip
    return story


def task_without_heartbeats() -> Story:
    return _heartbeats(Story(("jax_task_lost",), 2), 2)


def host_whose_controller_tells() -> Story:
    story = _heartbeats(Story(("host_hardware_error",), 2, "node-3"), 2)
    for host in ("node-1", "node-2", "node-4"):
        _sel(story, host, 498, "Correctable ECC")
    _sel(story, "node-3", 499, "Uncorrectable ECC")
    return story


def hosts_whose_controllers_tell_of_corrected_errors() -> Story:
    story = _job(Story(()))
    for host in story.hosts:
        _sel(story, host, 300, "Correctable ECC")
    return story


# --- schedulers ----------------------------------------------------------------------------------------


def _cancelled(story: Story, job: int, second: float) -> Story:
    """The controller's log is of all jobs of a cluster."""
    story.put("slurm-4711.out", 0, "running on node-1, node-2")
    for number, other in enumerate((4698, job)):
        moment = story.at(second - 300 * (1 - number))
        story.put("slurmctld.log", second + number, f"[{moment:%Y-%m-%dT%H:%M:%S}.078] _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId={other} uid 20417")  # fmt: skip
    return story


def job_that_a_user_cancels() -> Story:
    story = _cancelled(_job(Story(("slurm_cancelled_by_user",))), 4711, 601)
    story.put("slurm-4711.out", 602, f"slurmstepd: error: *** JOB 4711 ON node-1 CANCELLED AT {story.at(602):%Y-%m-%dT%H:%M:%S} ***")  # fmt: skip
    return story


def job_of_others_that_a_user_cancels() -> Story:
    return _cancelled(_job(Story(())), 4720, 500)


def _pods(story: Story, node: str, pod: str) -> Story:
    story.put(
        "events.txt", 5, "5m    Normal    Started      pod/node-1   Started container trainer"
    )
    moment = f"{story.at(300):%Y-%m-%dT%H:%M:%S}Z"
    story.put("events.txt", 300, f"{moment}   Warning   OOMKilling   node/{node}   Memory cgroup out of memory: Killed process 911233 (exporter) total-vm:812004kB, anon-rss:262100kB, file-rss:0kB, shmem-rss:0kB, UID:65534 pgtables:812kB oom_score_adj:999")  # fmt: skip
    story.put(
        "events.txt", 301, f"{moment}   Warning   NodeNotReady   pod/{pod}   Node is not ready"
    )
    return story


def pods_of_others_beside_a_healthy_job() -> Story:
    """Its lines have no clocks, so that nothing else says that it went on."""
    story = Story(())
    for host in story.hosts:
        for step in range(1, 60):
            story.put(f"pods/{host}.log", step, f"step {step} loss 2.{step}")
    return _pods(story, "metal-3", "evaluation-7")


# --- servers and trainers ------------------------------------------------------------------------------


def reward_that_fails_while_epochs_go_on() -> Story:
    """Neither a step nor a clock, but epochs."""
    story = Story(())
    for number in range(40):
        story.put("train.log", number, f"{{'loss': 0.0{number + 10}, 'grad_norm': 0.2, 'reward': 0.5, 'epoch': 0.{number + 10}}}")  # fmt: skip
    story.put("train.log", 20.5, "Traceback (most recent call last):", '  File "/w/rewards.py", line 22, in verify', "    raise TimeoutError('too slow')", "TimeoutError: too slow")  # fmt: skip
    return story


def _engine(story: Story, later: str) -> Story:
    for second in range(0, 600, 10):
        rate = "98.1" if second < 300 else later
        story.put("vllm.log", second, f"(APIServer pid=198) INFO {story.at(second):%m-%d %H:%M:%S} [loggers.py:127] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: {rate} tokens/s, Running: 4 reqs")  # fmt: skip
    story.put("vllm.log", 360, f"(EngineCore_DP0 pid=398) INFO {story.at(360):%m-%d %H:%M:%S} [shm_broadcast.py:466] No available shared memory broadcast block found in 60 seconds.")  # fmt: skip
    return story


def engine_that_hangs() -> Story:
    return _engine(Story(("vllm_worker_hang",)), "0.0")


def engine_that_was_idle() -> Story:
    story = _engine(Story(()), "97.0")
    story.put("vllm.log", 420, f"(EngineCore_DP0 pid=398) INFO {story.at(420):%m-%d %H:%M:%S} [block_pool.py:390] Successfully reset prefix cache")  # fmt: skip
    return story


def gpu_that_only_its_number_names() -> Story:
    """Of a server whose log names its workers, and no bus."""
    story = _engine(Story(("xid_119_gsp_timeout",), 5, "node-2", hosts=("node-1", "node-2")), "0.0")
    story.lines["node-2/vllm.log"] = story.lines.pop("vllm.log")
    for host in story.hosts:
        for rank in range(GPUS):
            story.put(f"{host}/vllm.log", 1, f"(Worker_TP{rank} pid={508 + rank}) INFO {story.at(1):%m-%d %H:%M:%S} [parallel_state.py:1208] rank {rank} in world size 8 is assigned as DP rank 0, PP rank 0, TP rank {rank}, EP rank {rank}")  # fmt: skip
    story.put("node-2/dmesg", 310, "[876442.627492] NVRM: Xid (PCI:0000:ab:00): 119, pid=90513, name=VLLM::Worker_TP, Timeout after 45s of waiting for RPC response from GPU5 GSP! Expected function 76 (GSP_RM_CONTROL).")  # fmt: skip
    return story


# --- Ray -----------------------------------------------------------------------------------------------


def actor_that_the_memory_monitor_ends() -> Story:
    """The raylet names the pid; the actor's own lines name its rank in its group."""
    story = Story(("ray_node_oom",), 2, "10.9.0.4")
    for node in ("10.9.0.3", "10.9.0.4"):
        for rank in range(4):
            worker = f"{node}/logs/worker-{node[-1]}{rank}{'ab' * 27}-02000000-{8000 + 100 * int(node[-1]) + rank}.out"
            for step in range(1, 60):
                story.put(worker, step, f"[{story.clock(step)}] [INFO] [critic rank {rank}] step {step} done, loss 0.{step}")  # fmt: skip
    story.put("10.9.0.4/logs/raylet.out", 70, f"[{story.clock(70)} I 2190 2190] (raylet) node_manager.cc:2971: ", "Memory on the node (IP: 10.9.0.4, ID: eac4ee900859a92b) where the task (actor ID: ddfd48b5a6f93fc8f3776ff502000000, name=Critic.__init__, pid=8402, memory used=142.77GB) was running was 1906.31GB / 2006.58GB (0.950029), which exceeds the memory usage threshold of 0.95. Ray killed this worker")  # fmt: skip
    return story


STORIES_OF_MACHINES = [
    kernel_that_prints_its_zone,
    kernel_of_the_node_of_a_pod,
    file_server_that_stays_away,
    task_without_heartbeats,
    host_whose_controller_tells,
    hosts_whose_controllers_tell_of_corrected_errors,
    job_that_a_user_cancels,
    job_of_others_that_a_user_cancels,
    pods_of_others_beside_a_healthy_job,
    reward_that_fails_while_epochs_go_on,
    engine_that_hangs,
    engine_that_was_idle,
    gpu_that_only_its_number_names,
    actor_that_the_memory_monitor_ends,
]
