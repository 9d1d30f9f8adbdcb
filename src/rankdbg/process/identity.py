"""The identity of a process: its labels, from the environment and the process title.

Pure functions from text to labels. The agent uses them inside a process, the node for processes
without an agent. So they use built-in types only.
"""

from __future__ import annotations

from rankdbg.process.host_lists import is_listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Labels = dict[str, Any]

# The sources of a rank number. Earlier ones take precedence: they are nearer to the program. (A
# launcher that Slurm started has SLURM_PROCID; its workers have RANK. An mpirun in a batch script
# passes the script's SLURM_PROCID on to all of its ranks.)
SOURCES = ("init", "torch", "jax", "monarch", "torchrun", "mpi", "openmpi", "pmi", "slurm")

_VARIABLES = {
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    "openmpi": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    "pmi": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    "slurm": ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
}

# The label `paused` of a rank under `rankdbg run --wait-for-editor`.
WAITS_FOR_EDITOR = "waits for an editor before its first line"
# Why a rank is gone, where nothing that has started it knows more.
ENDED = "its process no longer exists"

# Programs whose processes set titles, and may start ranks.
_TITLED = ("ray", "sglang", "vllm")
# Programs that are no launchers: what they start belongs to them.
ENGINES = (*_TITLED, "dask", "spark")
_DIMENSIONS = ("PP", "DP", "TP", "EP", "CP", "DCP", "PCP")


_SLURM = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURMD_NODENAME")


def of_process(title: str, command: Sequence[str], environ: Mapping[str, str]) -> Labels:
    """The labels that are known from outside, and inside before the program sets more."""
    labels = {**from_title(title), **from_environment(environ)}
    _, form, name = invocation(command)
    if form == "module" and _is_monarch_module(name):
        labels.update(_from_monarch(environ))
    elif engine := _worker_engine(command):
        labels.update(engine=engine, part="worker", role=labels.get("role", "worker"))
    return labels


def _worker_engine(command: Sequence[str]) -> str:
    """`spark` or `dask` for their workers, and for what starts these with the same command."""
    _, form, name = invocation(command)
    if form == "module" and name in _SPARK_WORKERS:
        return "spark"
    return "dask" if dask_part(command) == "worker" else ""


def _first_argument(command: Sequence[str], name: str) -> str:
    """Of the script or module of this name, which `-mNAME` contains too."""
    words = iter(command[1:])
    for word in words:
        if word.endswith(name):
            return next(words, "")
    return ""


def from_environment(environ: Mapping[str, str]) -> Labels:
    """rank, world, local_rank, source, role, mesh, job, and the variables of its Slurm job
    (environment), as far as they are set."""
    labels: Labels = {}
    for source, names in _VARIABLES.items():
        rank, world, local_rank = (_number(environ.get(name)) for name in names)
        if rank is not None:
            labels.update(rank=rank, world=world, local_rank=local_rank, source=source)
            break
    else:
        # Lightning and others start the ranks of one node with LOCAL_RANK alone.
        local_rank = _number(environ.get("LOCAL_RANK"))
        if local_rank is not None and environ.get("NODE_RANK", "0") == "0":
            world = _number(environ.get("WORLD_SIZE"))
            labels.update(rank=local_rank, world=world, local_rank=local_rank, source="torchrun")
    if environ.get("RANKDBG_ROLE"):
        labels["role"] = environ["RANKDBG_ROLE"]
    mesh = parse_plain_mesh(environ.get("RANKDBG_MESH", ""))
    if mesh:
        labels["mesh"] = mesh
    node = _number(environ.get("GROUP_RANK") or environ.get("SLURM_NODEID"))
    if node is not None:
        labels["node_rank"] = node
    job, scheduled = _job(environ), _scheduled_job(environ)
    if job or scheduled:
        labels["job"] = job or scheduled
    outer = scheduled or environ.get("RANKDBG_OUTER_JOB")
    if job and outer and job != outer:
        labels["outer"] = outer
    if "rank" in labels and environ.get("MASTER_ADDR") and environ.get("MASTER_PORT"):
        labels["rendezvous"] = f"{environ['MASTER_ADDR']}:{environ['MASTER_PORT']}"
    if run := _run(environ):
        labels["run"] = run
    restart = _number(environ.get("TORCHELASTIC_RESTART_COUNT"))
    if restart:
        labels["restart"] = restart
    # Kept here, since setproctitle() overwrites the environment that other processes see.
    slurm = {name: environ[name] for name in _SLURM if environ.get(name)}
    if slurm:
        labels["environment"] = slurm
    component = _component(environ)
    if component is not None:
        labels["het"] = component
    return labels


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() else None


