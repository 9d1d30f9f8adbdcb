"""Fixes Ray's nsight plugin, so that a worker under nsys keeps its own interpreter.

Ray (up to 2.60 at least) converts the `nsight` entry of a runtime environment to `nsys profile
OPTIONS python`. The interpreter of the environment (pip, conda, uv or `py_executable`) is lost.
The options are not quoted for the shell. Two environments that are created at the same time may
get each other's options. And the report that nsys writes after its worker has exited is lost if
Ray stops then. The plugin runs in Ray's runtime environment agent, a process on each node. There
one function is replaced, in memory; no file of Ray is changed.
"""

from __future__ import annotations

from rankdbg.agent import imports
from rankdbg.agent.nsys import nsys_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MODULE = "ray._private.runtime_env.nsight"
# A constant in the code of the versions that need the fix.
SIGN = " python"


def install() -> None:
    """Fix the plugin as soon as Ray's process has imported it."""
    imports.when_imported(MODULE, fix)


def fix(module: Any) -> None:
    """A version that keeps the interpreter, or that is already fixed, is left alone."""
    plugin = getattr(module, "NsightPlugin", None)
    original: Any = getattr(plugin, "modify_context", None)
    code = getattr(original, "__code__", None)
    if plugin is None or code is None or SIGN not in code.co_consts:
        return

    def modify_context(self: Any, uris: Any, runtime_env: Any, context: Any, logger: Any) -> None:
        interpreter = context.py_executable
        original(self, uris, runtime_env, context, logger)
        context.py_executable = f"{_command(module, self, runtime_env)} {interpreter}"

    modify_context.__wrapped__ = original  # type: ignore[attr-defined]
    plugin.modify_context = modify_context


def _command(module: Any, plugin: Any, runtime_env: Any) -> str:
    """From this environment's own options: the plugin keeps only those of the last one."""
    asked: Mapping[str, Any] | str = runtime_env.nsight()
    options = dict(module.NSIGHT_DEFAULT_CONFIG if isinstance(asked, str) else asked)
    output = str(options.get("o", module.NSIGHT_DEFAULT_CONFIG["o"]))
    options["o"] = str(plugin._nsight_dir / output)
    words = module.parse_nsight_config({name: str(value) for name, value in options.items()})
    return " ".join(map(quoted, [*nsys_program.out_of_reach(), *words]))


def quoted(word: str) -> str:
    """For a shell. Users often write quotes themselves, as Ray's own default does: these must not
    become part of a file's name."""
    import shlex

    try:
        parts = shlex.split(word)
    except ValueError:  # a quote that is not closed
        parts = []
    return shlex.quote(parts[0] if len(parts) == 1 else word)
