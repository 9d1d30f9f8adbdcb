"""Start a job with an agent in every Python process.

  rankdbg run -- torchrun --nproc-per-node 8 train.py
  rankdbg run --mesh pp=2,dp=2,tp=2 -- mpirun -n 8 python train.py
  rankdbg run --role rollout --job ppo -- ./start.sh

The command is executed in place of rankdbg: its output, signals and exit status are
its own. Any Python that it starts, in whatever environment, has the agent.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import rankdbg
from rankdbg import identity, selection
from rankdbg.errors import BadInput


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "rankdbg run [--mesh MESH] [--role NAME] [--job NAME] -- COMMAND ..."
    parser.add_argument(
        "--mesh", help="names and sizes of the ranks' dimensions, row-major: pp=2,dp=2,tp=2"
    )
    parser.add_argument("--role", help="what these ranks do: trainer, rollout, ...")
    parser.add_argument("--job", help="the job's name (default: made from the command)")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")


def run(options: argparse.Namespace) -> int:
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise BadInput("no command to run", hint="rankdbg run -- torchrun train.py")
    job = options.job or _job_name(command)
    if not job.isprintable() or any(letter in job for letter in " ,'\"()="):
        raise BadInput(f"a job's name has no blanks, commas, quotes or brackets: {job!r}")
    environment = _environment(job, options.mesh, options.role)
    program = shutil.which(command[0])
    if program is None:
        raise BadInput(f"no such command: {command[0]}", hint="is it on PATH, and executable?")
    sys.stderr.write(_greeting(job, program, command))
    sys.stderr.flush()
    try:
        os.execve(program, command, environment)
    except OSError as error:
        raise BadInput(f"cannot run {command[0]}: {error.strerror}") from None


def _environment(job: str, mesh: str | None, role: str | None) -> dict[str, str]:
    environment = {**os.environ, "RANKDBG": "1", "RANKDBG_JOB": job}
    if mesh is not None:
        sizes = selection.parse_mesh(mesh)
        environment["RANKDBG_MESH"] = ",".join(f"{name}={size}" for name, size in sizes.items())
    if role:
        environment["RANKDBG_ROLE"] = role
    if environment.get("RANKDBG_DIR"):
        # The command may change its working directory.
        environment["RANKDBG_DIR"] = os.path.abspath(environment["RANKDBG_DIR"])
    bootstrap = str(Path(rankdbg.__file__).resolve().parent / "agent" / "bootstrap")
    before = environment.get("PYTHONPATH", "")
    if bootstrap not in before.split(os.pathsep):
        environment["PYTHONPATH"] = os.pathsep.join([bootstrap, before] if before else [bootstrap])
    return environment


def _job_name(command: Sequence[str]) -> str:
    """From the script that the launcher starts, and four digits."""
    scripts = [word for word in command if word.endswith((".py", ".sh"))]
    name = Path(scripts[0]).stem if scripts else identity.script_name(["", *command])
    name = "".join(letter for letter in name if letter.isalnum() or letter in "-_.") or "job"
    return f"{name}-{os.urandom(2).hex()}"


def _greeting(job: str, program: str, command: Sequence[str]) -> str:
    reason = ""
    if Path(program).name.startswith("python"):
        reason = identity.flags_without_agent(command)
    if "installed" in reason and _has_rankdbg(program, os.environ):
        reason = ""
    if reason:
        return f"rankdbg: job {job} has no agent ({reason}); rankdbg stacks looks from outside\n"
    return f"rankdbg: job {job}; look at it with: rankdbg ps --job {job}\n"


def _has_rankdbg(python: str, environment: Mapping[str, str]) -> bool:
    """Whether an isolated Python (-I) finds the agent in its own environment."""
    try:
        probe = [python, "-I", "-c", "import rankdbg"]
        quiet = {**environment, "RANKDBG": "0"}
        result = subprocess.run(probe, env=quiet, capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return result.returncode == 0
