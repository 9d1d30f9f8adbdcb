"""Figures of a node -> complaints: none where all is well."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from rankdbg.text.amounts import in_bytes
from rankdbg.verdicts.node_health import complaints
from rankdbg.wire.decoding import decode
from rankdbg.wire.node_answers import Gpu, NodeFigures

GIB = 1 << 30
DISK = {"place": "/data", "size": 100 * GIB, "free": 50 * GIB, "files": 1000, "files_free": 900}
GROUP = {"group": "/job", "limit": 64 * GIB, "used": 10 * GIB, "kills": 0}
GPU = {"index": 3, "utilization": 90, "power": 600.0, "power_limit": 700.0, "slowed_by": []}


def said(
    disk: dict[str, Any] | None = None,
    group: dict[str, Any] | None = None,
    gpu: dict[str, Any] | None = None,
    available: int = 32 * GIB,
    process: dict[str, Any] | None = None,
) -> str:
    health = {
        "disks": [{"why": "", **DISK, **(disk or {})}],
        "memory": {
            "size": 64 * GIB,
            "available": available,
            "groups": [{**GROUP, **(group or {})}],
        },
        "processes": [process] if process else [],
    }
    figures = decode(Gpu, {**GPU, **(gpu or {})})
    return "\n".join(c.text for c in complaints(decode(NodeFigures, health), [figures]))


def test_nothing_is_said_of_a_node_that_does_well() -> None:
    """Also where a GPU runs at its power limit."""
    assert said() == said(gpu={"slowed_by": ["power limit"]}) == ""


@pytest.mark.parametrize(
    ("figures", "complaint"),
    [
        ({"disk": {"free": GIB}}, "/data is full: 1.0 GiB of 100.0 GiB are free"),
        ({"disk": {"files_free": 3}}, "/data has no room for more files: 3 of 1000"),
        ({"disk": {"why": "no response"}}, "/data: no response"),
        (
            {"disk": {"place": "/dev/shm", "size": 64 << 20, "free": 20 << 20}},
            "/dev/shm has only 64 MiB, and 20 MiB are free",
        ),
        ({"available": GIB}, "memory is used up: 1.0 GiB of 64.0 GiB are available"),
        (
            {"group": {"kills": 2}},
            "the kernel has killed 2 times in control group /job for its memory (limit 64.0 GiB)",
        ),
        ({"group": {"used": 63 * GIB}}, "control group /job: 63.0 GiB of 64.0 GiB are used"),
        ({"gpu": {"slowed_by": ["heat"]}}, "GPU 3: slowed by heat"),
        ({"gpu": {"ecc_uncorrected": 2}}, "GPU 3: 2 uncorrected memory errors"),
        ({"gpu": {"error": "GPU is lost"}}, "GPU 3: NVML cannot read it: GPU is lost"),
        (
            {
                "process": {
                    "pid": 4711,
                    "name": "python",
                    "state": "D",
                    "parent": 1,
                    "why": "process is in state D: nfs_wait",
                }
            },
            "python (pid 4711): process is in state D: nfs_wait",
        ),
    ],
)
def test_what_is_wrong_is_said(figures: dict[str, Any], complaint: str) -> None:
    """One complaint for each."""
    assert said(**figures).startswith(complaint)
    assert "\n" not in said(**figures)


def test_zombies_of_a_first_process_that_collects_nobody() -> None:
    """Are of no interest: many containers have such a one."""
    zombie = {"pid": 7, "name": "sh", "state": "Z", "parent": 1, "why": "zombie"}
    assert said(process=zombie) == ""
    assert "process 5 has not collected" in said(process={**zombie, "parent": 5})


def test_bytes_in_words() -> None:
    """With the unit that fits."""
    assert [in_bytes(n) for n in (5, 4096, 64 << 20, 3 * GIB, 5 << 40)] == [
        *("5 B", "4 KiB", "64 MiB", "3.0 GiB", "5.0 TiB")
    ]


FIGURES_ALONE = """
import sys
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event in ("open", "subprocess.Popen") else None)
from rankdbg.node.machine import node_figures
from rankdbg.wire.node_questions import ReadHealth
told = node_figures.answer(ReadHealth(patterns=[]), [])
assert "/proc/meminfo" in opened
assert not [name for name in opened if "kmsg" in name or "journalctl" in name], opened
assert told["kernel"] == [] and told["why_no_kernel"] == ""
assert told["load"] >= 0 and told["processors"] >= 1
"""


def test_figures_alone_wait_for_no_log_of_the_kernel() -> None:
    """They are read every few seconds; the journal may take three."""
    result = subprocess.run([sys.executable, "-c", FIGURES_ALONE], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
