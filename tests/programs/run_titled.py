"""python run_titled.py TREE: processes with titles. TREE is JSON: [title, tree, tree, ...]."""

import json
import subprocess
import sys

from run_waiting import waits
from setproctitle import setproctitle

title, *below = json.loads(sys.argv[1])
for tree in below:
    subprocess.Popen([sys.executable, __file__, json.dumps(tree)])
setproctitle(title)
waits()