def _scheduled_job(environ: Mapping[str, str]) -> str:
    return f"slurm-{slurm_job(environ)}" if slurm_job(environ) else ""


def name_job(labels: Labels, job: str) -> None:
    """Set the job of a process as its framework knows it. A job of the scheduler is then around it;
    a name that the user has given remains."""
    given = str(labels.get("job", ""))
    if is_scheduled(given):
        labels["outer"] = given
    if not given or is_scheduled(given):
        labels["job"] = job


def is_scheduled(job: str) -> bool:
    """Whether this is the name of a scheduler's job, in which other jobs may run."""
    return job.startswith("slurm-")


def _job(environ: Mapping[str, str]) -> str:
    if environ.get("RANKDBG_JOB"):
        return environ["RANKDBG_JOB"]
    if run := _run(environ):
        return f"torchrun-{run}"
    if slurm_job(environ):  # srun with PMIx has a namespace for each step
        return ""
    if environ.get("PMIX_NAMESPACE"):
        return f"mpi-{environ['PMIX_NAMESPACE']}"
    if environ.get("HYPERACTOR_EXECUTION_ID"):  # Monarch: the same on all hosts of a client
        return f"monarch-{environ['HYPERACTOR_EXECUTION_ID'].replace(':', '')}"
    return ""


def _run(environ: Mapping[str, str]) -> str:
    run = environ.get("TORCHELASTIC_RUN_ID", "")
    return "" if run == "none" else run


def slurm_job(environ: Mapping[str, str]) -> str:
    """The Slurm job of a process with these variables, as squeue shows it: 17, or 17_3 for an
    element of an array. `` without a job."""
    array, element = environ.get("SLURM_ARRAY_JOB_ID", ""), environ.get("SLURM_ARRAY_TASK_ID", "")
    if environ.get("SLURM_JOB_ID") and array and element:
        return f"{array}_{element}"
    return environ.get("SLURM_JOB_ID", "")


def _component(environ: Mapping[str, str]) -> int | None:
    """Of a heterogeneous Slurm job. Tasks of all components have the SLURM_JOB_ID of the first
    (measured, Slurm 22.05), and the nodes of each."""
    node = environ.get("SLURMD_NODENAME", "")
    components = [
        number
        for number in range(min(1000, _number(environ.get("SLURM_HET_SIZE")) or 0))
        if is_listed(node, environ.get(f"SLURM_JOB_NODELIST_HET_GROUP_{number}", ""))
    ]
    return components[0] if node and len(components) == 1 else None


def is_monarch_proc(command: Sequence[str]) -> bool:
    """Whether Monarch has started this process, for actors or as their host."""
    _, form, name = invocation(command)
    return form == "module" and _is_monarch_module(name)


def _is_monarch_module(name: str) -> bool:
    return name.removeprefix("monarch.") in _MONARCH_PROCS


def _from_monarch(environ: Mapping[str, str]) -> Labels:
    """`workers-3 @ host`: the fourth proc of the mesh `workers`, over all of its hosts."""
    name = environ.get("HYPERACTOR_PROCESS_NAME", "").partition(" @ ")[0]
    mesh, _, place = name.rpartition("-")
    rank = _number(place)
    if rank is None:
        return {"engine": "monarch", "part": "host"}
    labels: Labels = {"engine": "monarch", "part": "proc", "rank": rank, "source": "monarch"}
    labels.update(world=None, local_rank=None, names={"mesh": mesh})
    if not environ.get("RANKDBG_ROLE"):
        labels["role"] = mesh
    return labels


def parse_plain_mesh(text: str) -> dict[str, int]:
    """`pp=2,dp=2` as a mapping; {} if it is not well formed.

    The command line has checked it before, with a message for the user (mesh.parse).
    """
    mesh: dict[str, int] = {}
    for part in text.split(",") if text else ():
        name, _, size = (piece.strip() for piece in part.partition("="))
        extent = _number(size)
        if not name or not extent or name in mesh:
            return {}
        mesh[name] = extent
    return mesh


def from_title(title: str) -> Labels:
    """Engine, part, role and coordinates, from the titles that inference engines and Ray set.

    sglang::scheduler_TP0_PP1_DP0_EP0    VLLM::Worker_TP0    VLLM::EngineCore
    ray::TrainerActor.step               ray::IDLE
    dask worker [tcp://10.0.0.1:4711]    dask scheduler [tcp://10.0.0.1:8786]

    The part is also the role, unless the user sets one.
    """
    if title.startswith(_DASK_TITLES):
        part = title.split()[1]
        return {"engine": "dask", "part": part, "role": part}
    engine, separator, rest = title.strip().partition("::")
    engine = engine.lower()
    if not separator or engine not in _TITLED:
        return {}
    words = rest.split()
    name = words[0] if words else ""
    coordinates: dict[str, int] = {}
    if engine == "ray":
        part = name.partition(".")[0].partition("(")[0]
    else:
        part, coordinates = _parts_of_title(name)
    labels: Labels = {"engine": engine, "part": part, "role": part}
    if coordinates:
        labels["coordinates"] = coordinates
    return labels


