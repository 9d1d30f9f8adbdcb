"""For Ray: a runtime environment that starts the agent in workers.

    ray.init(runtime_env=rankdbg.ray.runtime_env())
    Actor.options(runtime_env=rankdbg.ray.runtime_env({"pip": ["einops"]}))
    Actor.options(runtime_env=rankdbg.ray.runtime_env(name="vllm_generation_worker"))

Under `rankdbg run` the first is done automatically. The patterns of `--nsys` match the name.
Works without Ray: it only creates a dictionary.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rankdbg.process.nsys_config import NsysConfig

# Variables of a Ray job that a driver inside the job must not inherit.
OTHERS_SETTINGS = ("RAY_JOB_CONFIG_JSON_ENV_VAR", "RAY_RUNTIME_ENV_HOOK", "PYTHONBREAKPOINT")
# Names of workers, and whether each is profiled.
_names: dict[str, bool] = {}


def runtime_env(
    given: Mapping[str, Any] | None = None, *, name: str | None = None, plugin: bool = False
) -> dict[str, Any]:
    """The given environment, with the variables that start the agent: RANKDBG=1, and those of
    this process whose names begin with RANKDBG, except variables about this process alone. Given
    variables take precedence.

    A worker whose `name` matches `--nsys` or RANKDBG_NSYS_WORKERS runs under nsys. The agent in
    the worker starts nsys, so Ray needs no change. With `plugin`, Ray's own plugin starts it,
    which needs `rankdbg ray-fix` on every node.
    """
    from rankdbg.process.nsys_config import OF_ONE_PROCESS

    settings = {key for key in os.environ if key.startswith("RANKDBG")} - {*OF_ONE_PROCESS}
    ours = {key: os.environ[key] for key in sorted(settings)}
    wanted = dict(given or {})
    if name is not None:
        ours.update(_profile(name, wanted, plugin))
    variables = {**ours, "RANKDBG": "1", **(wanted.get("env_vars") or {})}
    if not _is_installed():
        # Ray replaces ${…} by the value on the worker's node.
        path = variables.get("PYTHONPATH", "${PYTHONPATH}")
        variables["PYTHONPATH"] = os.pathsep.join([_bootstrap(), path])
    wanted["env_vars"] = variables
    return wanted


def _profile(name: str, wanted: dict[str, Any], plugin: bool) -> dict[str, str]:
    """The variables of a worker that is profiled, or none."""
    from rankdbg.process import nsys_config

    config = nsys_config.read(os.environ)
    if config is None:
        return {}
    _, pattern = config.pattern_of([name])
    _record_name(name, bool(pattern), config)
    if not pattern or "nsight" in wanted:
        return {}
    if plugin:
        options = config.profile_options(f"'{config.report_name(name)}'")
        wanted["nsight"] = {"o": options.pop("output"), **options}
    # NeMo RL's variables are passed on under our names: only ours go to the workers.
    source = (
        nsys_config.OURS
        if nsys_config.parse_patterns(os.environ.get(nsys_config.OURS[0], ""))
        else nsys_config.NEMO
    )
    values = {
        ours: os.environ.get(theirs, "")
        for ours, theirs in zip(nsys_config.OURS, source, strict=True)
    }
    # With either variable, nsys can be found by the name of its worker.
    return {**values, "RANKDBG_NSYS_WORKER" if plugin else "RANKDBG_NSYS_NAME": name}


def any_is_profiled() -> bool:
    """Whether a worker that was named in this process runs under nsys."""
    return any(_names.values())


def _record_name(name: str, is_profiled: bool, config: NsysConfig) -> None:
    if not _names:
        import atexit

        atexit.register(_report_if_none, config)
    _names[name] = is_profiled


def _report_if_none(config: NsysConfig) -> None:
    """So that a typing error in a pattern does not go unnoticed."""
    if not any_is_profiled():
        sys.stderr.write(
            f"rankdbg: nothing was profiled: no worker matches {', '.join(config.patterns)}; "
            f"the workers were: {', '.join(sorted(_names))}\n"
        )


def _is_installed() -> bool:
    """Whether a .pth file of this environment starts the agent."""
    return any(os.path.exists(os.path.join(place, "rankdbg_agent.pth")) for place in sys.path)


def _bootstrap() -> str:
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "agent", "bootstrap")
