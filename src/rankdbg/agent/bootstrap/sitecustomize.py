"""Starts the agent in a Python whose environment has no rankdbg installed.

`rankdbg run` puts this folder first in PYTHONPATH; site imports `sitecustomize` from it at start.
It starts the agent, removes this folder from sys.path, and then runs the sitecustomize that this
one has hidden. Any version of Python may import this file, so it is written for all of them.
"""

import os
import sys


def _start_agent(here):
    package = os.path.dirname(os.path.dirname(here))  # .../rankdbg
    if "rankdbg" in sys.modules or os.environ.get("RANKDBG", "0") == "0":
        return
    if sys.version_info < (3, 10):
        sys.stderr.write(
            "rankdbg: no agent in process %d: Python %d.%d is older than 3.10\n"
            % (os.getpid(), sys.version_info[0], sys.version_info[1])
        )
        return
    # Only while rankdbg itself is imported: the other packages beside it belong to another
    # environment, perhaps to another version of Python.
    sys.path.insert(0, os.path.dirname(package))
    try:
        import rankdbg.agent.autostart  # noqa: F401
    except Exception as error:  # the program continues without an agent
        sys.stderr.write("rankdbg: no agent in process %d: %r\n" % (os.getpid(), error))
    finally:
        sys.path.remove(os.path.dirname(package))


def _run_hidden_one(here):
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    own = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if getattr(error, "name", None) not in (None, "sitecustomize"):
            raise
        sys.modules["sitecustomize"] = own


_here = os.path.dirname(os.path.abspath(__file__))
_start_agent(_here)
_run_hidden_one(_here)
