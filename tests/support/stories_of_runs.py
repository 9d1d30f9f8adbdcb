"""Small jobs whose logs also tell of something else: of a run before, of the cluster's other pods and
nodes, of another job on the same GPU; and of places that only a later line names."""

from __future__ import annotations

from stories import GPUS, Story

ONE = ("node-1",)
PODS = ("trainer-1", "trainer-2")
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 6.00 GiB. GPU 3 has a total capacity of 79.1 GiB"
MISSING = "ModuleNotFoundError: No module named 'flash_attn'"
ILLEGAL = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
EVICTED = (
    "The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 3Gi."
)
KILLED = "Memory cgroup out of memory: Killed process 4177 (java) total-vm:71223344kB, anon-rss:40112233kB, file-rss:0kB"


# --- runs in one log ------------------------------------------------------------------------------


def _launched(story: Story, path: str, second: float) -> None:
    stamp = f"W{story.at(second):%m%d %H:%M:%S}.000000 611 torch/distributed/run.py:792]"
    story.put(path, second, f"{stamp} Setting OMP_NUM_THREADS environment variable for each process to be 1 in default")  # fmt: skip


def _failed(story: Story, path: str, second: float, rank: int, error: str) -> None:
    stamp = f"E{story.at(second):%m%d %H:%M:%S}.000000 611 torch/distributed/elastic/multiprocessing/api.py:874]"
    story.put(
        path, second,
        *(f"[rank{rank}]: {line}" for line in ("Traceback (most recent call last):", '  File "/work/train.py", line 9, in <module>', "    main()", error)),
        f"{stamp} failed (exitcode: 1) local_rank: {rank % GPUS} (pid: {story.pid(rank)}) of binary: /usr/bin/python3",
    )  # fmt: skip


def _runs(story: Story, again: float, first: str, second: str) -> Story:
    """A launcher's log of two runs."""
    path = "node-1/launch.log"
    _launched(story, path, 10)
    _failed(story, path, 40, 3, first)
    _launched(story, path, again)
    _failed(story, path, again + 30, 5, second)
    return story


def launcher_that_was_started_again() -> Story:
    """A trial of the day before has died of something else."""
    return _runs(Story(("import_failed",), 5, hosts=ONE), 7200, OOM, MISSING)


def launcher_that_has_failed_alike() -> Story:
    """It was started again and again: it has failed since the first time."""
    return _runs(Story(("cuda_oom",), 3, hosts=ONE), 7200, OOM, OOM)


def launchers_of_two_hosts_in_one_log() -> Story:
    """The second begins when a rank of the first has failed already."""
    story = Story(("cuda_oom",), 3)
    path = "slurm-7.out"
    _launched(story, path, 10)
    _failed(story, path, 40, 3, OOM)
    _launched(story, path, 55)
    _failed(story, path, 300, 9, "torch.distributed.DistStoreError: wait timeout after 240000ms, keys: /default_pg/0//cuda//0/1")  # fmt: skip
    return story


def _closed(story: Story, rank: int, second: float) -> None:
    story.put(f"job_{rank}.err", second, f"[rank{rank}]:[E{story.glog(second)} ProcessGroupNCCL.cpp:1895] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Process group watchdog thread terminated with exception: NCCL error: remote process exited or there was a network error, NCCL version 2.26.2")  # fmt: skip


def _raised(story: Story, rank: int, second: float) -> None:
    lines = ("Traceback (most recent call last):", '  File "/work/train.py", line 9, in step', "    loss.backward()", ILLEGAL)  # fmt: skip
    story.put(f"job_{rank}.err", second, *(f"[rank{rank}]: {line}" for line in lines))


def _begun(story: Story, second: float) -> None:
    for rank in range(GPUS):
        story.put(f"job_{rank}.err", second, f"LOCAL_RANK: {rank} - CUDA_VISIBLE_DEVICES: [0,1,2,3,4,5,6,7]")  # fmt: skip


