"""Programs that were sent to where none may run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from jobs import PROGRAMS

INSIDE = """
mount -t tmpfs -o noexec none /mnt && mkdir /mnt/bin && cp "$1" /mnt/bin/py-spy || exit 1
/mnt/bin/py-spy --version 2>/dev/null && exit 1
exec "$2" -c "
import os, subprocess, sys
from rankdbg.node.in_memory import runnable
place = runnable('/mnt/bin/py-spy')
print(place, subprocess.run([place, '--version'], capture_output=True, text=True).stdout)
print(runnable('$1') == '$1')
"
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount")
def test_a_program_on_a_noexec_mount_runs_from_memory() -> None:
    """And one that can be run where it lies is left there."""
    program = shutil.which("py-spy", path=os.path.dirname(sys.executable))
    assert program
    words = ["unshare", "--mount", "sh", "-c", INSIDE, "sh", program, sys.executable]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=PROGRAMS)
    place, version, left = done.stdout.split(None, 1)[0], done.stdout, done.stdout.split()[-1]
    assert place.startswith("/proc/") and "py-spy 0." in version and left == "True"
