"""The files into which Slurm puts the output of a job on this node, by the patterns of its options.

    -o train-%j-%t.out        %j the job, %t the task, %N the node, %x the job's name, …

What a pattern's number stands for is not always known here: files are looked for that fit it.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rankdbg.node.machine import processes

_SYMBOL = re.compile(r"%(\d*)([%AaJjNnstuxbq])")
_OUTPUTS = ("-o", "--output")
_ERRORS = ("-e", "--error")


@dataclass(frozen=True)
class Output:
    path: str
    task: int | None  # whose it is alone
    is_error: bool


def find_outputs(pattern: str, folder: str, job: str, is_error: bool = False) -> Iterator[Output]:
    """The files that are there."""
    whole = os.path.join(folder, pattern)
    named = re.compile("".join(_parts(whole, job, r"(?P<task>\d+)", ".*", re.escape)))
    for path in sorted(glob.glob("".join(_parts(whole, job, "*", "*", glob.escape)))):
        found = named.fullmatch(path)
        if found and os.path.isfile(path):
            task = found.groupdict().get("task")
            yield Output(path, None if task is None else int(task), is_error)


def _parts(pattern: str, job: str, task: str, other: str, plain: object) -> Iterator[str]:
    assert callable(plain)
    end, seen = 0, False
    for symbol in _SYMBOL.finditer(pattern):
        yield plain(pattern[end : symbol.start()])
        end = symbol.end()
        match symbol[2]:
            case "%":
                yield plain("%")
            case "j":
                yield plain(job)
            case "t" if not seen:
                seen = True
                yield task
            case _:
                yield other
    yield plain(pattern[end:])


def of_steps(environment: Mapping[str, str]) -> Iterator[Output]:
    """What the sruns here were told, those of the job with this environment."""
    job = environment.get("SLURM_JOB_ID", "")
    pids = [
        pid
        for pid in processes.all_pids()
        if (stat := processes.read_stat(pid)) is not None and stat.name == "srun"
    ]
    commands, _ = processes.read_all(pids, processes.command)
    environments, _ = processes.read_all(pids, processes.environment)
    for pid, command in commands.items():
        if environments.get(pid, {}).get("SLURM_JOB_ID", "") != job:
            continue
        folder = processes.working_directory(pid)
        for names, is_error in ((_OUTPUTS, False), (_ERRORS, True)):
            # Its own come before those of its program.
            if folder and (pattern := processes.option(command, names)):
                yield from find_outputs(pattern, folder, job, is_error)
