"""Ranks of a framework that rankdbg does not know, and the rules in the page."""

from __future__ import annotations

import os
import re
from pathlib import Path

from transcripts.machine import CHECKOUT, copy_here, start
from transcripts.scenario import Play, Scene, wait_until

PAGE = CHECKOUT / "docs/reference/rules.md"
LIBRARIES = "env/lib/python3.11/site-packages"  # frames there are not the user's own code

FILES = {
    f"{LIBRARIES}/rollout/__init__.py": "",
    f"{LIBRARIES}/rollout/channel.py": "import queue\n\n\ndef receive():\n    return queue.Queue().get()\n",
    f"{LIBRARIES}/rollout/reward.py": (
        "import socket\n\n\ndef score():\n"
        '    return socket.create_connection(("127.0.0.1", 8300)).recv(1)\n'
    ),
    "train.py": (
        "import os\n\nfrom rollout import channel, reward\n\n"
        'if os.environ["RANK"] == "2":\n    reward.score()\nelse:\n    channel.receive()\n'
    ),
    "server.py": (
        'import socket\n\nserver = socket.create_server(("127.0.0.1", 8300))\n'
        "connection = server.accept()\nserver.accept()\n"
    ),
}


def rules_for_hangs(play: Play) -> None:
    for name, text in FILES.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    copy_here("tests/programs/launch.py")
    start(["python", "server.py"])
    wait_until("ss -ltn", ":8300")
    os.environ["PYTHONPATH"] = str(Path.cwd() / LIBRARIES)
    start(["rankdbg", "run", "--job", "rollout", "--", "python", "launch.py", 3, "train.py"])
    wait_until("rankdbg ps", "train.py:6", "train.py:8")
    play.run("The job is idle")
    examples = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (rules,) = (example for example in examples if "reward-model-silent" in example)
    Path("rollout.toml").write_text(rules)
    play.run("[reward-model-silent]")


SCENARIO = [Scene(rules_for_hangs, ("rankdbg why", "rankdbg why --rules"))]
