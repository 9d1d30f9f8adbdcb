"""python titled_engine.py sglang COUNT: as an engine on one of several nodes, a process that starts
workers whose titles lie over their environments. Its place among the nodes is SLURM_PROCID."""

import os
import subprocess
import sys

from run_waiting import waits

if sys.argv[1] == "titled":
    from setproctitle import setproctitle

    setproctitle(sys.argv[2])
else:
    count = int(sys.argv[2])
    first = count * int(os.environ.get("SLURM_PROCID", "0"))
    titles = [f"sglang::scheduler_TP{first + place}" for place in range(count)]
    for title in (*titles, "sglang::detokenizer"):
        # Long enough to cover the environment, as a launcher's long command line is.
        words = [sys.executable, __file__, "titled", f"{title} {' ' * 9000}"]
        subprocess.Popen(words, env={**os.environ, "LONG": "x" * 4000})
waits()
