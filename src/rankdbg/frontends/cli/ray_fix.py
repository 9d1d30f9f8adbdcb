"""Let Ray's nsight plugin keep the workers' own interpreter.

  rankdbg ray-fix             on each node, before `ray start`
  rankdbg ray-fix --status    whether this Ray needs it, has it, runs with it
  rankdbg ray-fix --undo

Ray's plugin runs `nsys profile … python`, whatever interpreter the worker should have. The
fix is one line in a .pth file beside Ray, by which Ray's runtime environment agent corrects
that in memory when it starts; no file of Ray's is changed. Where the installation is
read-only, `rankdbg run -- ray start …` does the same without it. Profiles that rankdbg
starts itself (run --nsys, rankdbg.ray.runtime_env) need neither.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rankdbg.agent.ray_nsight import SIGN
from rankdbg.errors import BadInput, RankdbgError
from rankdbg.frontends.cli import print_json
from rankdbg.node import processes

NAME = "rankdbg_ray_fix.pth"
AGENT = "/ray/_private/runtime_env/agent/main.py"
LINE = (
    f"import sys; any({AGENT!r} in word for word in sys.orig_argv) and exec("
    '"try:\\n from rankdbg.agent import ray_nsight\\nexcept ImportError: pass\\n'
    'else: ray_nsight.install()")\n'
)


@dataclass(frozen=True)
class Installed:
    """A Ray, and where the fix for it lies or would lie."""

    version: str
    plugin: Path
    place: Path

    @property
    def needs_fix(self) -> bool:
        """By its text: a version that keeps the interpreter is left alone."""
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--status", action="store_true", help="show, and change nothing")
    which.add_argument("--undo", action="store_true", help="take the fix away again")
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def run(options: argparse.Namespace) -> int:
    ray = find_ray()
    if options.undo and ray.has_fix:
        _change(ray, ray.place.unlink)
    elif ray.needs_fix and not (options.undo or options.status or ray.has_fix):
        _change(ray, lambda: ray.place.write_text(LINE))
    old = _agents_without(ray)
    if options.json:
        print_json(
            "ray_fix",
            {
                "ray": ray.version,
                "plugin": str(ray.plugin),
                "needs_fix": ray.needs_fix,
                "has_fix": ray.has_fix,
                "file": str(ray.place),
                "writable": ray.writable,
                "running_without": old,
            },
        )
    else:
        for line in _lines(ray, old):
            sys.stdout.write(line + "\n")
    return 1 if ray.needs_fix and not ray.has_fix and not options.undo else 0


def find_ray() -> Installed:
    spec = importlib.util.find_spec("ray")
    if spec is None or not spec.submodule_search_locations:
        raise BadInput(
            f"{sys.executable} has no Ray",
            hint="install rankdbg beside Ray, and call that one: path/to/env/bin/rankdbg ray-fix",
        )
    package = Path(next(iter(spec.submodule_search_locations)))
    try:
        version = importlib.metadata.version("ray")
    except importlib.metadata.PackageNotFoundError:
        version = "?"
    plugin = package / "_private" / "runtime_env" / "nsight.py"
    return Installed(version, plugin, package.parent / NAME)


def _change(ray: Installed, action: Callable[[], object]) -> None:
    try:
        action()
    except OSError as error:
        raise RankdbgError(
            f"cannot change {ray.place}: {error.strerror}",
            hint="start Ray with: rankdbg run -- ray start …   (it is fixed in memory then)",
        ) from None


def _lines(ray: Installed, old: list[int]) -> list[str]:
    if not ray.needs_fix:
        needs = "keeps the interpreter: nothing to fix"
        return [f"Ray {ray.version} {needs}", *([f"  {ray.place}"] if ray.has_fix else [])]
    state = "is fixed" if ray.has_fix else "is not fixed"
    lines = [f"Ray {ray.version} runs nsys with `python`; it {state}", f"  {ray.place}"]
    if not ray.has_fix and not ray.writable:
        lines.append("  that directory is read-only: rankdbg run -- ray start … fixes it in memory")
    if ray.has_fix and old:
        pids = ", ".join(map(str, old))
        lines.append(f"  not yet in what has run since before: process {pids}; restart Ray")
    return lines


def _agents_without(ray: Installed) -> list[int]:
    """The runtime environment agents of this Ray that started before the fix came."""
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
