"""Stories of jobs of many ranks: their logs as launchers, kernels and schedulers leave them, and
what happened. Each is a trap of its own for whoever believes the first or the loudest line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

EPOCH = datetime(2026, 5, 4, 9, 30, 0)
STEP = 5.0  # seconds
GPUS = 8
BUS = ("18", "2a", "3a", "5d", "91", "ab", "ba", "db")


@cache
def _clock(second: float, ahead: float) -> str:
    """All ranks do their steps at once."""
    moment = EPOCH + timedelta(seconds=second + ahead)
    return f"{moment:%Y-%m-%d %H:%M:%S},{int(second * 1000) % 1000:03d}"


@dataclass
class Story:
    """`modes`: those that are right; empty where nothing failed. `rank` and `host`: where."""

    modes: tuple[str, ...]
    rank: int | None = None
    host: str = ""
    hosts: Sequence[str] = ("node-1", "node-2")
    zones: dict[str, float] = field(default_factory=dict)  # seconds that a host's clock is ahead
    lines: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)  # files that end in the middle of a line
    unplaced: bool = False  # nothing says where: no host may be named

    # --- who is where ---------------------------------------------------------------------

    @property
    def world(self) -> int:
        return GPUS * len(self.hosts)

    def host_of(self, rank: int) -> str:
        return self.hosts[rank // GPUS]

    def err(self, rank: int, attempt: int = 0) -> str:
        return f"{self.host_of(rank)}/run_x/attempt_{attempt}/{rank % GPUS}/stderr.log"

    def out(self, rank: int, attempt: int = 0) -> str:
        return f"{self.host_of(rank)}/run_x/attempt_{attempt}/{rank % GPUS}/stdout.log"

    def others(self, *ranks: int) -> list[int]:
        return [rank for rank in range(self.world) if rank not in ranks]

    # --- lines ----------------------------------------------------------------------------

    def put(self, path: str, second: float, *lines: str) -> None:
        self.lines.setdefault(path, []).extend((second, line) for line in lines)

    def at(self, second: float, host: str = "") -> datetime:
        return EPOCH + timedelta(seconds=second + self.zones.get(host, 0.0))

    def clock(self, second: float, host: str = "") -> str:
        return _clock(second, self.zones.get(host, 0.0))

    def glog(self, second: float, host: str = "") -> str:
        moment = self.at(second, host)
        return f"{moment.month}{moment.day:02d} {moment:%H:%M:%S}.{int(second * 1000) % 1000:03d}123456"

    def write(self, folder: Path) -> None:
        for name, timed in self.lines.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            text = "\n".join(line for _, line in sorted(timed, key=lambda line: line[0]))
            path.write_text(text[:-17] if name in self.cut else text + "\n")

    # --- what all jobs write ----------------------------------------------------------------

    def steps(
        self, until: float, begin: float = 60.0, attempt: int = 0, first: int = 1,
        ranks: Sequence[int] | None = None,
    ) -> None:  # fmt: skip
        for rank in range(self.world) if ranks is None else ranks:
            host, path = self.host_of(rank), self.out(rank, attempt)
            self.put(path, begin - 30, f"{self.clock(begin - 30, host)} [rank{rank}] model ready")
            count = int((until - begin) / STEP)
            for number in range(count):
                second = begin + number * STEP
                self.put(
                    path,
                    second,
                    f"{self.clock(second, host)} [rank{rank}] step {first + number} | loss "
                    f"{3 - number * 0.001:.4f} | gnorm 0.512 | 9123 tok/s",
                )

    def traceback(self, rank: int, second: float, *errors: str, attempt: int = 0) -> None:
        lines = [
            "Traceback (most recent call last):",
            '  File "/work/train.py", line 211, in <module>',
            "    main()",
            '  File "/work/train.py", line 144, in main',
            "    loss = step(batch)",
            *errors,
        ]
        self.put(self.err(rank, attempt), second, *(f"[rank{rank}]: {line}" for line in lines))

    def timeout(self, rank: int, second: float, sequence: int = 900, attempt: int = 0) -> None:
        prefix = f"[rank{rank}]:[E{self.glog(second, self.host_of(rank))} ProcessGroupNCCL.cpp:"
        work = (
            f"WorkNCCL(SeqNum={sequence}, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, "
            "Timeout(ms)=600000) ran for 600021 milliseconds before timing out."
        )
        self.put(
            self.err(rank, attempt),
            second,
            f"{prefix}632] [Rank {rank}] Watchdog caught collective operation timeout: {work}",
            f"{prefix}2068] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Process group watchdog "
            f"thread terminated with exception: [Rank {rank}] Watchdog caught collective operation "
            f"timeout: {work}",
        )

    def closed(self, rank: int, second: float, peer: str, attempt: int = 0) -> None:
        host, pid = self.host_of(rank), self.pid(rank, attempt)
        self.put(
            self.err(rank, attempt),
            second,
            f"{host}:{pid}:{pid + 400} [{rank % GPUS}] misc/socket.cc:71 NCCL WARN socketProgress: "
            f"Connection closed by remote peer {peer}<43121>",
            f"[rank{rank}]:[E{self.glog(second, host)} ProcessGroupNCCL.cpp:2068] [PG ID 0 PG GUID "
            f"0(default_pg) Rank {rank}] Process group watchdog thread terminated with exception: "
            "NCCL error: remote process exited or there was a network error, NCCL version 2.26.2",
            "ncclRemoteError: A call failed possibly due to a network error or a remote process "
            "exiting prematurely.",
        )

    def nccl_init(self, second: float = 20.0) -> None:
        for rank in range(self.world):
            host, pid = self.host_of(rank), self.pid(rank)
            prefix = f"{host}:{pid}:{pid + 400} [{rank % GPUS}] NCCL INFO "
            self.put(
                self.err(rank),
                second,
                f"{prefix}Bootstrap: Using eth0:10.9.0.{1 + self.hosts.index(host)}<0>",
                f"{prefix}ncclCommInitRankConfig comm 0x55aa rank {rank} nranks {self.world} cudaDev "
                f"{rank % GPUS} nvmlDev {rank % GPUS} busId {BUS[rank % GPUS]}000 commId 0x1 - Init "
                "COMPLETE",
            )

    def pid(self, rank: int, attempt: int = 0) -> int:
        return 7000 + 1000 * attempt + rank

    def torchrun(
        self, host: str, second: float, rank: int, code: int = 1, left: int = 0, attempt: int = 0
    ) -> None:
        moment = self.at(second, host)
        stamp = f"{moment:%m%d %H:%M:%S}.120000 611 torch/distributed/elastic/"
        path = f"{host}/torchrun.log"
        own = [
            other for other in range(self.world) if self.host_of(other) == host and other != rank
        ]
        for other in own:
            pid = self.pid(other, attempt)
            self.put(path, second, f"W{stamp}multiprocessing/api.py:900] Sending process {pid} closing signal SIGTERM")  # fmt: skip
        pid = self.pid(rank, attempt)
        self.put(path, second + 1, f"E{stamp}multiprocessing/api.py:874] failed (exitcode: {code}) local_rank: {rank % GPUS} (pid: {pid}) of binary: /usr/bin/python3")  # fmt: skip
        if left:
            self.put(path, second + 2, f"I{stamp}agent/server/api.py:879] [default] Worker group FAILED. {left}/3 attempts left; will restart worker group")  # fmt: skip
            return
        self.put(
            path,
            second + 2,
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
            "Root Cause (first observed failure):",
            "[0]:",
            f"  time      : {moment:%Y-%m-%d_%H:%M:%S}",
            f"  host      : {host}",
            f"  rank      : {rank} (local_rank: {rank % GPUS})",
            f"  exitcode  : {code} (pid: {pid})",
        )

    def dmesg(self, host: str, *told: tuple[float, str], zone: float = 0.0) -> None:
        """As `dmesg -T` prints it."""
        for second, text in told:
            moment = EPOCH + timedelta(seconds=second + zone)
            self.put(f"{host}/dmesg.txt", second, f"[{moment:%a %b %e %H:%M:%S %Y}] {text}")


# --- memory -------------------------------------------------------------------------------------


def data_loader_killed_by_the_kernel() -> Story:
    """The OOM killer takes a loader process, whose pid nobody has seen; its rank says so."""
    story = Story(("host_oom_kernel",), host="node-2")
    story.steps(600)
    story.dmesg(
        "node-2",
        (599.0, "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0"),
        (
            599.2,
            "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0-1,global_oom,task_memcg=/user.slice,task=python3,pid=88123,uid=1000",
        ),
        (
            599.2,
            "Out of memory: Killed process 88123 (python3) total-vm:91223344kB, anon-rss:80112233kB, file-rss:0kB, shmem-rss:0kB, UID:1000",
        ),
    )
    story.traceback(12, 600.5, "RuntimeError: DataLoader worker (pid 88123) is killed by signal: Killed. ")  # fmt: skip
    for rank in story.others(12):
        story.timeout(rank, 1201)
    story.torchrun("node-2", 1205, 9, code=-6)
    return story


def pod_out_of_memory() -> Story:
    """A container's limit; the ranks in other pods see only a closed connection."""
    story = Story(("k8s_oomkilled",), host="trainer-2", hosts=("trainer-1", "trainer-2"))
    story.steps(400)
    story.nccl_init()
    for rank in range(8):
        story.closed(rank, 402, "trainer-2")
    story.put(
        "describe-pod-trainer-2.txt", 410,
        "Name:             trainer-2", "Status:           Failed",
        "    Last State:     Terminated", "      Reason:       OOMKilled", "      Exit Code:    137",
        "      Started:      Mon, 04 May 2026 09:30:00 +0000",
    )  # fmt: skip
    story.torchrun("trainer-1", 405, 3, code=-6)
    return story


