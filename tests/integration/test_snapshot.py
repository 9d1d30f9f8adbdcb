"""Save what was seen, and look at it again when the job is long gone."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path

import pytest

from jobs import Job, rankdbg


@pytest.fixture(scope="module")
def saved_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A snapshot of a job of three ranks that has ended since: the job is watched for seconds."""
    scratch = tmp_path_factory.mktemp("saved")
    job = Job(f"saved-{os.urandom(3).hex()}", scratch)
    try:
        job.start_ranks(
            "waits", "waits_elsewhere", "waits", env={"MY_API_KEY": "hunter2", "PLAIN": "visible"}
        )
        job.wait_at("waits", "waits_elsewhere", "waits")
        result = job.cli("save", scratch / "a snapshot — é")
        assert result.returncode == 0, result.stderr
    finally:
        job.end()
    return scratch / "a snapshot — é"


@pytest.fixture
def saved(saved_once: Path, tmp_path: Path) -> Path:
    """A copy, with which a test may do what it likes."""
    return shutil.copytree(saved_once, tmp_path / saved_once.name)


def look(directory: Path, *words: object) -> dict:
    result = rankdbg(*words, "--json", "-t", f"snapshot:{directory}")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_every_verb_works_on_a_snapshot(saved: Path) -> None:
    """ps, select, stacks and ask answer as they would have then."""
    assert [row["rank"] for row in look(saved, "ps")["ranks"]] == [0, 1, 2]
    assert look(saved, "select", "1:")["ranks"] == [1, 2]
    groups = look(saved, "stacks")["groups"]
    assert [(group["ranks"], group["moving"]) for group in groups] == [("1", False), ("0,2", False)]
    threads = look(saved, "stacks", "--threads", "all", "--locals")["groups"]
    assert threads[1]["locals"]["0"]
    values = look(saved, "ask", "all", "loss")
    assert {group["ranks"]: group["value"] for group in values["groups"]} == {
        "0,2": "2.5",
        "1": "9.75",
    }


def test_what_is_not_in_it_is_said(saved: Path) -> None:
    """An expression that nobody asked then is a silence with that reason."""
    result = rankdbg("ask", "all", "loss * 2", "-t", f"snapshot:{saved}")
    assert result.returncode == 1
    assert "not in the snapshot" in result.stdout


def test_files_are_private_and_secrets_masked(saved: Path) -> None:
    """Plain files of mode 0600; values that look like secrets are not in them."""
    files = [path for path in saved.rglob("*") if path.is_file()]
    assert files
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert {stat.S_IMODE(p.stat().st_mode) for p in [saved, *saved.rglob("*")] if p.is_dir()} == {
        0o700
    }
    everything = "".join(path.read_text() for path in files)
    assert "hunter2" not in everything
    assert '"PLAIN": "visible"' in everything


def test_saving_stacks_keeps_what_was_seen(job: Job, tmp_path: Path) -> None:
    """stacks --save holds the roster and these stacks; what it lacks is named."""
    job.start_ranks("waits", "waits")
    job.wait_at("waits", "waits")
    job.cli("stacks", "--save", tmp_path / "snap")
    assert look(tmp_path / "snap", "stacks")["groups"][0]["ranks"] == "0-1"
    result = rankdbg("stacks", "--threads", "all", "-t", f"snapshot:{tmp_path / 'snap'}")
    assert "the snapshot contains no stacks of all threads" in result.stdout + result.stderr


def test_an_existing_directory_is_left_alone(job: Job, tmp_path: Path) -> None:
    """Saving never mixes with or overwrites what is there."""
    job.start_ranks("waits")
    job.wait_at("waits")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("precious")
    result = job.cli("save", tmp_path / "mine")
    assert result.returncode == 2
    assert "already exists" in result.stderr
    assert os.listdir(tmp_path / "mine") == ["notes.txt"]


def test_a_full_disk_leaves_nothing_half(job: Job, tmp_path: Path) -> None:
    """One clear sentence, exit status 2, and no half snapshot."""
    if os.geteuid():
        pytest.skip("only root can mount a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    assert os.system(f"mount -t tmpfs -o size=4k tmpfs {disk}") == 0
    try:
        job.start_ranks("waits", "waits")
        job.wait_at("waits", "waits")
        result = job.cli("save", disk / "snap")
        assert result.returncode == 2
        assert "No space left on device" in result.stderr
        assert os.listdir(disk) == []
    finally:
        os.system(f"umount {disk}")


def damage_cut(directory: Path) -> str:
    path = next(directory.rglob("stacks*.json"))
    path.write_bytes(path.read_bytes()[:100])
    return "is damaged: stacks"


def damage_content(directory: Path) -> str:
    next(directory.rglob("roster*.json")).write_text("[]")
    return "is damaged: roster"


def damage_answer(directory: Path) -> str:
    path = next(directory.rglob("stacks*.json"))
    path.write_text(json.dumps({"question": {"ask": "stacks"}, "answer": {"distinct": 3}}))
    return "is damaged"


def damage_roster_entry(directory: Path) -> str:
    path = next(directory.rglob("roster*.json"))
    content = json.loads(path.read_text())
    del content["answer"]["processes"][0]["labels"]
    path.write_text(json.dumps(content))
    return "is damaged"


def damage_head(directory: Path) -> str:
    (directory / "snapshot.json").unlink()
    return "is not a snapshot"


def damage_version(directory: Path) -> str:
    head = directory / "snapshot.json"
    head.write_text(head.read_text().replace('"snapshot": 1', '"snapshot": 2'))
    return "newer than this one"


def damage_everything(directory: Path) -> str:
    for path in sorted(directory.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    directory.rmdir()
    return "no such directory"


@pytest.mark.parametrize(
    "damage",
    [
        damage_cut,
        damage_content,
        damage_answer,
        damage_roster_entry,
        damage_head,
        damage_version,
        damage_everything,
    ],
)
def test_damage_is_named(saved: Path, damage) -> None:
    """A snapshot that is damaged or newer gets one sentence and exit status 2, no traceback."""
    words = damage(saved)
    result = rankdbg("stacks", "-t", f"snapshot:{saved}")
    assert result.returncode == 2, result.stdout
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_a_folder_outside_is_not_read(saved: Path) -> None:
    """A snapshot that somebody has sent names only folders of its own."""
    head = saved / "snapshot.json"
    content = json.loads(head.read_text())
    for name in ("..", "../..", "/etc", "a/b", ""):
        head.write_text(json.dumps({**content, "nodes": {name: "node"}}))
        result = rankdbg("ps", "-t", f"snapshot:{saved}")
        assert result.returncode == 2
        assert f"names the folder {name!r}" in result.stderr


def test_what_is_no_file_in_a_snapshot(saved: Path) -> None:
    """A pipe, a device or a document without an end in place of a file is named."""
    path = next(saved.rglob("roster*.json"))
    for make in (os.mkfifo, lambda place: place.symlink_to("/dev/zero"), _make_deep):
        path.unlink()
        make(path)
        result = rankdbg("ps", "-t", f"snapshot:{saved}")
        assert result.returncode == 2
        assert path.name in result.stderr
        assert "internal error in rankdbg" not in result.stderr


def _make_deep(path: Path) -> None:
    path.write_text("[" * 200_000)
