"""agent/nsys_program: which nsys, and one that starts after the other."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from rankdbg.agent.nsys import nsys_program


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RANKDBG_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    places = (f"{tmp_path}/cuda/bin", f"{tmp_path}/opt/*/bin", f"{tmp_path}/none/*/bin")
    monkeypatch.setattr(nsys_program, "_INSTALLED", places)
    return tmp_path


def install(folder: Path) -> str:
    folder.mkdir(parents=True)
    (folder / "nsys").touch(0o700)
    return str(folder / "nsys")


def test_where_its_packages_put_it(folder: Path) -> None:
    """PATH comes first; else the newest version."""
    assert nsys_program.find() == ""
    bare = install(folder / "cuda/bin")
    assert nsys_program.find() == bare
    install(folder / "opt/2025.9.1/bin")
    newest = install(folder / "opt/2025.10.2/bin")
    (folder / "opt/2026.1").mkdir()
    assert nsys_program.find() == newest
    assert nsys_program.find() == newest
    on_path = install(folder / "bin")
    assert nsys_program.find() == on_path


def test_turns(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next is held up until the rank ends the turn, and not for ever."""
    monkeypatch.setattr(nsys_program, "TURN_SECONDS", 0.1)
    taken = nsys_program.take_turn()
    number, _, path = taken[nsys_program.TURN].partition(" ")
    assert os.get_inheritable(int(number))
    assert nsys_program.take_turn() == {}
    monkeypatch.setenv(nsys_program.TURN, taken[nsys_program.TURN])
    nsys_program.end_turn(os.environ)
    assert nsys_program.TURN not in os.environ
    with open(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_no_turn_to_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A descriptor that is something else by now is left alone."""
    (folder / "lock").touch()
    with open(folder / "other", "w") as other:
        monkeypatch.setenv(nsys_program.TURN, f"{other.fileno()} {folder / 'lock'}")
        nsys_program.end_turn(os.environ)
        other.write("still open")
        monkeypatch.setenv(nsys_program.TURN, "nonsense")
        nsys_program.end_turn(os.environ)
    assert nsys_program.TURN not in os.environ
    assert (folder / "other").read_text() == "still open"
