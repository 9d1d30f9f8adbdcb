"""identity: labels from variables, titles and command lines."""

from __future__ import annotations

import pytest

from rankdbg.process import identity

# --- the environment ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}, (3, 8, 1, "torchrun")),
        ({"SLURM_PROCID": "2", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0"}, (2, 4, 0, "slurm")),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "3"}, (1, 3, None, "openmpi")),
        ({"PMI_RANK": "5", "PMI_SIZE": "6", "MPI_LOCALRANKID": "5"}, (5, 6, 5, "pmi")),
        ({"LOCAL_RANK": "1", "WORLD_SIZE": "2"}, (1, 2, 1, "torchrun")),
        ({"RANK": "3", "SLURM_PROCID": "0"}, (3, None, None, "torchrun")),
        ({"OMPI_COMM_WORLD_RANK": "3", "SLURM_PROCID": "0"}, (3, None, None, "openmpi")),
        ({"PMI_RANK": "3", "SLURM_PROCID": "0"}, (3, None, None, "pmi")),
    ],
)
def test_numbers(environ: dict[str, str], wanted: tuple[object, ...]) -> None:
    """Each launcher's variables give a number; what is nearer to the program comes first."""
    labels = identity.from_environment(environ)
    names = ("rank", "world", "local_rank", "source")
    assert tuple(labels.get(name) for name in names) == wanted


@pytest.mark.parametrize("text", ["", "-1", "x", "1.5", " 1", "٣", "1e3"])
def test_what_is_no_number(text: str) -> None:
    """A variable that is not a whole number says nothing."""
    assert "rank" not in identity.from_environment({"RANK": text})


def test_local_rank_of_another_node() -> None:
    """LOCAL_RANK alone is a rank's number on the first node only."""
    assert "rank" not in identity.from_environment({"LOCAL_RANK": "1", "NODE_RANK": "1"})


def test_role_mesh_and_node() -> None:
    """RANKDBG_ROLE, RANKDBG_MESH and the number of the node become labels."""
    environ = {"RANKDBG_ROLE": "policy", "RANKDBG_MESH": "dp=2, tp=4", "GROUP_RANK": "1"}
    assert identity.from_environment(environ) == {
        "role": "policy",
        "mesh": {"dp": 2, "tp": 4},
        "node_rank": 1,
    }


@pytest.mark.parametrize("text", ["dp", "dp=", "dp=0", "dp=-1", "=2", "dp=2,dp=3", "dp=2,", "a=b"])
def test_mesh_that_is_not_well_formed(text: str) -> None:
    """A malformed RANKDBG_MESH is no mesh."""
    assert identity.parse_plain_mesh(text) == {}


@pytest.mark.parametrize(
    ("environ", "job"),
    [
        ({"RANKDBG_JOB": "mine", "SLURM_JOB_ID": "7"}, "mine"),
        ({"TORCHELASTIC_RUN_ID": "abc", "SLURM_JOB_ID": "7"}, "torchrun-abc"),
        ({"TORCHELASTIC_RUN_ID": "none", "SLURM_JOB_ID": "7"}, "slurm-7"),
        ({"PMIX_NAMESPACE": "12345"}, "mpi-12345"),
        ({"TORCHELASTIC_RUN_ID": "none"}, None),
        ({}, None),
    ],
)
def test_job(environ: dict[str, str], job: str | None) -> None:
    """The job's name is rankdbg's, or else made from the launcher's id."""
    assert identity.from_environment(environ).get("job") == job


def test_run_of_torchrun() -> None:
    """Is known beside the name that the user has given the job; `none` is no id."""
    named = {"RANKDBG_JOB": "mine", "TORCHELASTIC_RUN_ID": "abc"}
    labels = identity.from_environment(named)
    assert (labels["job"], labels["run"]) == ("mine", "abc")
    assert "run" not in identity.from_environment({**named, "TORCHELASTIC_RUN_ID": "none"})


def test_job_around() -> None:
    """The scheduler's, which all processes in it know; else that of the `rankdbg run` around it."""
    nested = {"RANKDBG_JOB": "mine", "RANKDBG_OUTER_JOB": "script"}
    assert identity.from_environment(nested)["outer"] == "script"
    assert identity.from_environment({**nested, "SLURM_JOB_ID": "7"})["outer"] == "slurm-7"
    assert "outer" not in identity.from_environment({**nested, "RANKDBG_JOB": "script"})


