"""Two jobs one after the other on a machine of their own (a PID namespace), and a collect that
follows the first without being told its name: prints "ended" when that ends.

    unshare --pid --fork --mount-proc --kill-child python follows_one_job.py SCRATCH
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from jobs import PROGRAMS, Job
from waiting import wait_for


def start(name: str, scratch: Path) -> tuple[Job, subprocess.Popen[str]]:
    job = Job(name, scratch)
    folder = scratch / name
    ranks = {"RANK": "0", "WORLD_SIZE": "1"}
    process = job.start(sys.executable, PROGRAMS / "leaves_files.py", folder, env=ranks)
    wait_for(lambda: (folder / "train.log").exists(), "its log")
    return job, process


def main() -> None:
    scratch = Path(sys.argv[1])
    first, process = start("first", scratch)
    words = [sys.executable, "-m", "rankdbg", "collect", "all", str(scratch / "home")]
    collect = subprocess.Popen(
        [*words, "--follow", "0.2"], env=first.environment, stderr=subprocess.PIPE, text=True
    )
    assert collect.stderr is not None
    assert collect.stderr.readline().startswith("collected ")
    start("second", scratch)
    process.kill()
    collect.communicate(timeout=30)
    print("ended", flush=True)


main()
