"""For Ray: a runtime environment in which workers have the agent.

    ray.init(runtime_env=rankdbg.ray.runtime_env())
    Actor.options(runtime_env=rankdbg.ray.runtime_env({"pip": ["einops"]}))

Under `rankdbg run` this is done by itself. Needs no Ray: it only makes a dictionary.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def runtime_env(given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What is given, and the variables that start the agent: those of this process whose names
    begin with RANKDBG, and RANKDBG=1. Variables that are given are left as they are."""
    ours = {name: value for name, value in os.environ.items() if name.startswith("RANKDBG")}
    wanted = dict(given or {})
    variables = {**ours, "RANKDBG": "1", **(wanted.get("env_vars") or {})}
    if not _is_installed():
        # ${…} is Ray's way to keep what the workers' nodes have there.
        path = variables.get("PYTHONPATH", "${PYTHONPATH}")
        variables["PYTHONPATH"] = os.pathsep.join([_bootstrap(), path])
    wanted["env_vars"] = variables
    return wanted


def _is_installed() -> bool:
    """Whether Pythons of this environment start the agent by themselves."""
    return any(os.path.exists(os.path.join(place, "rankdbg_agent.pth")) for place in sys.path)


def _bootstrap() -> str:
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "agent", "bootstrap")