# --- titles -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("title", "role", "coordinates"),
    [
        ("sglang::scheduler_TP0_PP1_DP2_EP3", "scheduler", {"tp": 0, "pp": 1, "dp": 2, "ep": 3}),
        ("sglang::scheduler_TP12", "scheduler", {"tp": 12}),
        (
            "sglang::scheduler_DP0_MOE_DP1_ATTN_CP2",
            "scheduler",
            {"dp": 0, "moe_dp": 1, "attn_cp": 2},
        ),
        ("sglang::scheduler", "scheduler", None),
        ("sglang::data_parallel_controller", "data_parallel_controller", None),
        ("VLLM::Worker_TP3", "Worker", {"tp": 3}),
        ("VLLM::Worker_DP0_TP1_EP1", "Worker", {"dp": 0, "tp": 1, "ep": 1}),
        ("VLLM::EngineCore_DP1", "EngineCore", {"dp": 1}),
        ("VLLM::APIServer_0", "APIServer", None),
        ("ray::TrainerActor.step", "TrainerActor", None),
        ("ray::Rollout(lr=1).run()", "Rollout", None),
        ("ray::IDLE", "IDLE", None),
        ("sglang::scheduler_TP0_ -m x --y", "scheduler", {"tp": 0}),
    ],
)
def test_titles(title: str, role: str, coordinates: dict[str, int] | None) -> None:
    """Role and coordinates of sglang, vLLM and Ray."""
    labels = identity.from_title(title)
    assert (labels["role"], labels.get("coordinates")) == (role, coordinates)


@pytest.mark.parametrize(
    "title",
    ["", "python train.py", "/usr/bin/python -c std::string", "nginx::worker_TP0", "::", "a b::c"],
)
def test_what_is_no_title(title: str) -> None:
    """Only the engines' own titles say something."""
    assert identity.from_title(title) == {}


# --- command lines ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("python train.py -S", ("", "script", "train.py")),
        ("python -u -O train.py", ("uO", "script", "train.py")),
        ("python -uS -m pkg.mod -I", ("uS", "module", "pkg.mod")),
        ("python -Im pkg", ("I", "module", "pkg")),
        ("python -mpkg -S", ("", "module", "pkg")),
        ("python -Sc pass -I", ("S", "code", "pass")),
        ("python -W error -S x.py", ("S", "script", "x.py")),
        ("python -Werror::SyntaxWarning x.py", ("", "script", "x.py")),
        ("python -X dev -I x.py", ("I", "script", "x.py")),
        ("python -XimportTimE x.py", ("", "script", "x.py")),
        ("python -bWS x.py", ("b", "script", "x.py")),
        ("python --check-hash-based-pycs always -E x.py", ("E", "script", "x.py")),
        ("python - -S", ("", "script", "-")),
        ("python", ("", "", "")),
        ("python -c", ("", "code", "")),
        ("python -W", ("", "", "")),
        ("", ("", "", "")),
    ],
)
def test_invocation(command: str, wanted: tuple[str, str, str]) -> None:
    """A command line is read as python reads it."""
    assert identity.invocation(command.split()) == wanted


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python -u /src/train.py --lr 1", "train"),
        ("python -m pkg.train", "train"),
        ("python -c pass", "python"),
        ("/usr/bin/torchrun train.py", "train"),
        ("python", "python"),
        ("python -m", "python"),
        ("", "python"),
    ],
)
def test_script_name(command: str, name: str) -> None:
    """A job without a name is named after what it runs."""
    assert identity.script_name(command.split()) == name


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("python /venv/bin/torchrun --nproc-per-node 8 train.py", "launcher"),
        ("python -m torch.distributed.run train.py", "launcher"),
        ("python -um torch.distributed.launch train.py", "launcher"),
        ("python /venv/bin/accelerate launch train.py", "launcher"),
        ("python /venv/bin/deepspeed train.py", "launcher"),
        ("python train.py torchrun", ""),
        ("python /venv/bin/dask scheduler --port 8786", "helper"),
        ("python -m distributed.cli.dask_scheduler", "helper"),
        ("python /venv/bin/dask worker tcp://host:8786", ""),
        ("python torchrun.py", ""),
        ("python /site-packages/ray/dashboard/agent.py --x", "helper"),
        ("python train.py --logs /ray/dashboard/", ""),
        ("python", ""),
        ("", ""),
    ],
)
def test_known_kind(command: str, kind: str) -> None:
    """Programs that are known not to be ranks, by what they run and not by their arguments."""
    assert identity.known_kind(command.split()) == kind


