"""More stories of jobs: GPUs and NPUs that fail, interfaces and images that differ on one host, lines
without clocks; and their innocent twins."""

from __future__ import annotations

from collections.abc import Callable

from stories import Story
from stories_of_clusters import RAISED, _closed, _raised, _steps, _timeout


def watchdogs_of_an_engine() -> Story:
    """A GPU's firmware hangs; five minutes later all schedulers of SGLang give up, in another zone."""
    story = Story(("xid_119_gsp_timeout",), 13, "node-2")
    story.nccl_init()
    for rank in range(story.world):
        path = f"{story.host_of(rank)}/sglang.log"
        story.put(path, 60, f"[{story.at(7260):%Y-%m-%d %H:%M:%S} TP{rank}] Load weight end. avail mem=51.20 GB")  # fmt: skip
        story.put(path, 1061, f"[{story.at(8261):%Y-%m-%d %H:%M:%S} TP{rank}] Watchdog timeout (self.watchdog_timeout=300)")  # fmt: skip
    story.put("node-2/journal.txt", 760, f"{story.at(760):%Y-%m-%dT%H:%M:%S}+0000 node-2 kernel: NVRM: Xid (PCI:0000:ab:00): 119, pid={story.pid(13)}, name=python3, Timeout after 6s of waiting for RPC response from GPU5 GSP! Expected function 76 (GSP_RM_CONTROL) (0x20802a02 0x4).")  # fmt: skip
    return story


def link_between_gpus() -> Story:
    """The kernel's Xid 74 and the rank's own error are one failure, which the rank names better; its
    neighbours' errors are printed before."""
    story = Story(("nvlink_uncorrectable_cuda",), 11, "node-2")
    story.nccl_init()
    story.steps(400)
    for rank in (8, 9, 10):
        story.traceback(rank, 400.8, "torch.AcceleratorError: CUDA error: unspecified launch failure")  # fmt: skip
    story.traceback(11, 401, "torch.AcceleratorError: CUDA error: uncorrectable NVLink error detected during the execution")  # fmt: skip
    story.dmesg("node-2", (400, "NVRM: Xid (PCI:0000:5d:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 4(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"))  # fmt: skip
    for rank in range(8):
        story.closed(rank, 404, "node-2")
    return story


def name_that_means_loopback() -> Story:
    """Gloo warns on one host that it uses the loopback; all others cannot connect to that host."""
    hosts = ("cpu-4", "cpu-5", "cpu-6", "cpu-7")
    story = Story(("gloo_connect_failed",), host="cpu-7", hosts=hosts)
    for rank, host in enumerate(hosts):
        path = f"{host}/rank{rank}.log"
        story.put(path, 1, f"{story.clock(1)} INFO rank {rank}/4 joins")
        if host == "cpu-7":
            story.put(path, 3, f"[W{story.glog(3)} ProcessGroupGloo.cpp:760] Warning: Unable to resolve hostname to a (local) address. Using the loopback address as fallback. Manually set the network interface to bind to with GLOO_SOCKET_IFNAME. (function operator())")  # fmt: skip
        _raised(story, path, 33, "", "RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error")  # fmt: skip
    return story


def older_image_on_one_host() -> Story:
    """The tasks of one host fail to import; ten minutes later the others have waited long enough."""
    story = Story(("glibc_mismatch",), host="n3")
    for rank in range(8):
        if rank >= 6:
            _raised(story, "slurm-55.out", 5, f"{rank}: ", "ImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.32' not found (required by /opt/venv/flash_attn_2_cuda.so)")  # fmt: skip
            continue
        story.put("slurm-55.out", 6, f"{rank}: {story.clock(6)} INFO rank={rank} world_size=8")
        _raised(story, "slurm-55.out", 606, f"{rank}: [rank{rank}]: ", "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 6/8 clients joined.")  # fmt: skip
    story.put("slurm-55.out", 8, "srun: error: n3: tasks 6-7: Exited with exit code 1")
    story.put("slurm-55.out", 610, "srun: error: n0: tasks 0-5: Exited with exit code 1")
    return story


def gradients_of_one_rank() -> Story:
    """Megatron names the rank and its node; torchrun's box names another one, which timed out."""
    story = Story(("nan_grad_norm",), 9, "gn-02")
    _steps(story, "train.log", (15,), 600)
    _raised(story, "train.log", 601, "[default1]:[rank9]: ", "RuntimeError: Rank 9, node gn-02, device 1, iteration 108: Unexpected result nan (message='found NaN in local grad norm for bucket #0 in backward pass before data-parallel communication collective')")  # fmt: skip
    for rank in story.others(9):
        _timeout(story, "train.log", rank, 1202, prefix=f"[default{rank % 8}]:")
    story.put("train.log", 1210, "Root Cause (first observed failure):", "[0]:", f"  time      : {story.at(1210):%Y-%m-%d_%H:%M:%S}", "  host      : gn-01", "  rank      : 3 (local_rank: 3)", "  exitcode  : -6 (pid: 998)")  # fmt: skip
    return story