def _parts_of_title(name: str) -> tuple[str, dict[str, int]]:
    """`Worker_DP1_TP0` -> Worker, {dp: 1, tp: 0}; sglang has ATTN_CP0 and MOE_DP0 as well."""
    role: list[str] = []
    coordinates: dict[str, int] = {}
    kind = ""
    for part in name.split("_"):
        dimension = part.rstrip("0123456789")
        value = _number(part[len(dimension) :])
        if part in ("ATTN", "MOE"):
            kind = f"{part.lower()}_"
        elif dimension in _DIMENSIONS and value is not None:
            coordinates[f"{kind}{dimension.lower()}"] = value
            kind = ""
        elif not coordinates and value is None:
            role.append(part)
    return "_".join(role), coordinates


# Programs that start ranks but are not ranks, by the module or script that they run.
_LAUNCHERS = frozenset(
    [
        "torchrun",
        "accelerate",
        "deepspeed",
        "horovodrun",
        "ray",
        "mpirun",
        "mpiexec",
        "torch.distributed.run",
        "torch.distributed.launch",
        "accelerate.commands.launch",
        "deepspeed.launcher.launch",
        "deepspeed.launcher.runner",
    ]
)
# Launchers that are not Python programs: they read the output of their ranks from ptys and pipes,
# and write it to their own output.
_NATIVE_LAUNCHERS = frozenset(
    [
        "mpirun",
        "mpiexec",
        "mpiexec.hydra",
        "mpiexec.mpich",
        "mpiexec.openmpi",
        "mpirun.openmpi",
        "mpirun.mpich",
        "hydra_pmi_proxy",
        "orterun",
        "orted",
        "prterun",
        "prte",
        "prted",
    ]
)
_HELPERS = (
    "from multiprocessing.resource_tracker",
    "from multiprocessing.forkserver",
    "from multiprocessing.semaphore_tracker",
    "/debugpy/adapter",
    "/ray/dashboard/",
    "/ray/autoscaler/",
    "/ray/_private/log_monitor",
    "/ray/_private/runtime_env/",
)
# Ray's own processes, and rankdbg's in Ray.
_RAY_HELPERS = ("IDLE", "DashboardAgent", "RuntimeEnvAgent", "JobSupervisor", "RankdbgNode")
# Those that write objects to storage and read them: SPILL_SpillWorker while they do.
RAY_MOVERS = ("SpillWorker", "RestoreWorker")
# The modules that Monarch's processes run.
_MONARCH_PROCS = ("_src.actor.bootstrap_main", "bootstrap_main")
# Spark's daemon, and its forks, which are the workers; without a daemon the worker itself.
_SPARK_WORKERS = ("pyspark.daemon", "pyspark.worker")
# Dask's scheduler and workers, as programs of their own; they are commands of another, too.
_DASK_SCHEDULERS = ("dask-scheduler", "distributed.cli.dask_scheduler")
_DASK_WORKERS = ("dask-worker", "distributed.cli.dask_worker")
_DASK_TITLES = ("dask worker [", "dask scheduler [")
# The processes of an inference engine that only forward requests and answers.
_ENGINE_HELPERS = ("detokenizer", "tokenizer", "router", "http", "APIServer", "DPCoordinator")


def invocation(command: Sequence[str]) -> tuple[str, str, str]:
    """How a Python process was started: flags, form and name.

    The flags are the letters of the options without a value. The form is `script` (the name is a
    path), `module`, `code` (the name is the code), or `` for a prompt. The command line is parsed
    as python itself parses it: -uIm train, -Wd, -X dev.
    """
    flags = ""
    words = iter(command[1:])
    for word in words:
        if word == "--check-hash-based-pycs":
            next(words, None)
        elif word == "-" or not word.startswith("-"):
            return flags, "script", word
        elif not word.startswith("--"):
            for place, letter in enumerate(word[1:], 2):
                if letter in "cmWX":
                    value = word[place:] or next(words, "")
                    if letter in "cm":
                        return flags, "code" if letter == "c" else "module", value
                    break
                flags += letter
    return flags, "", ""


