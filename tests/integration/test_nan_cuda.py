"""The first nan on a real GPU: the values stay there until the pass has ended, or are read at once."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from jobs import PROGRAMS
from rankdbg.node.machine.gpus import Gpus
from waiting import TEST_SECONDS

HERE = Gpus().look(time.monotonic() + 10)

pytestmark = [
    pytest.mark.skipif(not HERE["gpus"], reason=f"no GPU on this machine: {HERE['why']}"),
    pytest.mark.slow,
]


def test_modules_on_a_gpu() -> None:
    """The same module is named in both ways; only at once its inputs are known."""
    pytest.importorskip("torch", reason="needs torch")
    words = [sys.executable, PROGRAMS / "nan_cuda.py"]
    told = json.loads(subprocess.check_output(words, text=True, timeout=TEST_SECONDS))
    assert all(failures == "" for _, failures in told.values())
    assert (told["ReLU later"][0], told["ReLU exact"][0]) == ([], [])
    for name, phase in (("Divides", "forward"), ("Root", "backward")):
        (later,), (exact,) = told[f"{name} later"][0], told[f"{name} exact"][0]
        assert (later["module"], later["type"], later["phase"]) == ("1", name, phase)
        assert (exact["module"], exact["type"], exact["phase"]) == ("1", name, phase)
        assert (later["exact"], exact["exact"]) == (False, True)
