"""More stories of jobs: under MPI, PBS, SageMaker and Azure, of vLLM and TensorRT-LLM, of hosts that
switch themselves off or end silently; and their innocent twins."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timezone

from stories import EPOCH, STEP, Story
from stories_of_clusters import RAISED, _closed, _raised, _steps

# --- who wrote it -------------------------------------------------------------------------------


def mpi_rank_without_gpu_memory() -> Story:
    """TensorRT-LLM names the call that found no memory; mpirun labels the lines and ends the rest."""
    story = Story(("cuda_oom",), 6, hosts=["h1"])
    path = "mpirun.log"
    for rank in range(8):
        story.put(path, 3, f"[1,{rank}]<stdout>:[TensorRT-LLM][INFO] Rank {rank} is using GPU {rank}")  # fmt: skip
    story.put(path, 60, *(f"[1,6]<stderr>:{line}" for line in (
        "[TensorRT-LLM][ERROR] Unrecoverable exception caught: CUDA runtime error in ::cudaMallocAsync(ptr, n, mMemPool->getPool(), mCudaStream->get()): out of memory (/src/runtime/tllmBuffers.h:134)",
        "MPI_ABORT was invoked on rank 6 in communicator MPI_COMM_WORLD",
    )))  # fmt: skip
    story.put(path, 61, "[1,0]<stderr>:[h1:00900] Signal: Terminated (15)", "mpirun has exited due to process rank 6 with PID 906 on node h1 exiting without calling finalize")  # fmt: skip
    return story


def label_of_sagemaker() -> Story:
    """The label of a line has the rank and the host; the last error is of a rank that only waited."""
    story = Story(("cuda_device_assert",), 11)
    path = "algo-1.log"
    for number in range(1, 60):
        story.put(path, 60 + number * 4, f"[1,mpirank:0,algo-1]<stdout>:{{'loss': 2.1, 'learning_rate': 1e-05, 'step': {number}}}")  # fmt: skip
    story.put(path, 301, *(f"[1,mpirank:11,algo-2]<stderr>:{line}" for line in (*RAISED, "RuntimeError: CUDA error: device-side assert triggered")))  # fmt: skip
    for rank in story.others(11):
        story.put(path, 305, f"[1,mpirank:{rank},algo-{1 + rank // 8}]<stderr>:RuntimeError: NCCL communicator was aborted on rank {rank}.  Original reason for failure was: NCCL error: remote process exited or there was a network error, NCCL version 2.20.5")  # fmt: skip
    story.put(path, 308, f"{story.clock(308)} sagemaker-training-toolkit ERROR    ExecuteUserScriptError:", 'ErrorMessage "RuntimeError: NCCL communicator was aborted on rank 3."')  # fmt: skip
    return story


def files_called_after_processes() -> Story:
    """Azure's files have the rank in their names; the one that raised says it nowhere else."""
    story = Story(("python_error",), 5)
    for rank in range(16):
        path = f"user_logs/std_log_process_{rank:02d}.txt"
        for number in range(1, 50):
            story.put(path, 60 + number * STEP, f"{story.clock(60 + number * STEP)} INFO step={number} loss=1.9 lr=1e-4")  # fmt: skip
        if rank == 5:
            story.put(path, 311, *RAISED, "KeyError: 'image_mask'")
        else:
            story.put(path, 911, f"[rank{rank}]:[E{story.glog(911)} ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8, OpType=ALLREDUCE, NumelIn=9, NumelOut=9, Timeout(ms)=600000) ran for 600021 milliseconds before timing out.")  # fmt: skip
    return story