def slurm_step_out_of_memory() -> Story:
    """A cgroup's limit on one of two nodes, in a file that all tasks share."""
    story = Story(("cgroup_oom_slurm",), 11, "node-2")
    path = "slurm-7.out"
    for rank in range(16):
        for number in range(50):
            second = 60 + number * STEP
            story.put(path, second, f"{rank:2d}: {story.clock(second)} step {number} loss 2.1 lr 1e-4 tok/s 900")  # fmt: skip
    story.put(path, 312, "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed.")  # fmt: skip
    story.put(
        path, 313, "srun: error: node-2: task 11: Out Of Memory", "srun: Terminating StepId=7.0"
    )
    for rank in story.others(11):
        story.put(path, 314, f"{rank:2d}: [rank{rank}]:[E{story.glog(314)} x.cpp:1] NCCL WARN Net : Connection closed by remote peer node-2<1234>")  # fmt: skip
    story.put(path, 320, f"slurmstepd: error: *** STEP 7.0 ON node-1 CANCELLED AT {story.at(320):%Y-%m-%dT%H:%M:%S} ***", "srun: error: node-1: tasks 0-7: Killed")  # fmt: skip
    return story


def engine_without_room_for_its_cache() -> Story:
    """vLLM: the reason is in a worker's line, five layers below the error that everybody sees."""
    story = Story(("vllm_no_kv_memory",), host="")
    path = "vllm.log"
    for second, line in (
        (1, "INFO 05-04 09:30:01 [core.py:58] Initializing a V1 LLM engine (v0.9.0) with config: model='x'"),
        (40, "INFO 05-04 09:30:40 [gpu_model_runner.py:1200] Starting to load model x..."),
        (90, "(EngineCore_0 pid=212) ERROR 05-04 09:31:30 [core.py:396] EngineCore failed to start."),
        (90, "(EngineCore_0 pid=212) ERROR 05-04 09:31:30 [core.py:396] Traceback (most recent call last):"),
        (90, "(EngineCore_0 pid=212) ERROR 05-04 09:31:30 [core.py:396]   File \"/v/core.py\", line 387, in run_engine_core"),
        (90, "(EngineCore_0 pid=212) ERROR 05-04 09:31:30 [core.py:396] ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine."),
        (95, "Traceback (most recent call last):"),
        (95, '  File "/v/api_server.py", line 120, in <module>'),
        (95, "    uvloop.run(run_server(args))"),
        (95, "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"),
    ):  # fmt: skip
        story.put(path, second, line)
    return story