def port_that_all_blame() -> Story:
    """InfiniBand: both ends complain, and most of them name the one host whose link is down."""
    hosts = ("ib-4", "ib-5", "ib-6", "ib-7")
    story = Story(("nccl_ib_completion_error",), host="ib-6", hosts=hosts)
    story.nccl_init()
    story.steps(300)
    for rank in range(0, story.world, 3):
        host = story.host_of(rank)
        peer = "10.9.0.3" if host != "ib-6" else f"10.9.0.{(1, 2, 4)[rank % 3]}"
        story.put(story.err(rank), 301, f"{host}:{story.pid(rank)}:9 [{rank % 8}] transport/net_ib.cc:2034 NCCL WARN NET/IB: Got completion from peer {peer}<41231> with status=12 opcode=129 len=0 vendor err 129 (Send)")  # fmt: skip
    for rank in range(story.world):
        story.closed(rank, 309, "ib-5" if rank >= 24 else "ib-7")
    return story


def npu_with_an_exception() -> Story:
    """One NPU's core fails; half an hour later the others' notifications time out."""
    story = Story(("ascend_error",), 12)
    for rank in range(16):
        path = f"logs/rank_{rank}.log"
        _steps(story, path, (rank,), 200)
        if rank == 12:
            _raised(story, path, 201, f"[rank{rank}]: ", "RuntimeError: The Inner error is reported as above.", "EZ9999: Inner Error!", "EZ9999: [PID: 8812] The error from device(chipId:4, dieId:0), serial number is 3, there is an aicore error exception, core id is 11, error code = 0x800000")  # fmt: skip
            continue
        _raised(story, path, 2037, f"[rank{rank}]: ", "RuntimeError: ACL stream synchronize failed, error code:107020", "EI0002: [PID: 88] The wait execution of the Notify register times out. Reason: The Notify register has not received the Notify record from remote rank [12].")  # fmt: skip
    return story


# --- nothing failed -----------------------------------------------------------------------------


def actors_that_are_no_longer_needed() -> Story:
    """An error that one actor logs and steps, all without clocks; then the program ends its actors."""
    story = Story(())
    for number in range(1, 50):
        story.put("driver.log", number, f"(Runner pid=3990) step:{number} - actor/pg_loss:0.01 - actor/grad_norm:0.1 - training/global_step:{number}")  # fmt: skip
    story.put("driver.log", 20.5, *(f"(RewardActor pid=4100) {line}" for line in (*RAISED, "TimeoutError: sandbox did not answer within 10 s")))  # fmt: skip
    story.put("driver.log", 60, f"{story.clock(700)}\tINFO main.py:80 -- done")
    story.put("logs/gcs_server.out", 771, f"[{story.clock(771)} I 800 800] (gcs_server) gcs_actor_manager.cc:1500: Actor 31aa is dead because it was killed by `ray.kill`.")  # fmt: skip
    story.put("logs/worker-31aa-02000000-4000.err", 771, f"[{story.clock(771)} W 4000 4000] core_worker.cc:3100: Exit signal received, this process will exit after all outstanding tasks have finished, exit_type=INTENDED_USER_EXIT, detail=Worker exits because the actor is killed.")  # fmt: skip
    return story


def kernel_of_a_shared_host() -> Story:
    """Processes crash and are killed beside the job, which goes on for minutes, in the same zone."""
    story = Story(())
    story.steps(1000)
    story.dmesg(
        "node-1",
        (300, "python3[999]: segfault at 0 ip 00007f12 sp 00007f11 error 4 in libfoo.so[7f00+1000]"),
        (310, "Memory cgroup out of memory: Killed process 991 (node_exporter) total-vm:811kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB, UID:65534 pgtables:1kB oom_score_adj:999"),
    )  # fmt: skip
    return story


def loopback_on_every_host() -> Story:
    """Gloo's warning in a job that trains to its end: the ranks talk over another interface."""
    story = Story(())
    story.steps(300)
    for rank in range(story.world):
        story.put(story.err(rank), 5, f"[W{story.glog(5)} ProcessGroupGloo.cpp:760] Warning: Unable to resolve hostname to a (local) address. Using the loopback address as fallback.")  # fmt: skip
    return story


def preempted_and_resumed() -> Story:
    """The job is requeued, its ranks complain, and the second run trains to the end."""
    story = Story(())
    _steps(story, "slurm-77.out", (7,), 300)
    story.put("slurm-77.out", 301, f"slurmstepd: error: *** JOB 77 ON k1 CANCELLED AT {story.at(301):%Y-%m-%dT%H:%M:%S} DUE TO JOB REQUEUE ***")  # fmt: skip
    for rank in range(8):
        _closed(story, "slurm-77.out", rank, 302, "10.9.0.1")
    _steps(story, "slurm-77.out", (7,), 1200, begin=900)
    story.put("slurm-77.out", 1201, "7: [after training is done] datetime: 2026-05-04 09:50:01 ")
    return story


STORIES_OF_ACCELERATORS: list[Callable[[], Story]] = [
    watchdogs_of_an_engine,
    link_between_gpus,
    name_that_means_loopback,
    older_image_on_one_host,
    gradients_of_one_rank,
    port_that_all_blame,
    npu_with_an_exception,
    actors_that_are_no_longer_needed,
    kernel_of_a_shared_host,
    loopback_on_every_host,
    preempted_and_resumed,
]
