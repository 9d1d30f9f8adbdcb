"""Make Ray's nsight plugin keep the workers' interpreter.

  rankdbg ray-fix             on each node, before `ray start`
  rankdbg ray-fix --status    whether this Ray needs the fix, has it, uses it
  rankdbg ray-fix --undo

Ray's plugin runs `nsys profile … python`, whatever interpreter the worker should use. The
fix is one line in a .pth file next to Ray: Ray's runtime environment agent corrects the
command in memory when it starts. No file of Ray is changed. If the installation is
read-only, `rankdbg run -- ray start …` does the same without the file. Profiles started by
rankdbg itself (run --nsys, rankdbg.ray.runtime_env) do not need the fix.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from rankdbg.errors import RankdbgError
from rankdbg.frontends.reports.documents import print_json
from rankdbg.investigations.ray_plugin import LINE, Installed, agents_without, find_ray


def add_arguments(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--status", action="store_true", help="show the status, change nothing")
    which.add_argument("--undo", action="store_true", help="remove the fix")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    ray = find_ray()
    if options.undo and ray.has_fix:
        _change(ray, ray.place.unlink)
    elif ray.needs_fix and not (options.undo or options.status or ray.has_fix):
        _change(ray, lambda: ray.place.write_text(LINE))
    old = agents_without(ray)
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


def _change(ray: Installed, action: Callable[[], object]) -> None:
    try:
        action()
    except OSError as error:
        raise RankdbgError(
            f"cannot change {ray.place}: {error.strerror}",
            hint="start Ray with: rankdbg run -- ray start …   (applies the fix in memory)",
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
        lines.append(f"  not active in process {pids}, which started before the fix; restart Ray")
    return lines