# --- hardware and network -----------------------------------------------------------------------


def uncorrectable_memory_of_one_gpu() -> Story:
    """Xid 48 in the kernel's log, which is in another zone; 63 on another node is only a record."""
    story = Story(("xid_48_dbe",), 13, "node-2", zones={"node-1": 7200.0, "node-2": 7200.0})
    story.nccl_init()
    story.steps(900)
    story.dmesg("node-1", (300.0, "NVRM: Xid (PCI:0000:3a:00): 63, pid='<unknown>', name=<unknown>, Row Remapper: New row marked for remapping"))  # fmt: skip
    story.dmesg(
        "node-2",
        (901.0, "NVRM: Xid (PCI:0000:ab:00): 48, pid='<unknown>', name=<unknown>, An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer"),
        (909.0, "NVRM: Xid (PCI:0000:ab:00): 45, pid=7013, name=python, Ch 00000008"),
    )  # fmt: skip
    story.traceback(13, 903, "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered")  # fmt: skip
    for rank in story.others(13):
        story.closed(rank, 904 + rank * 0.1, "node-2")
    story.torchrun("node-1", 910, 2, code=-6)
    return story


def link_that_came_back() -> Story:
    """InfiniBand flaps, NCCL retries, and the job goes on: nothing failed."""
    story = Story(())
    story.steps(1200)
    story.nccl_init()
    for rank in (3, 4):
        story.put(
            story.err(rank), 500,
            f"node-1:{story.pid(rank)}:9 [{rank}] transport/net_ib.cc:93 NCCL WARN NET/IB : mlx5_0:1 Got async event : port error",
            f"{story.clock(500, 'node-1')} WARNING comm: collective was slow, 11.2 s",
        )  # fmt: skip
    story.dmesg("node-1", (499.0, "mlx5_core 0000:18:00.0: Port module event: module 0, Cable error"), (507.0, "mlx5_core 0000:18:00.0 ib0: Link up"))  # fmt: skip
    return story


