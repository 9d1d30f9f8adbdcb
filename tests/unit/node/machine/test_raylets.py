"""What a raylet writes of the objects that it pulls, and its threads that wait for a file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from rankdbg.node.machine import raylets
from waiting import wait_for

IDENT = "c2668a65bda616c1ffffffffffffffffffffffff0100000001000000"
NODE = "1813aefcced6c5972a47c8b31d484b5fcba50350af65f250d1e09af5"
FILE = "/ray/session_1/ray_spilled_objects_1813/7d06-multi-4"
# As Ray 2.60 writes it, every ten seconds.
FIRST = f"""PullManager:
- num bytes being pulled (all): 20000254
- num pull retries: 0
- example obj id pending pull: {IDENT}
"""
AGAIN = f"""PullManager:
- num pull retries: 3
- max timeout seconds: 80
- max timeout object id: {IDENT}
- max timeout object: ObjectPullRequest{{locations: [], spilled url: {FILE}?offset=20&size=200, \
spilled node id: {NODE}, pending creation: 0, object size set: 1, object size: 20000254, num of \
retries: 4}}
- example obj id pending pull: {IDENT}
"""


def pulls(text: str) -> list[dict[str, Any]]:
    return [*raylets.parse_pulls(text)]


def test_object_that_is_pulled() -> None:
    """Where it is spilled is told once the raylet has asked for it again."""
    assert pulls(FIRST) == [{"object": IDENT}]
    (pull,) = pulls(AGAIN)
    assert (pull["object"], pull["node"], pull["size"]) == (IDENT, NODE, 20000254)
    assert (pull["url"], pull["retries"]) == (f"{FILE}?offset=20&size=200", 4)


def test_object_that_is_in_memory_elsewhere() -> None:
    """It has no file, and storage that all nodes can read has no node."""
    assert pulls(AGAIN.replace(f"{FILE}?offset=20&size=200", "")) == [{"object": IDENT}]
    (pull,) = pulls(AGAIN.replace(NODE, "f" * 56))
    assert pull["node"] == ""


def test_nothing_is_pulled() -> None:
    assert pulls("PullManager:\n- num pull retries: 0\n") == pulls("") == []


def test_raylet_that_waits_for_a_file(tmp_path: Path) -> None:
    """By its command, with the node that it names, and what it waits for; other programs are none."""
    folder = tmp_path / "ray_spilled_objects_1813"
    folder.mkdir()
    os.mkfifo(folder / "7d06")
    (tmp_path / "debug_state.txt").write_text(FIRST)
    (tmp_path / "raylet").symlink_to(sys.executable)
    code = f"open({str(folder / '7d06')!r})"
    options = [f"--node_id={NODE}", f"--log_dir={tmp_path}"]
    process = subprocess.Popen([tmp_path / "raylet", "-S", "-c", code, *options])
    try:

        def waits() -> dict[str, Any] | None:
            found = [each for each in raylets.look()["raylets"] if each["pid"] == process.pid]
            return found[0] if found and found[0]["waits"] else None

        found = wait_for(waits)
    finally:
        process.kill()
        process.wait()
    (wait,) = found["waits"]
    assert (found["node"], found["pulls"]) == (NODE, [{"object": IDENT}])
    assert (wait["thread"], wait["call"]) == (process.pid, "openat")
    assert wait["file"] == str(folder / "7d06")[:256]
