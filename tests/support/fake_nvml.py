"""NVML of a machine with three GPUs: tests/fakes/nvml.c, to be found by LD_LIBRARY_PATH."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "fakes/nvml.c"


def build_fake_nvml(directory: Path) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    words = ["gcc", "-shared", "-fPIC", "-o", str(directory / "libnvidia-ml.so.1"), str(SOURCE)]
    subprocess.run(words, check=True)
    return directory