def node_without_power() -> Story:
    """All files of one host end in the middle of a line; Slurm says minutes later why."""
    story = Story(("slurm_node_failed",), host="node-3", hosts=("node-1", "node-2", "node-3"))
    story.nccl_init()
    story.steps(700)
    for rank in range(16, 24):
        story.cut.add(story.out(rank))
    for rank in range(16):
        story.closed(rank, 712 + rank * 0.2, "10.9.0.3")
    story.torchrun("node-1", 720, 5, code=-6)
    story.torchrun("node-2", 720, 9, code=-6)
    story.put("slurm-99.out", 950, f"{story.clock(950)} srun: error: Node failure on node-3", f"slurmstepd: error: *** JOB 99 ON node-1 CANCELLED AT {story.at(951):%Y-%m-%dT%H:%M:%S} DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***")  # fmt: skip
    return story


def interface_that_one_host_lacks() -> Story:
    """Start-up: one host has another name for its network; the others wait at the store."""
    story = Story(("nccl_no_socket_interface",), host="node-2")
    for rank in range(8, 16):
        story.put(story.err(rank), 30, f"node-2:{story.pid(rank)}:{story.pid(rank)} [{rank % 8}] bootstrap.cc:37 NCCL WARN Bootstrap : no socket interface found")  # fmt: skip
        story.traceback(rank, 31, "torch.distributed.DistBackendError: NCCL error in: /pytorch/NCCLUtils.cpp:94, internal error - please report this issue to the NCCL developers, NCCL version 2.26.2", "ncclInternalError: Internal check failed.")  # fmt: skip
    for rank in range(8):
        story.put(story.err(rank), 630, f"{story.clock(630, 'node-1')} INFO waiting")
        story.traceback(rank, 631, "torch.distributed.DistStoreError: wait timeout after 600000ms, keys: /default_pg/0//cuda//0/1")  # fmt: skip
    return story