@pytest.mark.parametrize(
    ("title", "is_helper"),
    [
        ("ray::IDLE", True),
        ("ray::IDLE_SpillWorker", True),
        ("ray::RESTORE_RestoreWorker", True),
        ("ray::DashboardAgent", True),
        ("ray::RankdbgNode.receive", True),
        ("ray::Trainer.step", False),
        ("ray::router", False),
        ("sglang::detokenizer", True),
        ("sglang::router", True),
        ("sglang::scheduler_TP0", False),
        ("VLLM::APIServer_1", True),
        ("VLLM::DPCoordinator", True),
        ("VLLM::EngineCore", False),
    ],
)
def test_helpers_of_engines(title: str, is_helper: bool) -> None:
    """Parts of an engine that only hand requests on are helpers, whatever role they are given."""
    labels = {**identity.from_title(title), "role": "rollout"}
    assert identity.is_engine_helper(labels) is is_helper


def test_trackers() -> None:
    """multiprocessing's trackers and fork servers are known by their code."""
    for module in ("resource_tracker", "semaphore_tracker", "forkserver"):
        code = f"from multiprocessing.{module} import main;main(5)"
        assert identity.known_kind(["python", "-s", "-c", code]) == "helper"
    spawned = "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5)"
    assert identity.known_kind(["python", "-c", spawned]) == ""


@pytest.mark.parametrize(
    ("command", "flag"),
    [
        ("python -S x.py", "-S"),
        ("python -uS x.py", "-S"),
        ("python -Im pkg", "-I"),
        ("python -E x.py", "-E"),
        ("python -IS x.py", "-S"),
        ("python -W error -S x.py", "-S"),
        ("python -X dev -I x.py", "-I"),
        ("python -s x.py", ""),
        ("python -c code -S", ""),
        ("python x.py -S -I -E", ""),
        ("python -m pkg -S", ""),
        ("python -Werror::SyntaxWarning x.py", ""),
    ],
)
def test_flags_without_agent(command: str, flag: str) -> None:
    """-S, -I and -E are found in clusters and after values, and nowhere else."""
    reason = identity.flags_without_agent(command.split())
    assert reason.startswith(f"python was started with {flag}") if flag else reason == ""


def test_monarch_proc() -> None:
    """Its number, mesh and job are in the environment; a child that inherits that is no proc."""
    environ = {
        "HYPERACTOR_PROCESS_NAME": "my-workers-3 @ host",
        "HYPERACTOR_EXECUTION_ID": "me_Nov-15_06:46_324",
        "RANK": "0",
        "WORLD_SIZE": "8",
        "LOCAL_RANK": "0",
    }
    command = ["python", "-m", "monarch._src.actor.bootstrap_main"]
    labels = identity.of_process("", command, environ)
    assert (labels["rank"], labels["source"], labels["world"]) == (3, "monarch", None)
    assert (labels["role"], labels["names"]) == ("my-workers", {"mesh": "my-workers"})
    assert labels["job"] == "monarch-me_Nov-15_0646_324"
    child = identity.of_process("", ["python", "tool.py"], environ)
    assert (child["source"], child["job"]) == ("torchrun", labels["job"])
    named = identity.of_process("", command, {**environ, "RANKDBG_ROLE": "policy"})
    assert named["role"] == "policy"


@pytest.mark.parametrize("module", ["pyspark.daemon", "pyspark.worker"])
def test_spark_worker(module: str) -> None:
    """Spark's Python workers are known by the module that they run."""
    labels = identity.of_process("", ["python3", "-m", module], {})
    assert labels == {"engine": "spark", "part": "worker", "role": "worker"}
    assert not identity.is_engine_helper(labels)


