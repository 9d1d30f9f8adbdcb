"""Lines that are neither failures nor phases: they tell who is who, and that a job makes progress."""

from __future__ import annotations

import re

from rankdbg.logs.patterns import Pattern

IDENTITY = "identity"
RANK_PLACES = "rank places"
CONTAINER = "container"
CONTAINERS = "containers"
PROGRESS = "progress"
LABELS = "labels"
CHECKPOINT = "checkpoint"
BOOT = "boot"
VERSIONS = "versions"

RANK_LABEL = r"^[^\[]{0,80}\[[Rr]ank ?(?P<rank>\d{1,6})\]"
# gpu-3:4711:4712 [5] NCCL INFO …: the host, the pid, and the GPU's number on its host.
NCCL_PREFIX = r"(?<![\w.-])(?P<host>[A-Za-z0-9][\w.-]*):(?P<pid>\d+):\d+ \[(?P<device>\d+)\] "
NCCL_COMM = NCCL_PREFIX + (
    r".{0,80}\brank (?P<rank>\d+) nranks (?P<world>\d+) .{0,60}?busId (?P<bus>[0-9a-f]+)"
)
NCCL_ADDRESS = NCCL_PREFIX + r".{0,40}(?:Bootstrap ?: Using |OOB )\S+?:(?P<address>[\d.]{7,15})<"
RAY_NODE = (
    r"address = (?P<address>[\d.]{7,15}), node name = (?P<name>\S+) node_id=(?P<node>[0-9a-f]{8,})"
)
RAYLET = (
    r"Raylet of id, (?P<node>[0-9a-f]{8,}) started.{0,120}?address: (?P<address>[\d.]{7,15}):\d+"
    r".{0,120}hostname: (?P<host>\S+)"
)
RAY_ACTOR = (
    r"creation task succeeded\. actor_id=(?P<actor>[0-9a-f]{32}) worker_id=(?P<worker>[0-9a-f]{32,})"
    r".{0,40}node_id=(?P<node>[0-9a-f]{8,})"
)
# torchrun's box: "host : gpu-3", and in the next two lines the rank and the pid.
BOX_HOST = r"^(?:\d{1,5}: )?\W{0,40}\bhost +: (?P<host>[\w.-]+)\s*$"
BOX_RANK = r"\brank +: (?P<rank>\d+) \(local_rank"
BOX_PID = r"\bexitcode +: -?\d+ +\(pid: (?P<pid>\d+)\)"
SLURM_TASKS = r"srun: error: (?P<host>[\w.-]+): tasks? (?P<ranks>[\d,-]+): "
RANK_ON_HOST = (
    r"\brank\"?[ =:]{1,2}(?P<rank>\d+)\b(?:/\d+)?.{0,24}?\b(?:host(?:name)?\"?[ =:]{1,3}\"?|on (?:host |node )?)"
    r"(?P<host>[A-Za-z][\w.-]*\d[\w.-]*)"
)
DESCRIBED = r"^Name:\s{3,}(?P<host>[a-z0-9][a-z0-9.-]*)\s*$"  # kubectl describe pod
# What it says of the container's variables and of its states, with the lines below.
DESCRIBED_RANK = r"^\s{2,}RANK:\s{2,}(?P<rank>\d{1,6})\s*$"
CONTAINER_STATE = r"^ {4}(?P<last>Last )?State: {2,}(?P<state>Terminated|Waiting|Running)\s*$"
CONTAINERS_LINE = r"^(?P<init>Init )?Containers:\s*$"
# What kubectl get events says of a pod that was placed, and of a container that runs.
POD_BEGINS = r"\b(Successfully assigned \S+ to \S+|Started container \S+)"
# Where Kubernetes has put a pod: an event, and what kubectl describe pod says.
POD_PLACED = r"\bSuccessfully assigned (?:[\w.-]+/)?(?P<pod>[\w.-]+) to (?P<node>[\w.-]+)"
POD_NODE = r"^Node:\s{3,}(?P<node>[a-zA-Z0-9][\w.-]*)/"
NODE = r"^\s*NodeName=(?P<host>[A-Za-z0-9][\w.-]*)"  # scontrol show node
# started rank 3 as pid 4711, rank 3 (pid 4711) ended
RANK_PID = r"\b[Rr]ank[ =:]{1,2}(?P<rank>\d{1,6})\b[^\d]{1,12}?\bpid[ =:]{1,3}(?P<pid>\d{1,7})\b"
# A child of the rank that says it: DataLoader worker (pid 4711) is killed by signal: Killed
CHILD_PIDS = r"\b[Ww]orker \(pid(?:\(s\)|s)?:? (?P<pids>\d{2,7}(?:, ?\d{2,7})*)\)"
WORKER_DIED = r"Worker IP address: (?P<address>[\d.]{7,15}).{0,40}Worker PID: (?P<pid>\d+)"