# --- the program itself -------------------------------------------------------------------------


def exception_of_one_rank_of_64() -> Story:
    """No rule knows the error; 63 time-outs are ten minutes later, and louder."""
    story = Story(("python_error",), 37, "node-5", hosts=[f"node-{n}" for n in range(1, 9)])
    story.steps(500)
    story.traceback(37, 503, "KeyError: 'image_sizes'")
    for rank in story.others(37):
        story.timeout(rank, 1105 + rank * 0.01)
    for host in story.hosts:
        story.torchrun(host, 1110, story.hosts.index(host) * 8 + 3, code=-6)
    return story


def caught_exceptions() -> Story:
    """A loader logs a traceback for each broken sample and goes on: nothing failed."""
    story = Story(())
    story.steps(900)
    for rank in (2, 9):
        for second in (200, 300, 400):
            story.put(story.err(rank), second, f"{story.clock(second, story.host_of(rank))} WARNING data: cannot decode sample, skipping")  # fmt: skip
            story.traceback(rank, second, "PIL.UnidentifiedImageError: cannot identify image file '/data/17.jpg'")  # fmt: skip
    return story


def loss_becomes_nan_silently() -> Story:
    """One rank's loss is nan at step 80, all others' a step later; the job runs on, and saves."""
    story = Story(("nan_loss", "nan_grad_norm"), 6, "node-1")
    for rank in range(story.world):
        host = story.host_of(rank)
        for number in range(1, 200):
            bad = number > 80 or (number == 80 and rank == 6)
            second = 60 + number * STEP + (0.2 if rank == 6 else 0.0)
            loss = "nan" if bad else f"{3 - number * 0.001:.4f}"
            story.put(story.out(rank), second, f"{story.clock(second, host)} INFO [rank{rank}] step: {number} loss: {loss} lr: 1e-4 tok/s: 9011")  # fmt: skip
        story.put(
            story.out(rank),
            30,
            f"{story.clock(30, host)} INFO config nan_check=False best_loss=nan",
        )
    return story


