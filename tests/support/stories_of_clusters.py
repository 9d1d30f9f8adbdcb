"""More stories of jobs: on Kubernetes, Ray, Slurm, with DeepSpeed, SGLang and Lightning. What is
hard in them is mostly where it happened: in which file, table or label a host or rank is named."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stories import STEP, Story

REMOTE = "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely."
RAISED = (
    "Traceback (most recent call last):",
    '  File "/work/train.py", line 144, in main',
    "    loss = step(batch)",
)


def _steps(
    story: Story, path: str, ranks: Sequence[int], until: float, begin: float = 60.0
) -> None:
    """Of several ranks in one file."""
    for number in range(1, int((until - begin) / STEP)):
        second = begin + number * STEP
        for rank in ranks:
            story.put(path, second, f"[rank{rank}]: {story.clock(second)} INFO step {number} loss {3 - number * 0.001:.4f} lr 1e-4")  # fmt: skip


def _raised(story: Story, path: str, second: float, prefix: str, *errors: str) -> None:
    story.put(path, second, *(f"{prefix}{line}" for line in (*RAISED, *errors)))


def _closed(story: Story, path: str, rank: int, second: float, peer: str, prefix: str = "") -> None:
    story.put(
        path, second,
        f"{prefix}[rank{rank}]:[E{story.glog(second)} ProcessGroupNCCL.cpp:2068] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Process group watchdog thread terminated with exception: NCCL error: remote process exited or there was a network error, NCCL version 2.26.2",
        f"{prefix}{REMOTE}",
        f"{prefix}socketProgress: Connection closed by remote peer {peer}<43121>",
    )  # fmt: skip


def _timeout(story: Story, path: str, rank: int, second: float, operation: str = "ALLREDUCE", prefix: str = "") -> None:  # fmt: skip
    story.put(path, second, f"{prefix}[rank{rank}]:[E{story.glog(second)} ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=811, OpType={operation}, NumelIn=9, NumelOut=9, Timeout(ms)=600000) ran for 600021 milliseconds before timing out.")  # fmt: skip


# --- Kubernetes ---------------------------------------------------------------------------------


def preempted_pod() -> Story:
    """One file a pod, and only events say which of them had to go."""
    pods = [f"llm-worker-{n}" for n in range(4)]
    story = Story(("slurm_requeue_preempted", "torchrun_sigterm_external"), host="llm-worker-2")
    for n, pod in enumerate(pods):
        _steps(story, f"pods/{pod}.log", (n * 4, n * 4 + 1), 800)
        if n == 2:
            story.put(f"pods/{pod}.log", 801.3, f"W{story.at(801):%m%d %H:%M:%S}.300000 7 torch/distributed/elastic/agent/server/api.py:719] Received 15 death signal, shutting down workers")  # fmt: skip
            continue
        for rank in range(n * 4, n * 4 + 4):
            _closed(story, f"pods/{pod}.log", rank, 803, "10.244.3.17")
    story.put("events.txt", 1, f"{story.at(1):%Y-%m-%dT%H:%M:%SZ} Warning FailedScheduling pod/llm-worker-2 0/12 nodes are available: 12 Insufficient nvidia.com/gpu.", f"{story.at(9):%Y-%m-%dT%H:%M:%SZ} Normal Scheduled pod/llm-worker-2 Successfully assigned ml/llm-worker-2 to gke-2")  # fmt: skip
    story.put("events.txt", 801, f"{story.at(801):%Y-%m-%dT%H:%M:%SZ} Normal Preempted pod/llm-worker-2 Preempted by pod 3b0c2d1e on node gke-2")  # fmt: skip
    return story


def pod_in_a_table() -> Story:
    """Which of eight pods was killed stands in a row of `kubectl get pods` only."""
    pods = [f"pretrain-0-{n}" for n in range(8)]
    story = Story(("k8s_oomkilled",), host="pretrain-0-5")
    for n, pod in enumerate(pods):
        _steps(story, f"{pod}.txt", (n,), 500)
        if n != 5:
            _closed(story, f"{pod}.txt", n, 503, "10.4.5.7")
    rows = [f"{pod}   0/1   {'OOMKilled' if n == 5 else 'Error'}   0   31m" for n, pod in enumerate(pods)]  # fmt: skip
    story.put("pods.txt", 900, "NAME   READY   STATUS   RESTARTS   AGE", *rows)
    return story


def pod_in_a_description() -> Story:
    """`kubectl describe` of all pods in one file: the name stands lines above the reason."""
    pods = [f"sft-worker-{n}" for n in range(4)]
    story = Story(("k8s_evicted_ephemeral_storage",), host="sft-worker-3")
    for n, pod in enumerate(pods):
        _steps(story, f"{pod}/main.log", (n,), 500)
        if n != 3:
            _closed(story, f"{pod}/main.log", n, 503, "10.4.5.7")
        story.put("describe.txt", 600 + n, f"Name:             {pod}", f"Status:           {'Failed' if n == 3 else 'Running'}")  # fmt: skip
        if n == 3:
            story.put("describe.txt", 600 + n, "Reason:           Evicted", "Message:          The node was low on resource: ephemeral-storage. Container main was using 412Gi, request is 0.")  # fmt: skip
        story.put("describe.txt", 600 + n, "Events:           <none>")
    return story


# --- Slurm and pdsh -----------------------------------------------------------------------------


def task_that_is_a_launcher() -> Story:
    """Slurm's task 2 is a torchrun with eight ranks, of which one was killed: rank 21."""
    hosts = [f"gpu-f0{n}" for n in range(1, 5)]
    story = Story(("cgroup_oom_slurm",), 21, "gpu-f03", hosts=hosts)
    path = "slurm-880.out"
    for number in range(1, 80):
        story.put(path, 60 + number * STEP, f"3: [default7]: [{story.clock(60 + number * STEP)}] iteration {number}/900 | lm loss: 2.1 | grad norm: 0.3")  # fmt: skip
    story.put(path, 461, "slurmstepd: error: Detected 1 oom_kill event in StepId=880.0. Some of the step tasks have been OOM Killed.")  # fmt: skip
    for rank in [*range(16), *range(24, 32)]:
        _closed(story, path, rank, 462, "gpu-f03", f"{rank // 8}: [default{rank % 8}]:")
    for n, rank, code in ((2, 21, -9), (0, 3, -6)):
        story.put(path, 464 + (n != 2), *(f"{n}: {line}" for line in ("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", "Root Cause (first observed failure):", "[0]:", f"  time      : {story.at(464):%Y-%m-%d_%H:%M:%S}", f"  host      : {hosts[n]}", f"  rank      : {rank} (local_rank: {rank % 8})", f"  exitcode  : {code} (pid: {20000 + rank})")))  # fmt: skip
    story.put(path, 468, "srun: error: gpu-f03: task 2: Out Of Memory", "srun: error: gpu-f01: task 0: Exited with exit code 1")  # fmt: skip
    return story