# NCCL version 2.27.3, torch==2.7.0+cu126, Driver Version: 550.54.15, Python 3.11.9
VERSION = (
    r"(?<![\w./-])(?P<what>NCCL|PyTorch|[Tt]orch|CUDA|[Dd]river|[Pp]ython|v?(?:LLM|llm)|transformers|triton|deepspeed"
    r"|sglang|flash[-_]attn|transformer[-_]engine|nccl)(?: runtime)?(?:[ _][Vv]ersion)?(?:==|[:= ]{1,3})v?"
    r"(?P<version>\d+\.\d+[\w.+-]*)"
)

# torchrun's agent: which ranks its workers have, in the order of their local ranks.
GLOBAL_RANKS = r"\bglobal_ranks=\[(?P<ranks>\d+(?:, ?\d+)*)\]"

# A kernel's log that counts from the boot, and the lines of it that say the time as well:
# [    2.1] rtc_cmos: setting system clock to … UTC (1777878721); [812.3] audit: … audit(1777879531.123:45)
SINCE_BOOT = r"^(?:<\d{1,3}>)?\W{0,2}\[ *(?P<seconds>\d{1,10}\.\d{3,9})\]"
BOOT_TIME = (
    SINCE_BOOT
    + r".{0,120}?(?:audit\((?P<audit>\d{9,10}\.\d{3}):|setting system clock to .{10,40}\((?P<rtc>\d{9,10})\))"
)
# How who collects a kernel's log says it in the first line: # boot 2026-05-04T09:30:00Z
BOOT_TOLD = r"^#.{0,200}\b(?:boot(?:ed)?|uptime -s)\b[^\d]{0,12}(?P<at>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:Z| UTC)?)"

_METRIC = (
    r"(?:loss|lr\b|learning.rate|grad|gnorm|tok|tps|time|reward|throughput|samples|mem|acc\b|ppl)"
)
_STEP = (
    r"(?<![\w./-])(?:[Gg]lobal[_ ]?[Ss]tep|[Ss]tep|[Ii]teration|[Ii]ter|[Uu]pdate)s?[ \]]{0,2}(?:[=:#|]\s{0,8}|\s{1,10})"
    r"\[?(\d{1,9})(?![\d.])"
)
PROGRESS_LINE = rf"{_STEP}(?=.{{0,300}}?{_METRIC})|{_METRIC}.{{0,80}}?{_STEP}"
# Only bars of the loop itself: weights are loaded and graphs captured with bars, too.
PROGRESS_BAR = r"(?i)(?:^|train\w*|epoch|step|iter\w*|progress|\]: ?)[^|]{0,40}?\d+%\|[^|]*\| (\d+)/\d+ \[[\d:]+<"
# A trainer of Hugging Face that shows no bar counts in epochs: {'loss': 0.0166, …, 'epoch': 0.26}
PROGRESS_EPOCH = r"^.{0,40}\{'.{0,2000}?'epoch': '?(\d{1,6}\.\d{1,6})'?[,}]"

# saved checkpoint from iteration 400 to …, Saved /ckpt/global_step2400/…, checkpoint-500
SAVED = (
    r"(?i)^(?!.{0,300}\b(?:loading|loaded|resum\w+|fail\w*|error|about to|will)\b)"
    r"(?=.{0,300}(?<![A-Za-z])(?:saved|saving|written|wrote)\b)"
    r".{0,300}?(?:step|iteration|iter|checkpoint|ckpt)[-_ =:]{1,8}0*(?P<step>\d{1,9})(?!\d)"
    r"|(?i:\bsaved .{0,200}?step)(?P<number>\d{1,9})(?!\d)"
)

