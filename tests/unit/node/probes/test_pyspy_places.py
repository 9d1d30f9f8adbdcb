"""Where a node finds py-spy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rankdbg.node.probes import pyspy


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Path]:
    """The directory of a Python that runs, as that of a conda environment."""
    python = tmp_path / "python3"
    shutil.copy(os.path.realpath(sys.executable), python)
    settings = {**os.environ, "PYTHONHOME": sys.base_prefix}
    with subprocess.Popen(
        [python, "-S", "-c", "print(1, flush=True); input()"],
        env=settings,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        if process.stdout is None or not process.stdout.readline():
            pytest.skip("this Python does not run from another directory")
        yield tmp_path
        process.kill()


def put(folder: Path, mode: int) -> str:
    path = folder / "py-spy"
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return str(path)


def test_beside_the_python_of_a_rank(environment: Path) -> None:
    """It need not be sent to a pod whose job has it."""
    assert str(environment / "py-spy") not in pyspy.all_beside_python()
    path = put(environment, 0o755)
    assert path in pyspy.all_beside_python()


def test_not_one_that_others_can_write(environment: Path) -> None:
    """They could have put anything there."""
    path = put(environment, 0o777)
    assert path not in pyspy.all_beside_python()
