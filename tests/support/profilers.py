"""The fake Nsight Systems for tests: nsys on PATH, and a libcudart that tells it of calls, which
every process there has loaded."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from jobs import Job
from waiting import PATIENCE

FAKES = Path(__file__).parents[1] / "fakes"


class Nsight:
    """`environment` has both; `calls` are the arguments of each call of nsys."""

    def __init__(self, folder: Path) -> None:
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "nsys").symlink_to(FAKES / "nsys")
        library = folder / "libcudart.so"
        words = ["gcc", "-shared", "-fPIC", "-o", str(library), str(FAKES / "cudart.c")]
        subprocess.run(words, check=True)
        self._log = folder / "calls"
        self.environment = {
            "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "LD_PRELOAD": str(library),
            "FAKE_NSYS_FOLDER": str(folder),
        }

    @property
    def calls(self) -> list[str]:
        return self._log.read_text().splitlines() if self._log.exists() else []


class Profiled:
    """A job of one command in a directory of its own, and the reports that it leaves there."""

    def __init__(self, job: Job, nsight: Nsight, folder: Path) -> None:
        self.job, self.nsight, self.folder = job, nsight, folder

    def start(self, *command: object, options: tuple[str, ...] = (), **settings: Any) -> Any:
        environment = {**self.nsight.environment, **settings.pop("env", {})}
        return self.job.start(
            *command, options=options, env=environment, cwd=self.folder, **settings
        )

    def run(
        self, *command: object, options: tuple[str, ...] = (), **settings: Any
    ) -> tuple[int, str, str]:
        """Status, output and complaints."""
        process = self.start(*command, options=options, **settings)
        output, complaints = process.communicate(timeout=PATIENCE)
        return process.returncode, output, complaints

    def reports(self) -> dict[str, str]:
        """Name -> text, by host."""
        found = self.folder.glob("nsight/*/*.nsys-rep")
        return {path.name: path.read_text() for path in found}


needs_nsys = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