@pytest.mark.parametrize(
    ("again", "first", "same"),
    [
        ("python /src/train.py --lr 1", "python -u train.py --lr 1", True),
        ("python -m pkg.train", "python -m pkg.train", True),
        ("python -m pkg.train", "python train.py", False),
        ("python work.py", "python train.py", False),
        ("python -c code", "python -c code", False),
    ],
)
def test_program_that_runs_again(again: str, first: str, same: bool) -> None:
    """Lightning starts its own script or module again, with the same arguments."""
    assert identity.runs_again(again.split(), first.split()) == same


def test_component_of_a_heterogeneous_job() -> None:
    """All tasks have the number of the first component; the node tells which is theirs."""
    environ = {"SLURM_HET_SIZE": "2", "SLURM_JOB_ID": "17", "SLURMD_NODENAME": "node-2"}
    names = [f"SLURM_JOB_NODELIST_HET_GROUP_{number}" for number in range(2)]
    lists = dict(zip(names, ("node-0", "node-[1-2]"), strict=True))
    assert identity.from_environment({**environ, **lists})["het"] == 1
    assert "het" not in identity.from_environment(environ)
    both = dict.fromkeys(names, "node-[0-2]")
    assert "het" not in identity.from_environment({**environ, **both})


@pytest.mark.parametrize(
    ("command", "engine", "kind"),
    [
        ("python /venv/bin/dask worker tcp://10.0.0.1:8786", "dask", ""),
        ("python -m dask worker tcp://10.0.0.1:8786", "dask", ""),
        ("python -mdask worker tcp://10.0.0.1:8786", "dask", ""),
        ("python -m distributed.cli.dask_worker x", "dask", ""),
        ("python -mdask scheduler", None, "helper"),
        ("python /venv/bin/dask scheduler", None, "helper"),
        ("python /venv/bin/dask", None, ""),
        ("python train.py dask worker", None, ""),
        ("python -m pyspark.daemon pyspark.worker", "spark", ""),
    ],
)
def test_workers_of_dask_and_spark(command: str, engine: str | None, kind: str) -> None:
    """Are told from what schedules them."""
    words = command.split()
    assert identity.of_process(command, words, {}).get("engine") == engine
    assert identity.known_kind(words) == kind
    assert identity.program(words) == (engine or "")


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("/usr/bin/mpirun -n 2 python train.py", "mpirun"),
        ("/opt/intel/hydra_pmi_proxy --usize -1", "hydra_pmi_proxy"),
        ("/usr/bin/java -cp x org.apache.spark.deploy.SparkSubmit pyspark-shell", "spark"),
        ("/usr/bin/java -jar tool.jar", ""),
    ],
)
def test_programs_above_ranks(command: str, program: str) -> None:
    """Those that are not Python's are known by what they execute."""
    assert identity.program(command.split()) == program


def test_titles_of_dask() -> None:
    """Its workers are ranks, its scheduler is not."""
    worker = identity.from_title("dask worker [tcp://127.0.0.1:45965]   ")
    assert worker == {"engine": "dask", "part": "worker", "role": "worker"}
    assert not identity.is_engine_helper(worker)
    assert identity.is_engine_helper(identity.from_title("dask scheduler [tcp://127.0.0.1:8786]"))


def test_jobs_around_a_job() -> None:
    """A name that Ray, torchrun or the user gives is nearer than that of the scheduler."""
    slurm = {"SLURM_JOB_ID": "17"}
    for also, job in (
        ({"RANKDBG_JOB": "mine"}, "mine"),
        ({"TORCHELASTIC_RUN_ID": "x"}, "torchrun-x"),
    ):
        labels = identity.from_environment({**slurm, **also})
        assert (labels["job"], labels["outer"]) == (job, "slurm-17")
    labels = identity.from_environment(slurm)
    assert (labels["job"], labels.get("outer")) == ("slurm-17", None)
    identity.name_job(labels, "ray-01000000")
    assert (labels["job"], labels["outer"]) == ("ray-01000000", "slurm-17")
    mine = {"job": "mine"}
    identity.name_job(mine, "ray-01000000")
    assert mine == {"job": "mine"}
