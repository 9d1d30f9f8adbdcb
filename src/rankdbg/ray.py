"""For Ray: a runtime environment in which workers have the agent.

    ray.init(runtime_env=rankdbg.ray.runtime_env())
    Actor.options(runtime_env=rankdbg.ray.runtime_env({"pip": ["einops"]}))
    Actor.options(runtime_env=rankdbg.ray.runtime_env(name="vllm_generation_worker"))

Under `rankdbg run` the first is done by itself; a name is what the patterns of `--nsys` fit.
Needs no Ray: it only makes a dictionary.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rankdbg.nsys import Wish

# What a driver that is started inside of Ray's job would take over from that job.
OTHERS_SETTINGS = ("RAY_JOB_CONFIG_JSON_ENV_VAR", "RAY_RUNTIME_ENV_HOOK", "PYTHONBREAKPOINT")
# Names that were asked about, and whether they are profiled.
_names: dict[str, bool] = {}


def runtime_env(
    given: Mapping[str, Any] | None = None, *, name: str | None = None, plugin: bool = False
) -> dict[str, Any]:
    """What is given, and the variables that start the agent: those of this process whose names
    begin with RANKDBG, and RANKDBG=1. Variables that are given are left as they are.

    A worker with a `name` that `--nsys` or RANKDBG_NSYS_WORKERS asks for runs under nsys: the
    agent sees to that in the worker itself, so that nothing of Ray's need be changed. With
    `plugin` Ray's own does it, which needs `rankdbg ray-fix` on every node.
    """
    ours = {key: value for key, value in os.environ.items() if key.startswith("RANKDBG")}
    wanted = dict(given or {})
    if name is not None:
        ours.update(_profile(name, wanted, plugin))
    variables = {**ours, "RANKDBG": "1", **(wanted.get("env_vars") or {})}
    if not _is_installed():
        # ${…} is Ray's way to keep what the workers' nodes have there.
        path = variables.get("PYTHONPATH", "${PYTHONPATH}")
        variables["PYTHONPATH"] = os.pathsep.join([_bootstrap(), path])
    wanted["env_vars"] = variables
    return wanted


def _profile(name: str, wanted: dict[str, Any], plugin: bool) -> dict[str, str]:
    """The variables of a worker that is to be profiled, or none."""
    from rankdbg import nsys

    wish = nsys.read(os.environ)
    if wish is None:
        return {}
    _, pattern = wish.pattern_of([name])
    _remember(name, bool(pattern), wish)
    if not pattern or "nsight" in wanted:
        return {}
    if plugin:
        options = wish.profile_options(f"'{wish.report_name(name)}'")
        wanted["nsight"] = {"o": options.pop("output"), **options}
    # By our names also what was asked for by NeMo RL's: only ours go along.
    asked = nsys.OURS if nsys.parse_patterns(os.environ.get(nsys.OURS[0], "")) else nsys.NEMO
    values = {
        ours: os.environ.get(theirs, "") for ours, theirs in zip(nsys.OURS, asked, strict=True)
    }
    # Either way nsys can be found by the name of its worker.
    return {**values, "RANKDBG_NSYS_WORKER" if plugin else "RANKDBG_NSYS_NAME": name}


def any_is_profiled() -> bool:
    """Whether a worker was named here that runs under nsys."""
    return any(_names.values())


def _remember(name: str, fits: bool, wish: Wish) -> None:
    if not _names:
        import atexit

        atexit.register(_tell_if_none, wish)
    _names[name] = fits


def _tell_if_none(wish: Wish) -> None:
    """A typing error in a pattern must not cost a day's run its profile without a word."""
    if not any_is_profiled():
        sys.stderr.write(
            f"rankdbg: nothing was profiled: no worker fits {', '.join(wish.patterns)}; "
            f"there were: {', '.join(sorted(_names))}\n"
        )


def _is_installed() -> bool:
    """Whether Pythons of this environment start the agent by themselves."""
    return any(os.path.exists(os.path.join(place, "rankdbg_agent.pth")) for place in sys.path)


def _bootstrap() -> str:
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "agent", "bootstrap")
