"""python run_subprocess.py: a rank that starts another Python, which inherits its RANK."""

import os
import subprocess
import sys

from run_waiting import waits

process = subprocess.Popen(
    [sys.executable, os.path.join(os.path.dirname(__file__), "run_waiting.py")]
)
waits()