def script_name(command: Sequence[str]) -> str:
    """A short name of the program: `train` for `python -u /src/train.py --lr 1`."""
    _, form, name = invocation(command)
    if form == "code":
        return "python"
    if form == "module":
        return name.rpartition(".")[2] or "python"
    base = (name or (command[0] if command else "")).rpartition("/")[2]
    return base.removesuffix(".py") or "python"


def runs_again(command: Sequence[str], earlier: Sequence[str]) -> bool:
    """Whether a command starts the program of an earlier one, as Lightning does for its ranks."""
    _, form, _ = invocation(command)
    _, earlier_form, _ = invocation(earlier)
    same = form in ("script", "module") and form == earlier_form
    return same and script_name(command) == script_name(earlier)


def made_up_job(command: Sequence[str], parent: int) -> str:
    """A job name for processes without one: the same for all processes of a launcher."""
    return f"{script_name(command)}-{parent:x}"


def is_made_up(job: str, command: Sequence[str], parent: int) -> bool:
    """The end tells of most names that they are not: a command line takes longer to read."""
    return job.endswith(f"-{parent:x}") and job == made_up_job(command, parent)


def known_kind(command: Sequence[str]) -> str:
    """`launcher` or `helper` for programs that are known not to be ranks, else ``."""
    if command and command[0].rpartition("/")[2] in _NATIVE_LAUNCHERS:
        return "launcher"
    _, form, name = invocation(command)
    if form == "code":
        return "helper" if name.startswith(_HELPERS) else ""
    if form == "script" and any(part in name for part in _HELPERS):
        return "helper"
    program = name if form == "module" else name.rpartition("/")[2]
    if program in _LAUNCHERS:
        return "launcher"
    return "helper" if dask_part(command) == "scheduler" else ""


def dask_part(command: Sequence[str]) -> str:
    """`scheduler` or `worker`, by the command or the title that Dask has put in its place, else ``."""
    if " ".join(command).startswith(_DASK_TITLES):
        return command[0].split()[1]
    _, form, name = invocation(command)
    program = name if form == "module" else name.rpartition("/")[2]
    if program == "dask":
        part = _first_argument(command, name)
        return part if part in ("scheduler", "worker") else ""
    if program in _DASK_SCHEDULERS:
        return "scheduler"
    return "worker" if program in _DASK_WORKERS else ""


def dask_places(command: Sequence[str]) -> set[str]:
    """Where scheduler and workers meet: the file, and the port of the scheduler's address."""
    found = {word.rpartition(":")[2].rstrip("]/") for word in command if "://" in word}
    for name, value in zip(command, [*command[1:], ""], strict=True):
        if name in ("--scheduler-file", "--port"):
            found.add(value)
        elif name.startswith(("--scheduler-file=", "--port=")):
            found.add(name.partition("=")[2])
    return found - {"", "0"}


def program(command: Sequence[str]) -> str:
    """The launcher or engine that a process runs, else ``: what an ancestor of ranks is."""
    base = command[0].rpartition("/")[2] if command else ""
    if base in _NATIVE_LAUNCHERS:  # its options are not Python's
        return base
    if known_kind(command) == "launcher":
        _, form, name = invocation(command)
        return (name if form == "module" else name or command[0]).rpartition("/")[2] or "launcher"
    if base == "raylet":
        return "ray"
    if is_spark_java(command):
        return "spark"
    text = " ".join(command).lower()
    if text.startswith(_DASK_TITLES):
        return "dask"
    return _worker_engine(command) or next((e for e in _TITLED[1:] if e in text), "")


def is_spark_java(command: Sequence[str]) -> bool:
    """Spark's driver or executor, which starts the daemon of its Python workers."""
    is_java = bool(command) and command[0].rpartition("/")[2] == "java"
    return is_java and any(word.startswith("org.apache.spark.") for word in command)


def is_engine_helper(labels: Labels) -> bool:
    """Whether this part of an engine, by its title, only forwards requests, or idles."""
    if labels.get("engine") == "monarch":
        return labels.get("part") != "proc"
    if labels.get("engine") == "dask":
        return labels.get("part") != "worker"
    helpers = _RAY_HELPERS if labels.get("engine") == "ray" else _ENGINE_HELPERS
    part = str(labels.get("part"))
    return part.startswith(helpers) or (labels.get("engine") == "ray" and part.endswith(RAY_MOVERS))


def flags_without_agent(command: Sequence[str]) -> str:
    """Why a Python process with these flags cannot have an agent, or ``."""
    flags, _, _ = invocation(command)
    if "S" in flags:
        return "python was started with -S: no site module, so nothing can start the agent"
    for flag in "IE":
        if flag in flags:
            return f"python was started with -{flag}, and its environment has no rankdbg installed"
    return ""
