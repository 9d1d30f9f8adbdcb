"""The nsight plugin of the installed Ray, and the fix for it (agent/nsys/ray_nsight.py)."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from rankdbg.agent.nsys.ray_nsight import SIGN
from rankdbg.errors import BadInput
from rankdbg.node.machine import processes

NAME = "rankdbg_ray_fix.pth"
AGENT = "/ray/_private/runtime_env/agent/main.py"
LINE = (
    f"import sys; any({AGENT!r} in word for word in sys.orig_argv) and exec("
    '"try:\\n from rankdbg.agent.nsys import ray_nsight\\nexcept ImportError: pass\\n'
    'else: ray_nsight.install()")\n'
)


@dataclass(frozen=True)
class Installed:
    """A Ray installation, and the place of the fix."""

    version: str
    plugin: Path
    place: Path

    @property
    def needs_fix(self) -> bool:
        """Decided by its source: a version that keeps the interpreter needs no fix."""
        try:
            return f'"{SIGN}"' in self.plugin.read_text()
        except OSError:
            return False

    @property
    def has_fix(self) -> bool:
        return self.place.exists()

    @property
    def writable(self) -> bool:
        return os.access(self.place.parent, os.W_OK)


def find_ray() -> Installed:
    spec = importlib.util.find_spec("ray")
    if spec is None or not spec.submodule_search_locations:
        raise BadInput(
            f"Ray is not installed for {sys.executable}",
            hint="install rankdbg in Ray's environment and run: path/to/env/bin/rankdbg ray-fix",
        )
    package = Path(next(iter(spec.submodule_search_locations)))
    try:
        version = importlib.metadata.version("ray")
    except importlib.metadata.PackageNotFoundError:
        version = "?"
    plugin = package / "_private" / "runtime_env" / "nsight.py"
    return Installed(version, plugin, package.parent / NAME)


def agents_without(ray: Installed) -> list[int]:
    """The runtime environment agents of this Ray that started before the fix."""
    if not ray.needs_fix:
        return []
    try:
        age_of_fix = time.time() - ray.place.stat().st_mtime
    except OSError:
        age_of_fix = 0.0
    script = str(ray.plugin.with_name("agent") / "main.py")
    commands, _ = processes.read_all(processes.all_pids(), processes.command)
    running = [processes.read_stat(pid) for pid, words in commands.items() if script in words]
    found = [stat.pid for stat in running if stat and processes.age(stat.start) > age_of_fix]
    return sorted(found)