PATTERNS = [
    Pattern(
        IDENTITY,
        (
            (" busId ", NCCL_COMM),
            ("ootstrap: Using", NCCL_ADDRESS),
            ("ootstrap : Using", NCCL_ADDRESS),
            ("Registering node info", RAY_NODE),
            ("Raylet of id", RAYLET),
            ("creation task succeeded", RAY_ACTOR),
            ("  host      : ", BOX_HOST),
            ("srun: error: ", SLURM_TASKS),
            ("Worker IP address: ", WORKER_DIED),
            ("worker (pid", CHILD_PIDS),
            ("Name:   ", DESCRIBED),
            ("  RANK:  ", DESCRIBED_RANK),
            ("Node:   ", POD_NODE),
            ("global_ranks=[", GLOBAL_RANKS),
            ("Successfully assigned ", POD_BEGINS),
            ("Started container", POD_BEGINS),
            ("NodeName=", NODE),
        ),
        after=3,
        limit=1500,
        numbered=False,
        torn=False,
    ),
    Pattern(CONTAINER, (("State:   ", CONTAINER_STATE),), after=6, limit=5000, torn=False),
    Pattern(CONTAINERS, (("ontainers:", CONTAINERS_LINE),), limit=2000, looks=4000, torn=False),
    # Words that stand everywhere: the beginning of a file tells enough.
    Pattern(
        RANK_PLACES,
        (
            *(
                (literal, RANK_ON_HOST)
                for literal in (" host=", " hostname=", " host ", " on ", ' "host')
            ),
            *(
                (literal, RANK_PID)
                for literal in (" pid ", " pid=", " pid:", "(pid ", "(pid=", "(pid:")
            ),
        ),
        limit=400,
        looks=400,
        numbered=False,
        torn=False,
    ),
    # Every line of a launcher may begin with its rank: some are enough to see which ranks there are.
    Pattern(
        LABELS,
        tuple((literal, RANK_LABEL) for literal in ("[rank", "[Rank ")),
        limit=64,
        looks=64,
        numbered=False,
        torn=False,
    ),
    Pattern(
        CHECKPOINT,
        (("heckpoint", SAVED), ("aved ", SAVED)),
        limit=200,
        looks=800,
        numbered=False,
        torn=False,
    ),
    Pattern(
        BOOT,
        (
            ("audit(", BOOT_TIME),
            ("setting system clock to", BOOT_TIME),
            ("boot 20", BOOT_TOLD),
            ("boot: 20", BOOT_TOLD),
            ("uptime -s", BOOT_TOLD),
        ),
        limit=20,
        looks=400,
        numbered=False,
        torn=False,
    ),
    Pattern(
        VERSIONS,
        tuple(
            (literal, VERSION)
            for literal in (
                "NCCL version ",
                "orch version",
                "river Version",
                "river version",
                "torch==",
                "torch=2",
                "ython 3.",
                "transformers==",
                "_attn==",
                "triton==",
                "ython version",
            )
        ),
        limit=200,
        looks=200,
        torn=False,
    ),
    Pattern(
        PROGRESS,
        (
            ("tep", PROGRESS_LINE),
            ("iter", PROGRESS_LINE),
            ("Iter", PROGRESS_LINE),
            ("pdate", PROGRESS_LINE),
            *((f"{digit}%|", PROGRESS_BAR) for digit in range(10)),
            ("'epoch': ", PROGRESS_EPOCH),
        ),
        unless=(r"(?i)\b(error|exception|fail\w*|traceback|checkpoint shards|skipping)\b",),
        limit=200,
        looks=400,
        numbered=False,
        sampled=True,
        torn=False,
    ),
]


def step_in(text: str) -> str:
    """The number of the step that a line tells of, else how many epochs are done, or ``."""
    found = find(PROGRESS_LINE, text) or find(PROGRESS_BAR, text)
    found = found or (find(PROGRESS_EPOCH, text) if "'epoch': " in text else None)
    return next((number for number in found.groups() if number), "") if found else ""


def find(pattern: str, text: str) -> re.Match[str] | None:
    return _COMPILED[pattern].search(text)


_COMPILED = {
    pattern: re.compile(pattern)
    for pattern in (
        NCCL_PREFIX, NCCL_COMM, NCCL_ADDRESS, RAY_NODE, RAYLET, RAY_ACTOR, BOX_HOST, BOX_RANK, BOX_PID,
        SLURM_TASKS, RANK_ON_HOST, RANK_PID, DESCRIBED, DESCRIBED_RANK, POD_PLACED, POD_NODE, CONTAINER_STATE, CONTAINERS_LINE, WORKER_DIED, CHILD_PIDS, GLOBAL_RANKS, NODE, VERSION, PROGRESS_LINE, PROGRESS_BAR, PROGRESS_EPOCH,
        SAVED, SINCE_BOOT, BOOT_TIME, BOOT_TOLD, RANK_LABEL,
    )
}  # fmt: skip
