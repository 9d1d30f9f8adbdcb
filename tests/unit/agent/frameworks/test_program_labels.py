"""card: labels from the frameworks of a program, and which of them is taken."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import util
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rankdbg.agent import active, card, imports
from rankdbg.agent.frameworks import jax_labels, mpi_labels
from rankdbg.agent.frameworks.instances import Instances


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    readers, chosen = [*active.label_readers], dict(card.chosen)
    yield
    active.label_readers[:] = readers
    card.chosen.clear()
    card.chosen.update(chosen)


def labels(monkeypatch: pytest.MonkeyPatch, said: dict[str, Any], **environ: str) -> Any:
    for name in ("RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "RANKDBG_MESH"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    active.label_readers[:] = [lambda: dict(said)]
    return card.make()["labels"]


TORCH = {"rank": 3, "world": 4, "source": "torch", "coordinates": {"dp": 1, "tp": 1}}
MPI = {"rank": 3, "world": 4, "source": "mpi"}


def test_what_the_program_knows_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's rank is nearer to the program than the launcher's."""
    found = labels(monkeypatch, TORCH, RANK="0")
    assert (found["rank"], found["source"]) == (3, "torch")
    assert found["coordinates"] == {"dp": 1, "tp": 1}


def test_rank_of_a_weaker_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """MPI's rank does not replace RANK, but it does replace Slurm's."""
    assert labels(monkeypatch, MPI, RANK="0")["rank"] == 0
    assert labels(monkeypatch, MPI, SLURM_PROCID="0")["rank"] == 3


@pytest.mark.parametrize("how", ["run --mesh", "init"])
def test_mesh_of_the_user(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """A mesh that the user gives replaces the program's."""
    if how == "init":
        card.chosen["mesh"] = {"pp": 4}
        found = labels(monkeypatch, TORCH)
    else:
        found = labels(monkeypatch, TORCH, RANKDBG_MESH="pp=4")
    assert found["mesh"] == {"pp": 4} and "coordinates" not in found


def test_reader_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be read now is left out."""
    labels(monkeypatch, TORCH)
    active.label_readers[:] = [lambda: {}["none"], lambda: dict(MPI)]
    assert card.make()["labels"]["source"] == "mpi"


@pytest.mark.parametrize(
    ("initialised", "finalised", "threads", "size", "found"),
    [
        (True, False, 3, 4, {"rank": 2, "world": 4, "source": "mpi"}),
        (False, False, 3, 4, {}),
        (True, True, 3, 4, {}),
        (True, False, 1, 4, {}),  # another thread must not call MPI
        (True, False, 3, 1, {}),  # not started by mpirun
    ],
)
def test_mpi(
    monkeypatch: pytest.MonkeyPatch,
    initialised: bool,
    finalised: bool,
    threads: int,
    size: int,
    found: dict[str, Any],
) -> None:
    """The rank in COMM_WORLD, where MPI may be asked in this thread."""
    world = SimpleNamespace(Get_rank=lambda: 2, Get_size=lambda: size)
    mpi: Any = ModuleType("mpi4py.MPI")
    mpi.Is_initialized, mpi.Is_finalized = (lambda: initialised), (lambda: finalised)
    mpi.Query_thread, mpi.THREAD_MULTIPLE, mpi.COMM_WORLD = (lambda: threads), 3, world
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", mpi)
    assert mpi_labels.read() == found


class Mesh:
    """As jax.sharding.Mesh: 3 processes with 2 devices each."""

    def __init__(self) -> None:
        devices = [SimpleNamespace(process_index=n // 2) for n in range(6)]
        self.devices = SimpleNamespace(shape=(3, 2), flat=devices)
        self.axis_names = ("data", "model")


def jax_modules(monkeypatch: pytest.MonkeyPatch, client: object, backend: object) -> None:
    state = SimpleNamespace(client=client, process_id=2, num_processes=3)
    modules = {
        "distributed": {"global_state": state},
        "xla_bridge": {"_default_backend": backend},
        "mesh": {"Mesh": Mesh},
    }
    for name, variables in modules.items():
        module = ModuleType(f"jax._src.{name}")
        vars(module).update(variables)
        monkeypatch.setitem(sys.modules, module.__name__, module)


def test_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index of the process, and its place on the axes that do not divide its own devices."""
    mesh = Mesh()
    jax_modules(monkeypatch, object(), SimpleNamespace(process_index=lambda: 1))
    expected = {"rank": 1, "world": 3, "source": "jax", "coordinates": {"data": 1}}
    assert jax_labels.read() == expected and mesh


def test_jax_without_a_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing starts the backend: the index is what initialize() was told."""
    jax_modules(monkeypatch, object(), None)
    assert jax_labels.read() == {"rank": 2, "world": 3, "source": "jax"}


def test_jax_in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that does not use several processes gets no number."""
    jax_modules(monkeypatch, None, SimpleNamespace(process_index=lambda: 0))
    assert jax_labels.read() == {}


def test_instances_that_end() -> None:
    """Instances are found by their class, and forgotten when they end."""

    class Thing:
        name = "one"

    things = Instances(lambda thing: thing.name)
    thing = Thing()
    assert things.described(Thing) == ["one"]
    del thing
    assert things.described(Thing) == []


def test_import_after_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that first asks whether a module is there, and imports it later, is noticed."""
    (tmp_path / "rankdbg_watched_module.py").write_text("loaded = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    seen: list[bool] = []
    imports.when_imported("rankdbg_watched_module", lambda module: seen.append(module.loaded))
    assert util.find_spec("rankdbg_watched_module") is not None
    assert seen == []
    __import__("rankdbg_watched_module")
    assert seen == [True]