def job_that_slurm_has_put_back() -> Story:
    """The files of each rank have both runs; the first has died of an error, the last one was preempted."""
    story = Story(("slurm_requeue_preempted",), hosts=ONE)
    _begun(story, 30)
    _raised(story, 5, 161)
    for rank in story.others(5):
        _closed(story, rank, 163)
    _begun(story, 4000)
    stamp = f"{story.at(4201):%Y-%m-%dT%H:%M:%S}"
    story.put("job_0.err", 4201, f"slurmstepd: error: *** STEP 7.0 ON node-1 CANCELLED AT {stamp} DUE TO PREEMPTION ***")  # fmt: skip
    _closed(story, 5, 4202)
    return story


def job_that_was_never_put_back() -> Story:
    """The same error in the only run."""
    story = Story(("cuda_illegal_access",), 5, hosts=ONE)
    _begun(story, 30)
    _raised(story, 5, 161)
    for rank in story.others(5):
        _closed(story, rank, 163)
    return story


# --- other pods and nodes ---------------------------------------------------------------------------


def _events(story: Story, *rows: str) -> Story:
    head = "LAST SEEN   TYPE      REASON             OBJECT                     MESSAGE"
    story.put("kubectl-get-events.txt", 1300, head, *rows)
    return story


def _pods(story: Story, until: float) -> Story:
    """Pods of which only folders, without lines that a rule knows, tell the names."""
    for rank in range(story.world):
        story.put(f"{story.host_of(rank)}/raylet.out", 30, f"{story.clock(30)} raylet starts")
        for step in range(1, int((until - 60) / 5)):
            story.put("driver.log", 60.0 + 5 * step, f"[rank{rank}]: {story.clock(60 + 5 * step)} step {step} | loss 2.1 | gnorm 0.5")  # fmt: skip
    return story


def evictions_of_strangers() -> Story:
    """A pod of the job was evicted, hours after one of the cluster's dashboards."""
    story = _pods(Story(("k8s_evicted_ephemeral_storage",), host="trainer-2", hosts=PODS), 600)
    for rank in range(GPUS):
        story.put("driver.log", 612, f"[rank{rank}]:[E{story.glog(612)} ProcessGroupNCCL.cpp:2068] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Process group watchdog thread terminated with exception: NCCL error: remote process exited or there was a network error, NCCL version 2.26.2")  # fmt: skip
    return _events(
        story,
        "4h12m       Warning   Evicted            pod/dashboard-7c9d-x2vkq   The node was low on resource: memory. Threshold quantity: 100Mi, available: 71Mi.",
        f"12m         Warning   Evicted            pod/trainer-2              {EVICTED}",
    )


def evictions_of_strangers_beside_a_healthy_job() -> Story:
    return _events(
        _pods(Story((), hosts=PODS), 1290),
        "31m         Normal    Scheduled          pod/trainer-2              Successfully assigned ml/trainer-2 to gpu-17",
        f"12m         Warning   Evicted            pod/web-5d8f7-lm4zt        {EVICTED}",
        f"11m         Warning   OOMKilling         node/cpu-4                 {KILLED}",
    )


def kill_on_the_node_of_a_pod() -> Story:
    """A process was killed where a pod of the job runs."""
    return _events(
        _pods(Story(("k8s_oomkilled", "host_oom_kernel"), hosts=PODS), 600),
        "31m         Normal    Scheduled          pod/trainer-2              Successfully assigned ml/trainer-2 to gpu-17",
        f"11m         Warning   OOMKilling         node/gpu-17                {KILLED.replace('java', 'python3')}",
    )


# --- kernels and machines ---------------------------------------------------------------------------


def _hung(story: Story, *told: tuple[float, str]) -> Story:
    """A job that prints local time, seven hours behind UTC, and its last steps without a clock. The
    kernel prints UTC, and says so."""
    story.nccl_init()
    for rank in range(GPUS):
        story.put(story.err(rank), 40, f"{story.clock(40)} INFO training begins")
    for step in range(1, 60):
        story.put("job.log", 60 + step, f"iteration {step}/ 900 | loss 2.1 | gnorm 0.5")
    for rank in story.others(6):
        story.timeout(rank, 3200)
    for second, text in told:
        story.put("node-1/dmesg.log", second, f"{story.at(second + 7 * 3600):%Y-%m-%dT%H:%M:%S},000000+00:00 {text}")  # fmt: skip
    return story


