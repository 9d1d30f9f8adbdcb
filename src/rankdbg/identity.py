"""Who a process says it is: its labels from the environment and the process title.

Pure functions from text to labels. The agent uses them from inside, the node for
processes that have no agent; so: nothing but built-in types.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Labels = dict[str, Any]

# Where a rank number can come from. An earlier source is a stronger one: it is nearer
# to the program. (A launcher that Slurm started has SLURM_PROCID; its workers have RANK.
# An mpirun in a batch script hands the script's SLURM_PROCID on to all of its ranks.)
SOURCES = ("init", "torch", "monarch", "torchrun", "openmpi", "pmi", "slurm")

_VARIABLES = {
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    "openmpi": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    "pmi": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    "slurm": ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
}

_DIMENSIONS = ("PP", "DP", "TP", "EP", "CP", "DCP", "PCP")


_SLURM = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURMD_NODENAME")


def of_process(title: str, command: Sequence[str], environ: Mapping[str, str]) -> Labels:
    """All that can be said from outside, and from inside before the program says more."""
    labels = {**from_title(title), **from_environment(environ)}
    if is_monarch_proc(command):
        labels.update(_from_monarch(environ))
    return labels


def from_environment(environ: Mapping[str, str]) -> Labels:
    """rank, world, local_rank, source, role, mesh, job, and in which job of Slurm's it is
    (environment), as far as they are there."""
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
    job = _job(environ)
    if job:
        labels["job"] = job
    # A process that has set its title has written it over what others see as its environment.
    slurm = {name: environ[name] for name in _SLURM if environ.get(name)}
    if slurm:
        labels["environment"] = slurm
    return labels


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() else None


def _job(environ: Mapping[str, str]) -> str:
    if environ.get("RANKDBG_JOB"):
        return environ["RANKDBG_JOB"]
    if environ.get("TORCHELASTIC_RUN_ID", "none") != "none":
        return f"torchrun-{environ['TORCHELASTIC_RUN_ID']}"
    if environ.get("SLURM_JOB_ID"):
        return f"slurm-{environ['SLURM_JOB_ID']}"
    if environ.get("PMIX_NAMESPACE"):
        return f"mpi-{environ['PMIX_NAMESPACE']}"
    if environ.get("HYPERACTOR_EXECUTION_ID"):  # Monarch: the same on all hosts of a client
        return f"monarch-{environ['HYPERACTOR_EXECUTION_ID'].replace(':', '')}"
    return ""


def is_monarch_proc(command: Sequence[str]) -> bool:
    """Whether this is a process that Monarch has started for actors, or for a host of them."""
    _, form, name = invocation(command)
    return form == "module" and name.removeprefix("monarch.") in _MONARCH_PROCS


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

    The command line has checked and explained it already (mesh.parse);
    inside a rank there is nobody to explain it to.
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
    """Engine, part, role and coordinates from the titles that inference engines and Ray give.

    sglang::scheduler_TP0_PP1_DP0_EP0    VLLM::Worker_TP0    VLLM::EngineCore
    ray::TrainerActor.step               ray::IDLE

    The part is the role as well, unless somebody names another one.
    """
    engine, separator, rest = title.strip().partition("::")
    engine = engine.lower()
    if not separator or engine not in ("ray", "sglang", "vllm"):
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


# Programs that start ranks and are none, by the module or the script they run.
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
_RAY_HELPERS = ("IDLE", "DashboardAgent", "RuntimeEnvAgent", "RankdbgNode")
# What Monarch's own Pythons run.
_MONARCH_PROCS = ("_src.actor.bootstrap_main", "bootstrap_main")
# The processes of an inference engine that only hand requests and answers on.
_ENGINE_HELPERS = ("detokenizer", "tokenizer", "router", "http", "APIServer", "DPCoordinator")


def invocation(command: Sequence[str]) -> tuple[str, str, str]:
    """How a Python was started: flags, form and name of what it runs.

    The flags are the letters of those that take no value. The form is `script` (its name
    is a path), `module`, `code` (the name is the code), or `` for a prompt. A command line
    is read as python itself reads it: -uIm train, -Wd, -X dev.
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
    """A short name for what is run: `train` for `python -u /src/train.py --lr 1`."""
    _, form, name = invocation(command)
    if form == "code":
        return "python"
    if form == "module":
        return name.rpartition(".")[2] or "python"
    base = (name or (command[0] if command else "")).rpartition("/")[2]
    return base.removesuffix(".py") or "python"


def made_up_job(command: Sequence[str], parent: int) -> str:
    """For processes to which nobody has given one: those of one launcher have it in common."""
    return f"{script_name(command)}-{parent:x}"


def known_kind(command: Sequence[str]) -> str:
    """`launcher` or `helper` for programs that are known not to be ranks, else ``."""
    _, form, name = invocation(command)
    if form == "code":
        return "helper" if name.startswith(_HELPERS) else ""
    if form == "script" and any(part in name for part in _HELPERS):
        return "helper"
    if (name if form == "module" else name.rpartition("/")[2]) in _LAUNCHERS:
        return "launcher"
    return ""


def is_engine_helper(labels: Labels) -> bool:
    """Whether a title says that this part of an engine only hands requests on, or idles."""
    if labels.get("engine") == "monarch":
        return labels.get("part") != "proc"
    helpers = _RAY_HELPERS if labels.get("engine") == "ray" else _ENGINE_HELPERS
    return str(labels.get("part")).startswith(helpers)


def flags_without_agent(command: Sequence[str]) -> str:
    """Why a Python that was started with these flags cannot have an agent, or ``."""
    flags, _, _ = invocation(command)
    if "S" in flags:
        return "python was started with -S: no site module, so nothing can start the agent"
    for flag in "IE":
        if flag in flags:
            return f"python was started with -{flag}, and its environment has no rankdbg installed"
    return ""