def error_in_the_second_attempt() -> Story:
    """Attempt 0 lost a peer and was restarted; attempt 1 trained on and ran out of GPU memory."""
    story = Story(("cuda_oom",), 2, "node-1")
    story.steps(400)
    for rank in range(8):
        story.closed(rank, 402, "node-2")
    story.torchrun("node-1", 405, 1, code=-6, left=3)
    story.torchrun("node-2", 405, 9, code=-6, left=3)
    story.steps(1200, begin=500, attempt=1, first=60)
    story.traceback(2, 1203, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 2 has a total capacity of 79.11 GiB", attempt=1)  # fmt: skip
    for rank in story.others(2):
        story.timeout(rank, 1805, attempt=1)
    story.torchrun("node-1", 1810, 4, code=-6, attempt=1)
    return story


def restart_that_helped() -> Story:
    """A rank was killed, torchrun restarted all, and the job finished: nothing failed."""
    story = Story(())
    story.steps(400)
    for rank in story.others(5):
        story.closed(rank, 402, "node-1")
    story.torchrun("node-1", 405, 5, code=-9, left=3)
    story.steps(1200, begin=500, attempt=1, first=60)
    story.put(
        story.out(0, 1),
        1201,
        f"{story.clock(1201, 'node-1')} [rank0] Training completed, 200 steps",
    )
    return story


# --- schedulers and launchers -------------------------------------------------------------------


def cancelled_by_its_owner() -> Story:
    """scancel: all agents get SIGTERM; a rank that is quick to go makes the others complain."""
    story = Story(("torchrun_sigterm_external", "slurm_step_cancelled"), host="")
    story.steps(500)
    for host in story.hosts:
        story.put(f"{host}/torchrun.log", 502, f"W{story.at(502):%m%d %H:%M:%S}.120000 611 torch/distributed/elastic/agent/server/api.py:719] Received 15 death signal, shutting down workers")  # fmt: skip
    for rank in range(4, 12):
        story.closed(rank, 503.5, "node-1")
    story.put("slurm-5.out", 502, f"slurmstepd: error: *** STEP 5.0 ON node-1 CANCELLED AT {story.at(502):%Y-%m-%dT%H:%M:%S} ***", "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.")  # fmt: skip
    return story


def evicted_for_its_disk_use() -> Story:
    """A pod writes checkpoints into its own file system and is evicted."""
    story = Story(
        ("k8s_evicted_ephemeral_storage",), host="trainer-1", hosts=("trainer-1", "trainer-2")
    )
    story.nccl_init()
    story.steps(800)
    story.put("events-trainer-1.txt", 801, f"{story.at(801):%Y-%m-%dT%H:%M:%SZ} Warning Evicted pod/trainer-1 The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 9Gi. Container main was using 212Gi, request is 0.")  # fmt: skip
    for rank in range(8, 16):
        story.closed(rank, 805, "trainer-1")
    story.torchrun("trainer-2", 809, 11, code=-6)
    return story


def head_of_ray_out_of_memory() -> Story:
    """The kernel kills Ray's GCS; all nodes lose their head, and their actors die with it."""
    story = Story(("host_oom_kernel",), host="head-0", hosts=("head-0", "head-1"))
    for n, host in enumerate(story.hosts):
        path = f"{host}/session_latest/logs/raylet.out"
        for second in range(0, 900, 30):
            story.put(path, second, f"[{story.clock(second)} I 900 900] (raylet) node_manager.cc:656: Sending Python GC request to 8 local workers")  # fmt: skip
        story.put(path, 1, f"[{story.clock(1)} I 900 900] (raylet) raylet.cc:134: Raylet of id, {str(n) * 56} started. Raylet consists of node_manager and object_manager. node_manager address: 10.4.0.{n}:41000 object_manager address: 10.4.0.{n}:41001 hostname: {host}")  # fmt: skip
        story.put(path, 905, f"[{story.clock(905)} E 900 900] (raylet) gcs_rpc_client.h:179: Failed to connect to GCS at address 10.4.0.0:6379 within 5 seconds.")  # fmt: skip
    story.dmesg("head-0", (900.0, "Out of memory: Killed process 811 (gcs_server) total-vm:81223344kB, anon-rss:70112233kB, file-rss:0kB, shmem-rss:0kB, UID:1000"))  # fmt: skip
    story.put("driver.log", 960, f"{story.clock(960)} ERROR Failed to connect to GCS at address 10.4.0.0:6379", "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.")  # fmt: skip
    return story


def constructor_in_a_restart_loop() -> Story:
    """An actor's constructor raises; Ray starts the actor again and again, other actors are fine."""
    story = Story(("ray_actor_init_failed",), host="10.4.0.7")
    for attempt in range(4):
        second = 20 + attempt * 60
        story.put(
            "driver.log", second,
            f"{story.clock(second)} ERROR worker.py:409 -- Unhandled error (suppress with 'RAY_IGNORE_UNHANDLED_ERRORS=1'): The actor died because of an error raised in its creation task, ray::RolloutWorker.__init__() (pid={400 + attempt}, ip=10.4.0.7, actor_id=aa{attempt}1, repr=<w.RolloutWorker object>)",
            '  File "/work/rollout.py", line 31, in __init__',
            "    self.tokenizer = load(path)",
            "FileNotFoundError: [Errno 2] No such file or directory: '/models/x/tokenizer.json'",
        )  # fmt: skip
    story.put("driver.log", 300, f"{story.clock(300)} ERROR Failed to start rollout workers", "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.", "\tclass_name: Trainer", "\tpid: 77", "\tip: 10.4.0.9")  # fmt: skip
    return story


def port_taken_on_restart() -> Story:
    """Rank 0's GPU assert ends attempt 0; the restart finds its old port taken. The first counts."""
    story = Story(("cuda_device_assert",), 0, "node-1")
    story.steps(400)
    story.put(story.err(0), 401, *(f"/pytorch/aten/src/ATen/native/cuda/Indexing.cu:1308: indexSelectLargeIndex: block: [{n},0,0], thread: [3,0,0] Assertion `srcIndex < srcSelectDimSize` failed." for n in range(9)))  # fmt: skip
    story.traceback(0, 401.5, "RuntimeError: CUDA error: device-side assert triggered")
    for rank in story.others(0):
        story.closed(rank, 403, "node-1")
    story.torchrun("node-1", 405, 0, left=3)
    story.put(story.err(0, 1), 440, f"{story.clock(440, 'node-1')} INFO start")
    story.traceback(0, 441, "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use", attempt=1)  # fmt: skip
    story.torchrun("node-1", 445, 0, attempt=1)
    return story


# --- disks, clocks, noise -----------------------------------------------------------------------


def disk_of_one_node_full() -> Story:
    """One of 16 ranks cannot write its shard; the others wait for it in a barrier."""
    story = Story(("disk_full",), 10, "node-2", zones={"node-2": -95.0})
    story.steps(600)
    for rank in range(16):
        story.put(
            story.out(rank),
            601,
            f"{story.clock(601, story.host_of(rank))} [rank{rank}] saving shard",
        )
    story.traceback(10, 640, "OSError: [Errno 28] No space left on device: '/local/ckpt/step_109/__10_0.distcp'")  # fmt: skip
    for rank in story.others(10):
        story.timeout(rank, 1205)
    story.torchrun("node-1", 1210, 1, code=-6)
    story.torchrun("node-2", 1210, 8, code=-6)
    return story


def save_that_was_tried_again() -> Story:
    """The file server refused one write; the second attempt went through: nothing failed."""
    story = Story(())
    story.steps(1200)
    host = "node-1"
    story.put(story.err(0), 500, f"{story.clock(500, host)} ERROR ckpt: saving failed, attempt 1/3", "[rank0]: OSError: [Errno 5] Input/output error: '/nfs/ckpt/step_90.pt'", f"{story.clock(512, host)} INFO ckpt: attempt 2/3 succeeded")  # fmt: skip
    return story


def quota_in_another_zone() -> Story:
    """The rank over its quota prints UTC, the others local time, nine hours ahead."""
    story = Story(("disk_quota",), 8, "node-2", zones={"node-1": 9 * 3600.0})
    story.steps(700)
    story.traceback(8, 704, "OSError: [Errno 122] Disk quota exceeded: '/home/u/ckpt/tmp.pt'")
    for rank in story.others(8):
        story.timeout(rank, 1305)
    story.torchrun("node-1", 1310, 4, code=-6)
    return story


def noise_of_a_healthy_start() -> Story:
    """Retries, warnings and refused connections before the first step; then all is well."""
    story = Story(())
    story.steps(900, begin=200)
    for rank in range(1, 16):
        for second in range(40, 90, 10):
            story.put(story.err(rank), second, f"[rank{rank}]:[W{story.glog(second, story.host_of(rank))} socket.cpp:752] [c10d] The client socket has failed to connect to [node-1]:29500 (errno: 111 - Connection refused).")  # fmt: skip
        story.put(story.err(rank), 100, "huggingface/tokenizers: The current process just got forked, after parallelism has already been used. Disabling parallelism to avoid deadlocks...")  # fmt: skip
    story.put("driver.log", 50, f"{story.clock(50)} WARNING 3 pending placement groups (PACK): 1 pending placement groups", f"{story.clock(61)} INFO placement group 17 created")  # fmt: skip
    return story


def killed_without_output() -> Story:
    """Somebody kills a rank with SIGKILL; only its launcher knows."""
    story = Story(("torchrun_child_sigkill",), 5, "node-1")
    story.nccl_init()
    story.steps(500)
    story.cut.add(story.out(5))
    for rank in story.others(5):
        story.closed(rank, 503, "node-1")
    story.torchrun("node-1", 502, 5, code=-9)
    story.torchrun("node-2", 508, 12, code=-6)
    return story


def old_errors_of_the_kernel() -> Story:
    """An Xid of another job two days ago, an OOM kill of a container; the cause is a segfault."""
    story = Story(("segfault",), 3, "node-1")
    story.nccl_init()
    story.steps(500)
    story.dmesg(
        "node-2",
        (-170000.0, "NVRM: Xid (PCI:0000:3a:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."),
        (300.0, "Memory cgroup out of memory: Killed process 4242 (fluent-bit) total-vm:900kB, anon-rss:800kB, file-rss:0kB, shmem-rss:0kB, UID:0"),
    )  # fmt: skip
    story.put(story.err(3), 502, "Fatal Python error: Segmentation fault", "", "Current thread 0x00007f (most recent call first):", '  File "/work/train.py", line 88 in step')  # fmt: skip
    for rank in story.others(3):
        story.closed(rank, 504, "node-1")
    story.torchrun("node-1", 506, 3, code=-11)
    return story


def a_rank_that_never_came() -> Story:
    """Fifteen ranks wait for one that hangs in its loader, and writes nothing."""
    story = Story(("nccl_watchdog_timeout",), 9, "node-2")
    story.steps(500)
    for rank in story.others(9):
        story.timeout(rank, 1103)
    story.torchrun("node-1", 1110, 4, code=-6)
    return story


def two_errors_of_one_gpu() -> Story:
    """The kernel prints UTC, the job another zone: an Xid that the job has survived, hours before,
    and the one that has ended it, on another host."""
    story = Story(("xid_79_off_bus",), 8, "node-2", zones={"node-1": 7200.0, "node-2": 7200.0})
    story.nccl_init()
    story.steps(1200)
    story.steps(16_000, begin=15_400, first=3069)  # those between would only take time
    story.dmesg("node-1", (900.0, "NVRM: Xid (PCI:0000:3a:00): 31, pid=9911, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS"))  # fmt: skip
    story.dmesg("node-2", (16_001.0, "NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."))  # fmt: skip
    for rank in story.others(8):
        story.timeout(rank, 16_605)
    return story


def finished_and_taken_down() -> Story:
    """The job finishes, and its ranks complain while they are taken down: nothing failed."""
    story = Story(())
    story.steps(900)
    story.put(
        story.out(0), 901, f"{story.clock(901, 'node-1')} [rank0] Training completed in 900 s"
    )
    for rank in range(3, 9):
        story.closed(rank, 903, "node-1")
    story.put("node-2/torchrun.log", 905, f"W{story.at(905):%m%d %H:%M:%S}.120000 611 torch/distributed/elastic/agent/server/api.py:719] Received 15 death signal, shutting down workers")  # fmt: skip
    return story


STORIES: list[Callable[[], Story]] = [
    data_loader_killed_by_the_kernel,
    pod_out_of_memory,
    slurm_step_out_of_memory,
    engine_without_room_for_its_cache,
    uncorrectable_memory_of_one_gpu,
    link_that_came_back,
    node_without_power,
    interface_that_one_host_lacks,
    exception_of_one_rank_of_64,
    caught_exceptions,
    loss_becomes_nan_silently,
    error_in_the_second_attempt,
    restart_that_helped,
    cancelled_by_its_owner,
    evicted_for_its_disk_use,
    head_of_ray_out_of_memory,
    constructor_in_a_restart_loop,
    port_taken_on_restart,
    disk_of_one_node_full,
    save_that_was_tried_again,
    quota_in_another_zone,
    noise_of_a_healthy_start,
    killed_without_output,
    old_errors_of_the_kernel,
    a_rank_that_never_came,
    two_errors_of_one_gpu,
    finished_and_taken_down,
]