def labels_of_pdsh() -> Story:
    """Only labels say on which host the copy of a checkpoint is cut short."""
    story = Story(("checkpoint_corrupt",), host="ds2")
    path = "ds_run.log"
    for rank in range(24):
        label = f"ds{rank // 8 + 1}: "
        story.put(path, 3, f"{label}[{story.clock(3)}] [INFO] [launch.py:256:main] process {900 + rank} spawned with command: ['python', 'ft.py']")  # fmt: skip
        if rank // 8 == 1:
            _raised(story, path, 40, f"{label}[rank{rank}]: ", "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory")  # fmt: skip
        else:
            _timeout(story, path, rank, 660, prefix=label)
    story.put(path, 44, f"ds2: [{story.clock(44)}] [ERROR] [launch.py:325:sigkill_handler] ['python', 'ft.py'] exits with return code = 1")  # fmt: skip
    return story


def run_of_yesterday() -> Story:
    """Job 100 ran out of GPU memory a day before; job 101 is over its quota."""
    story = Story(("disk_quota",), 2)
    for job, begin, rank, error in (
        (100, -86_400.0, 7, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.91 GiB."),
        (101, 0.0, 2, "OSError: [Errno 122] Disk quota exceeded: '/home/u/ck/__2_0.distcp'"),
    ):  # fmt: skip
        path = f"slurm-{job}.out"
        for number in range(1, 100):
            second = begin + 60 + number * 3
            for label in range(0, 16, 5):
                story.put(path, second, f"{label:2d}: {story.clock(second)} step {number} loss 2.1 tok/s 900")  # fmt: skip
        _raised(story, path, begin + 360, f"{rank:2d}: [rank{rank}]: ", error)
        for other in story.others(rank):
            _closed(story, path, other, begin + 363, "s01", f"{other:2d}: ")
    return story


def files_called_after_ranks() -> Story:
    """45.err has the only traceback, of a library whose errors are not called errors."""
    hosts = [f"cn-0{n}" for n in range(8)]
    story = Story(("python_error",), 45, "cn-05", hosts=hosts)
    for rank in range(64):
        folder = f"logs/{story.host_of(rank)}"
        for number in range(1, 60):
            second = 60 + number * STEP
            story.put(f"{folder}/{rank}.out", second, f"{story.clock(second)} global_step={number} train_loss=2.1 lr=0.0001")  # fmt: skip
        if rank == 45:
            _raised(story, f"{folder}/{rank}.err", 361, "", "pyarrow.lib.ArrowInvalid: Parquet magic bytes not found in footer.")  # fmt: skip
        else:
            _timeout(story, f"{folder}/{rank}.err", rank, 961)
    return story


def finished_with_its_own_words() -> Story:
    """Megatron says that it is done; two ranks are slow to go, and complain."""
    story = Story(())
    story.steps(900)
    story.put(story.out(0), 901, f"[after training is done] datetime: {story.at(901):%Y-%m-%d %H:%M:%S} ")  # fmt: skip
    for rank in (3, 9):
        _closed(story, story.err(rank), rank, 905, "node-1")
    return story


def restart_without_clocks() -> Story:
    """The traces of attempt 0 have no clock after them; attempt 1 trained to its end."""
    story = Story(())
    story.steps(400)
    story.put(story.err(13), 401, "Fatal Python error: Segmentation fault", "", "Current thread 0x00007f5c (most recent call first):", '  File "/work/data.py", line 44 in decode')  # fmt: skip
    for rank in story.others(13):
        _closed(story, story.err(rank), rank, 402, "node-2")
    story.steps(1200, begin=500, attempt=1, first=60)
    return story


# --- who is the odd one -------------------------------------------------------------------------


def one_in_another_collective() -> Story:
    """All ranks time out, one of them in another collective."""
    story = Story(("nccl_watchdog_timeout_desync",), 3, "node-1")
    story.steps(500)
    for rank in range(16):
        _timeout(story, story.err(rank), rank, 1101, "ALLGATHER" if rank == 3 else "ALLREDUCE")
    return story


def mismatch_that_all_report() -> Story:
    """Each rank says what it runs, and that another one runs something else."""
    story = Story(("collective_mismatch",), 3, "node-1")
    story.steps(500)
    for rank in range(16):
        own, other = ("BROADCAST", "ALLREDUCE") if rank == 3 else ("ALLREDUCE", "BROADCAST")
        story.traceback(rank, 501, f"RuntimeError: Detected mismatch between collectives on ranks. Rank {rank} is running collective: CollectiveFingerPrint(SequenceNumber=881, OpType={own}, TensorShape=[4096], TensorDtypes=Float), but Rank {0 if rank == 3 else 3} is running collective: CollectiveFingerPrint(SequenceNumber=881, OpType={other}, TensorShape=[4096], TensorDtypes=Float).")  # fmt: skip
    return story


def barrier_that_one_misses() -> Story:
    """Rank 0 names the rank that it has waited for; the others name rank 0."""
    story = Story(("collective_mismatch",), 5)
    for rank in range(16):
        story.put("job.log", 3, f"[rank{rank}]: {story.clock(3)} INFO preparing data")
    _raised(story, "job.log", 1825, "[rank0]: ", "RuntimeError: Rank 5 failed to pass monitoredBarrier in 1800000 ms")  # fmt: skip
    for rank in story.others(0, 5):
        _raised(story, "job.log", 1826, f"[rank{rank}]: ", "RuntimeError: Rank 0 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank.")  # fmt: skip
    return story


def watchdog_that_is_stuck() -> Story:
    """One rank's watchdog hangs; two minutes later the others' time out."""
    story = Story(("nccl_heartbeat_stuck",), 7, "node-1")
    story.steps(500)
    story.put(story.err(7), 981, f"[rank7]:[E{story.glog(981, 'node-1')} ProcessGroupNCCL.cpp:1537] [PG ID 0 PG GUID 0(default_pg) Rank 7] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives.")  # fmt: skip
    for rank in story.others(7):
        story.timeout(rank, 1101)
    return story


def name_that_one_node_cannot_resolve() -> Story:
    """One agent cannot resolve the endpoint; the others wait for it until their timeout."""
    hosts = [f"dn{n}" for n in range(1, 5)]
    story = Story(("rendezvous_connect_timeout",), host="dn3", hosts=hosts)
    for host in hosts:
        path = f"{host}/torchrun.log"
        story.put(path, 3, f"I{story.at(3):%m%d %H:%M:%S}.100000 90 torch/distributed/elastic/agent/server/api.py:525] [default] Rendezvous'ing worker group")  # fmt: skip
        if host == "dn3":
            story.put(path, 62, f"[E{story.glog(62)} socket.cpp:1023] [c10d] The client socket has failed to connect to any network address of (dn1.local, 29400). The IPv4 network addresses of (dn1.local, 29400) cannot be retrieved (gai error: -3 - Temporary failure in name resolution).")  # fmt: skip
        else:
            _raised(story, path, 905, "", "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError")  # fmt: skip
    return story


# --- Ray and engines ----------------------------------------------------------------------------


def error_that_ray_passes_on() -> Story:
    """The driver names first the actor that passed the error on, then the one that raised it."""
    story = Story(("python_error",), host="10.9.0.2")
    for number in range(1, 40):
        story.put("driver.log", 100 + number * 20, f"(Trainer pid=77, ip=10.9.0.1) {story.clock(100 + number * 20)} INFO step {number} loss 2.1 lr 1e-5")  # fmt: skip
    story.put(
        "driver.log", 901,
        f"{story.clock(901)} ERROR tune_controller.py:1331 -- Trial task failed for trial TorchTrainer_1",
        *RAISED,
        "ray.exceptions.RayTaskError(UnicodeDecodeError): ray::_Inner.train() (pid=77, ip=10.9.0.1, actor_id=a1, repr=TorchTrainer)",
        "ray.exceptions.RayTaskError(UnicodeDecodeError): ray::Worker.get_next() (pid=88, ip=10.9.0.2, actor_id=a2, repr=<Worker object>)",
        '  File "/app/data.py", line 41, in tokenize',
        "    text = raw.decode('utf-8')",
        "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 1081: invalid start byte",
    )  # fmt: skip
    return story


def node_in_the_next_line() -> Story:
    """Ray's error names the node only in the line after it."""
    story = Story(("ray_node_oom", "ray_actor_died_oom"), host="10.9.0.3")
    for number in range(1, 40):
        story.put("driver.log", 100 + number * 20, f"(Trainer pid=77, ip=10.9.0.1) {story.clock(100 + number * 20)} INFO step {number} loss 2.1 lr 1e-5")  # fmt: skip
    _raised(
        story, "driver.log", 901, "",
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
        "Memory on the node (IP: 10.9.0.3, ID: 77aa) where the task (actor ID: 11, name=Learner.__init__, pid=30, memory used=301.20GB) was running was 958.11GB / 1007.50GB (0.951), which exceeds the memory usage threshold of 0.95.",
    )  # fmt: skip
    return story


def traceback_announced_by_its_rank() -> Story:
    """SGLang writes the rank in the line before a traceback only; 15 watchdogs follow."""
    story = Story(("cuda_illegal_access",), 5)
    for second in range(300, 2400, 30):
        story.put("node0.log", second, f"[{story.at(second):%Y-%m-%d %H:%M:%S} TP0] Decode batch. #running-req: 31, gen throughput (token/s): 1811.2")  # fmt: skip
    story.put(
        "node0.log", 2401,
        f"[{story.at(2401):%Y-%m-%d %H:%M:%S} TP5] Scheduler hit an exception: Traceback (most recent call last):",
        '  File "/sgl/scheduler.py", line 2215, in run_scheduler_process',
        "    scheduler.event_loop_overlap()",
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
    )  # fmt: skip
    for rank in story.others(5):
        story.put(f"node{rank // 8}.log", 2701, f"[{story.at(2701):%Y-%m-%d %H:%M:%S} TP{rank}] Watchdog timeout (self.watchdog_timeout=300, self.soft=False)")  # fmt: skip
    return story


STORIES_OF_CLUSTERS: list[Callable[[], Story]] = [
    preempted_pod,
    pod_in_a_table,
    pod_in_a_description,
    task_that_is_a_launcher,
    labels_of_pdsh,
    run_of_yesterday,
    files_called_after_ranks,
    finished_with_its_own_words,
    restart_without_clocks,
    one_in_another_collective,
    mismatch_that_all_report,
    barrier_that_one_misses,
    watchdog_that_is_stuck,
    name_that_one_node_cannot_resolve,
    error_that_ray_passes_on,
    node_in_the_next_line,
    traceback_announced_by_its_rank,
]