def gpu_that_stops_long_after_the_last_clock() -> Story:
    """The time-outs say when the ranks began to wait. Hours before, another job had an error on a GPU."""
    return _hung(
        Story(("xid_119_gsp_timeout",), 6, "node-1", hosts=ONE),
        (2600.0 - 10.5 * 3600, "NVRM: Xid (PCI:0000:3a:00): 13, pid=55120, name=python, Graphics SM Warp Exception on (GPC 2, TPC 4, SM 1): Out Of Range Address"),
        (2601.0, "NVRM: Xid (PCI:0000:ba:00): 119, pid=7006, name=pt_main_thread, Timeout after 45s of waiting for RPC response from GPU6 GSP! Expected function 76 (GSP_RM_CONTROL) (0x20803001 0x8)."),
    )  # fmt: skip


def _ports(story: Story, active: str) -> Story:
    """Requests that a server refuses, and a port that changes its state."""
    path = "node-1/serve.log"
    for number in range(60):
        second = 60.0 + 30 * number
        head = f"(APIServer pid=71) {{}} {story.at(second):%m-%d %H:%M:%S}"
        info, error = head.format("INFO"), head.format("ERROR")
        story.put(path, second, f"{info} [loggers.py:127] Engine 000: Avg prompt throughput: 1656.1 tokens/s, Avg generation throughput: 1185.0 tokens/s, Running: 5 reqs")  # fmt: skip
        if number % 6 == 2:
            lines = ("Error in preprocessing prompt inputs", "Traceback (most recent call last):", '  File "/v/serving.py", line 5, in check', "    raise ValueError(", f"ValueError: This model's maximum context length is 32768 tokens, you requested {40000 + number}")  # fmt: skip
            story.put(
                path, second + 5, *(f"{error} [serving_chat.py:256] {line}" for line in lines)
            )
    port = "node-1:312:990 [3] transport/net_ib.cc:235 NCCL WARN NET/IB : {}:1 Got async event : {}"
    story.put(path, 900, port.format("mlx5_3", "port error"))
    story.put(path, 912, port.format(active, "port active"))
    return story


def port_that_is_up_again() -> Story:
    return _ports(Story((), hosts=ONE), "mlx5_3")


def port_of_another_card_that_is_up() -> Story:
    return _ports(Story(("nccl_ib_completion_error", "python_error"), hosts=ONE), "mlx5_0")


def limit_that_stands_behind_the_line_of_a_rank() -> Story:
    """Slurm's message hangs on a line of rank 0. Minutes later its last line says who it was."""
    story = Story(("cgroup_oom_slurm",), 13, "node-2")
    path = "slurm-7.out"
    for rank in range(16):
        for step in range(50):
            second = 60 + 5.0 * step
            story.put(path, second, f"{rank}: {story.clock(second)} step {step} loss 2.1 lr 1e-4 tok/s 900")  # fmt: skip
    story.put(path, 312, f"0: {story.clock(312)} queue_depth=2 host_rss_gib=212.slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed.")  # fmt: skip
    for rank in story.others(13):
        story.put(path, 420, f"{rank}: [rank{rank}]:[E{story.glog(420)} x.cpp:1] NCCL WARN Net : Connection closed by remote peer node-2<1234>")  # fmt: skip
    story.put(path, 430, "srun: error: node-2: task 13: Out Of Memory")
    return story


STORIES_OF_RUNS = [
    launcher_that_was_started_again,
    launcher_that_has_failed_alike,
    launchers_of_two_hosts_in_one_log,
    job_that_slurm_has_put_back,
    job_that_was_never_put_back,
    evictions_of_strangers,
    evictions_of_strangers_beside_a_healthy_job,
    kill_on_the_node_of_a_pod,
    gpu_that_stops_long_after_the_last_clock,
    port_that_is_up_again,
    port_of_another_card_that_is_up,
    limit_that_stands_behind_the_line_of_a_rank,
]