def worker_below_an_engine() -> Story:
    """vLLM: the engine's own error follows that of its workers within a few lines, in one file."""
    story = Story(("python_error",))
    path = "vllm.log"

    def say(second: float, who: str, module: str, *lines: str) -> None:
        prefix = f"({who}) ERROR {story.at(second):%m-%d %H:%M:%S} [{module}] "
        story.put(path, second, *(prefix + line for line in lines))

    for rank in range(4):
        say(30, f"Worker_TP{rank} pid={300 + rank}", "multiproc_executor.py:596", "WorkerProc hit an exception.", *RAISED, "triton.runtime.errors.PTXASError: PTXAS error: Internal Triton PTX codegen error")  # fmt: skip
    say(32, "EngineCore_DP0 pid=210", "core.py:708", "EngineCore failed to start.", *RAISED, "RuntimeError: Worker failed with error 'PTXAS error: Internal Triton PTX codegen error', please check the stack trace above for the root cause")  # fmt: skip
    story.put(path, 35, *(f"(APIServer pid=11) {line}" for line in (*RAISED, "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore_DP0': 1}")))  # fmt: skip
    return story


# --- where it was -------------------------------------------------------------------------------


def server_beside_the_trainers() -> Story:
    """The reward server has a folder of its own, called otherwise than those of the trainers."""
    story = Story(("cuda_oom",), host="rm-0")
    story.put("rm-0/reward.log", 640, f"{story.clock(640)} ERROR Exception in ASGI application", *RAISED, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 11.20 GiB.")  # fmt: skip
    for host in ("tr-0", "tr-1"):
        for number in range(1, 60):
            story.put(f"{host}/train.log", 30 + number * 10, f"{story.clock(30 + number * 10)} INFO policy_loss=0.012, reward=0.31, step={number}")  # fmt: skip
        _raised(story, f"{host}/train.log", 822, "", "requests.exceptions.HTTPError: 500 Server Error: Internal Server Error for url: http://rm-0:5000/get_reward")  # fmt: skip
    return story


def prolog_that_failed() -> Story:
    """Slurm cannot start the task of one node, and terminates those of the others."""
    story = Story(("slurm_refused",), host="gn14")
    story.put(
        "slurm-99120.out", 2,
        "srun: error: Task launch for StepId=99120.0 failed on node gn14: Job prolog failed",
        "srun: error: Application launch failed: Job prolog failed",
        "slurmstepd: error: *** STEP 99120.0 ON gn12 CANCELLED AT 2026-05-04T09:30:12 ***",
        "srun: error: gn12: task 0: Terminated",
        "srun: error: gn13: task 1: Terminated",
    )  # fmt: skip
    return story


def pod_that_is_not_admitted() -> Story:
    """One pod gets no healthy GPU; another that starts later is no sign that it has got one."""
    pods = [f"ft-worker-{n}" for n in range(4)]
    story = Story(("k8s_container_not_started",), host="ft-worker-3", hosts=pods)
    for pod in pods[:3]:
        story.put(f"{pod}.log", 5, f"I{story.at(5):%m%d %H:%M:%S}.100000 9 torch/distributed/elastic/agent/server/api.py:525] [default] Rendezvous'ing worker group")  # fmt: skip
        _raised(story, f"{pod}.log", 906, "", "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError")  # fmt: skip
    story.put(
        "events.txt", 4,
        "15m   Normal    Scheduled                  pod/ft-worker-3     Successfully assigned ml/ft-worker-3 to a3-node-7",
        "15m   Warning   UnexpectedAdmissionError   pod/ft-worker-3     Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, which is unexpected",
        "14m   Normal    Started                    pod/ft-worker-1     Started container main",
    )  # fmt: skip
    return story


def host_that_overheats() -> Story:
    """Only the kernel of one host says why its ranks stop; the others lose their peer."""
    story = Story(("host_down",), host="node-2")
    story.steps(300)
    story.dmesg("node-2", (240, "mce: CPU12: Core temperature above threshold, cpu clock throttled (total events = 1)"), (297, "thermal thermal_zone0: critical temperature reached (105 C), shutting down"))  # fmt: skip
    for rank in range(8):
        story.closed(rank, 304, "10.9.0.2")
        story.cut.add(story.out(rank + 8))
    story.torchrun("node-1", 308, 1, code=-6)
    return story


def host_that_ends_silently() -> Story:
    """No line names the host: its files end, and the ranks of all others lose a peer."""
    hosts = [f"efa-{n}" for n in range(1, 4)]
    story = Story(("nccl_ib_completion_error",), host="efa-2", hosts=hosts)
    story.steps(300)
    for rank in story.others(*range(8, 16)):
        host, pid = story.host_of(rank), story.pid(rank)
        story.put(
            story.err(rank), 360,
            f"{host}:{pid}:{pid + 400} [{rank % 8}] ofi_process_cq:288 NCCL WARN NET/OFI Request 0x7f3 completed with error. RC: 15. Error: 4120 (Unresponsive receiver (reachable by EFA device but handshake failed) Peer host id: i-0ce6). Completed length: 0",
            f"[rank{rank}]:[E{story.glog(361, host)} ProcessGroupNCCL.cpp:2068] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Process group watchdog thread terminated with exception: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.26.2",
        )  # fmt: skip
    story.cut |= {story.out(rank) for rank in range(8, 16)}
    return story


def limit_of_a_cgroup() -> Story:
    """A limit of systemd, not of Kubernetes or Slurm, in a kernel's log that counts from the boot."""
    story = Story(("host_oom_kernel",), 12, "cn07", hosts=["cn06", "cn07"])
    for number in range(1, 60):
        story.put("mpirun.out", 60 + number * STEP, f"[1,0]<stdout>:{story.clock(60 + number * STEP)} step {number} loss 0.3 samples/s 120")  # fmt: skip
    story.put("mpirun.out", 371, "[1,9]<stderr>:[cn07:41009] Read -1, expected 524288, errno = 104", "mpirun noticed that process rank 12 with PID 41172 on node cn07 exited on signal 9 (Killed).")  # fmt: skip
    for second, text in (
        (100.0, "eth0: renamed from veth1"),
        (369.1, "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0"),
        (369.2, "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=job,mems_allowed=0-1,oom_memcg=/user.slice/user-1001.slice,task_memcg=/user.slice/user-1001.slice/session-4.scope,task=python3,pid=41172,uid=1001"),
        (369.3, "Memory cgroup out of memory: Killed process 41172 (python3) total-vm:91223344kB, anon-rss:80112233kB, file-rss:0kB, shmem-rss:0kB, UID:1001 pgtables:1kB oom_score_adj:0"),
    ):  # fmt: skip
        story.put("dmesg-cn07.txt", second, f"[{812345.1 + second:.6f}] {text}")
    return story


def clock_that_counts_from_the_boot() -> Story:
    """`dmesg` without -T: a line of the audit tells when the boot was. An Xid that the job has
    survived, and the one that has ended it."""
    story = Story(("xid_79_off_bus",), 9, "node-2")
    story.nccl_init()
    story.steps(900)
    boot = EPOCH.replace(tzinfo=timezone.utc).timestamp() - 500_000.0
    for second, text in (
        (20.0, f"audit: type=1400 audit({boot + 500_020.0:.3f}:45): apparmor=\"STATUS\""),
        (300.0, "NVRM: Xid (PCI:0000:3a:00): 48, pid=7010, name=python3, DBE at partition 3"),
        (901.0, "NVRM: Xid (PCI:0000:2a:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."),
    ):  # fmt: skip
        story.put("node-2/dmesg.txt", second, f"[{500_000.0 + second:.6f}] {text}")
    for rank in story.others(9):
        story.timeout(rank, 1505)
    return story


# --- nothing failed -----------------------------------------------------------------------------


def port_that_came_back() -> Story:
    """NCCL says that a port went down, in a file without clocks; the job goes on."""
    story = Story(())
    story.steps(400)
    story.dmesg("node-2", (300, "mlx5_core 0000:b1:00.0 ens5f0np0: Link down"), (304, "mlx5_core 0000:b1:00.0 ens5f0np0: Link up"))  # fmt: skip
    for rank in range(8):
        story.put(story.err(rank), 301, f"node-1:{story.pid(rank)}:9 [{rank}] NCCL INFO NET/IB : mlx5_0:1 Got async event : port error")  # fmt: skip
    return story


def request_that_was_cancelled() -> Story:
    """A client goes away, the server prints a traceback, serves on, and is stopped in good order."""
    story = Story(())
    path = "vllm.log"
    for number in range(30):
        story.put(path, 20 + number * 10, f"(APIServer pid=11) INFO {story.at(20 + number * 10):%m-%d %H:%M:%S} [loggers.py:127] Engine 000: Avg prompt throughput: 11.2 tokens/s, Avg generation throughput: 801.1 tokens/s, Running: 9 reqs, Waiting: 0 reqs, GPU KV cache usage: 11.0%")  # fmt: skip
    story.put(path, 200, *(f"(APIServer pid=11) {line}" for line in (*RAISED, "asyncio.exceptions.CancelledError")))  # fmt: skip
    story.put(path, 321, "(APIServer pid=11) INFO:     Shutting down", "(APIServer pid=11) INFO:     Application shutdown complete.")  # fmt: skip
    return story


def row_that_was_recorded() -> Story:
    """The kernel notes corrected errors and a row for replacement; the job does not notice."""
    story = Story(())
    story.steps(300)
    for second, text in (
        (200, "pcieport 0000:40:01.1: AER: Corrected error message received from 0000:41:00.0"),
        (210, "NVRM: Xid (PCI:0000:41:00): 63, pid=7012, name=python3, Row Remapper: New row marked for remapping, reset gpu to activate."),
    ):  # fmt: skip
        story.put("journal.txt", second, f"{story.at(second):%b %d %H:%M:%S} node-2 kernel: {text}")
    return story


def volume_that_came_late() -> Story:
    """A pod waits for a node and for its volume, and then trains to the end like the others."""
    story = Story(())
    for n in range(4):
        _steps(story, f"w-{n}.log", (n,), 400)
    story.put(
        "events.txt", 1,
        "20m  Warning  FailedScheduling  pod/w-2  0/12 nodes are available: 12 Insufficient nvidia.com/gpu.",
        "19m  Normal   Scheduled  pod/w-2  Successfully assigned ml/w-2 to gke-2",
        '19m  Warning  FailedMount  pod/w-2  MountVolume.SetUp failed for volume "data" : rpc error: code = DeadlineExceeded',
        "18m  Normal   Started  pod/w-2  Started container main",
    )  # fmt: skip
    return story


def crash_of_another_program() -> Story:
    """A monitor crashes beside the job, a quarter of an hour before the job ends as it should."""
    story = Story(())
    story.steps(1200)
    story.dmesg("node-2", (300, "dcgm-exporter[3312]: segfault at 0 ip 00007f error 4 in libdcgm.so.3[7f00+1000]"))  # fmt: skip
    return story


def connection_closed_at_the_end() -> Story:
    """One rank leaves before the others after the last step, and all have said that they are done."""
    story = Story(())
    _steps(story, "job.log", range(4), 200)
    story.put("job.log", 201, f"[rank0]: {story.clock(201)} INFO Training finished")
    _closed(story, "job.log", 3, 203, "10.9.0.1")
    return story


STORIES_OF_LAUNCHERS: list[Callable[[], Story]] = [
    mpi_rank_without_gpu_memory,
    label_of_sagemaker,
    files_called_after_processes,
    worker_below_an_engine,
    server_beside_the_trainers,
    prolog_that_failed,
    pod_that_is_not_admitted,
    host_that_overheats,
    host_that_ends_silently,
    limit_of_a_cgroup,
    clock_that_counts_from_the_boot,
    port_that_came_back,
    request_that_was_cancelled,
    row_that_was_recorded,
    volume_that_came_late,
    crash_of_another_program,
    connection_closed_at_the_end,
]
