"""Start a job with an agent in every Python process.

  rankdbg run -- torchrun --nproc-per-node 8 train.py
  rankdbg run --mesh pp=2,dp=2,tp=2 -- mpirun -n 8 python train.py
  rankdbg run --role rollout --job ppo -- ./start.sh
  rankdbg run --nsys 'train_0' --nsys-steps 3:7 -- torchrun train.py

The command replaces rankdbg (exec): its output, signals and exit status are its own.
Every Python process that it starts, in any environment, has the agent.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rankdbg import _version
from rankdbg.errors import BadInput
from rankdbg.files import foreign_files
from rankdbg.frontends.job_commands import Command
from rankdbg.process import identity, nsys_config
from rankdbg.selection.mesh import parse as parse_mesh

# Programs that run the command after their options.
_WRAPPERS = frozenset(
    [
        "chrt",
        "env",
        "ionice",
        "nice",
        "nohup",
        "numactl",
        "setsid",
        "stdbuf",
        "sudo",
        "taskset",
        "time",
        "timeout",
    ]
)
_SHELL_WORDS = re.compile(r"[^\s;&|'\"()<>]+")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "rankdbg run [options] -- COMMAND ..."
    parser.add_argument(
        "--mesh", help="names and sizes of the mesh dimensions, row-major: pp=2,dp=2,tp=2"
    )
    parser.add_argument("--role", help="role of these ranks: trainer, rollout, ...")
    parser.add_argument("--job", help="the job's name (default: made from the command)")
    parser.add_argument(
        "--break-on-error", action="store_true", help="stop a rank at an uncaught exception"
    )
    parser.add_argument(
        "--stop-on-nan",
        nargs="?",
        const="1",
        choices=("1", "exact"),
        metavar="exact",
        help="stop a rank where the first nan appears in a torch module (rankdbg nan shows its "
        "origin); with =exact, also on a GPU in the module itself, which is slower",
    )
    parser.add_argument(
        "--save-on-error",
        metavar="DIR",
        help="save uncaught exceptions to DIR; open them with -t snapshot:DIR",
    )
    parser.add_argument(
        "--hold-timeouts",
        action="store_true",
        help="suspend timeouts of torch process groups while a rank is stopped",
    )
    parser.add_argument(
        "--wait-for-editor",
        nargs="?",
        const=0.0,
        type=_limit,
        metavar="SECONDS",
        help="each rank waits before its first line until an editor has set its breakpoints "
        "(rankdbg vscode, rankdbg dap); with =SECONDS, at most that long",
    )
    parser.add_argument(
        "--nsys",
        metavar="PATTERNS",
        help="run ranks whose role or script name matches under nsys profile: "
        "'trainer,*rollout*', train_0 for one rank",
    )
    parser.add_argument(
        "--nsys-steps",
        metavar="FIRST:END",
        help="record only these steps of rankdbg.progress(step): 3:7 is 3 to 6; later: record "
        "when rankdbg profile --kind nsys asks",
    )
    parser.add_argument(
        "--nsys-options",
        metavar="JSON",
        help="""options for nsys profile: '{"trace": "cuda,nvtx,osrt"}'""",
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")


def run(options: argparse.Namespace) -> int:
    command = prepare(options)
    # Python ignores these two signals, and the command would inherit that.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    program, words, environment = command.program, command.words, command.environment
    try:
        os.execve(program, words, environment)
    except OSError as error:
        if error.errno == errno.ENOEXEC:  # a script without #!: as every shell does
            os.execve("/bin/sh", ["/bin/sh", program, *words[1:]], environment)
        raise cannot_run(words[0], error) from None


def prepare(options: argparse.Namespace) -> Command:
    """Check all options, and print the name of the job on stderr."""
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise BadInput("no command to run", hint="rankdbg run -- torchrun train.py")
    job = job_name(command) if options.job is None else _checked("job", options.job)
    environment = _environment(job, options.mesh, options.role)
    environment.update(_on_error(options.break_on_error, options.save_on_error))
    if options.hold_timeouts:
        environment = {**_nccl_without_watchdog(), **environment, "RANKDBG_HOLD_TIMEOUTS": "1"}
    environment.update(_profiles(options, environment))
    if options.stop_on_nan:
        environment["RANKDBG_STOP_ON_NAN"] = options.stop_on_nan
    environment.pop("RANKDBG_WAIT_FOR_EDITOR", None)
    if options.wait_for_editor is not None:
        environment["RANKDBG_WAIT_FOR_EDITOR"] = f"{options.wait_for_editor:g}"
    program = _find_program(command[0])
    if sys.stderr is not None:  # None if closed with 2>&-
        with contextlib.suppress(OSError):  # full: the command matters more
            sys.stderr.write(_greeting(job, program, command))
            sys.stderr.flush()
    return Command(program, command, environment)


def _limit(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise BadInput(
            f"invalid time {text!r}: expected a number of seconds above 0",
            hint="rankdbg run --wait-for-editor=60 -- COMMAND",
        )
    return seconds


def _checked(kind: str, name: str) -> str:
    """A name that can be given to --job or used in a selection."""
    if not name or not name.isprintable() or name[0] == "-" or set(name) & set(" ,'\"()[]="):
        raise BadInput(
            f"invalid name for a {kind}: {name!r}",
            "it must not contain spaces, commas, quotes, brackets or =, or begin with -",
        )
    return name


def _find_program(word: str) -> str:
    program = shutil.which(word)
    if program is not None:
        return program
    if not word:
        raise BadInput("the command's first word is empty", hint="is a variable not set?")
    if os.path.isdir(word):
        raise BadInput(f"{word} is a directory, not a command")
    if os.path.isfile(word):
        interpreter = "python" if word.endswith(".py") else "sh"
        raise BadInput(
            f"{word} is not {'executable' if os.sep in word else 'on PATH'}",
            hint=f"rankdbg run -- {interpreter} {shlex.quote(word)}",
        )
    raise BadInput(f"no such command: {word}", hint="is it on PATH?")


def cannot_run(word: str, error: OSError) -> BadInput:
    if error.errno == errno.ENOENT:
        return BadInput(
            f"cannot run {word}: its first line (#!) names a program that does not exist"
        )
    return BadInput(f"cannot run {word}: {error.strerror}")


def _environment(job: str, mesh: str | None, role: str | None) -> dict[str, str]:
    environment = {**os.environ, "RANKDBG": "1", "RANKDBG_JOB": job}
    around = os.environ.get("RANKDBG_JOB", "")
    if around not in ("", job):
        environment["RANKDBG_OUTER_JOB"] = around
    if "LC_CTYPE" not in _environment_at_start():
        environment.pop("LC_CTYPE", None)  # Python has set it, because the locale is C
    if mesh is None:
        mesh = environment.get("RANKDBG_MESH") or None
    if mesh is not None:
        sizes = parse_mesh(mesh)
        environment["RANKDBG_MESH"] = ",".join(f"{name}={size}" for name, size in sizes.items())
    if role is not None:
        environment["RANKDBG_ROLE"] = _checked("role", role)
    if environment.get("RANKDBG_DIR"):
        # The command may change its working directory.
        environment["RANKDBG_DIR"] = os.path.abspath(environment["RANKDBG_DIR"])
    bootstrap = str(Path(_version.__file__).resolve().parent / "agent" / "bootstrap")
    before = environment.get("PYTHONPATH", "")
    if bootstrap not in before.split(os.pathsep):
        environment["PYTHONPATH"] = os.pathsep.join([bootstrap, before] if before else [bootstrap])
    return environment


def _on_error(hold: bool, directory: str | None) -> dict[str, str]:
    environment = {"RANKDBG_BREAK": "error"} if hold else {}
    if directory is not None:
        if not directory or (os.path.exists(directory) and not os.path.isdir(directory)):
            raise BadInput(f"invalid --save-on-error {directory!r}: expected a directory")
        if _contains_snapshot(directory):
            raise BadInput(f"{directory} already contains a snapshot", hint="use a new directory")
        environment["RANKDBG_SAVE_ON_ERROR"] = os.path.abspath(directory)
    return environment


def _profiles(options: argparse.Namespace, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that make ranks run under nsys. They are checked here, because a rank can
    only report an error in its log."""
    given = {
        "--nsys": options.nsys,
        "--nsys-steps": options.nsys_steps,
        "--nsys-options": options.nsys_options,
    }
    if options.nsys is not None and not nsys_config.parse_patterns(options.nsys):
        raise BadInput(
            "--nsys is empty: expected patterns", hint="rankdbg run --nsys '*policy*' -- COMMAND"
        )
    if options.nsys_steps is not None:
        nsys_config.parse_steps(options.nsys_steps, "--nsys-steps")
    if options.nsys_options is not None:
        nsys_config.parse_options(options.nsys_options, "--nsys-options")
    variables = dict(zip(nsys_config.OURS, given.values(), strict=True))
    chosen = {name: value for name, value in variables.items() if value is not None}
    merged = {**environment, **chosen}
    if chosen and not nsys_config.parse_patterns(merged.get(nsys_config.OURS[0], "")):
        option = next(option for option, value in given.items() if value is not None)
        raise BadInput(f"{option} needs --nsys", hint="rankdbg run --nsys '*policy*' -- COMMAND")
    nsys_config.read(merged)
    return chosen


def _nccl_without_watchdog() -> dict[str, str]:
    """Settings that NCCL reads at its start, unless the user has set them: its watchdog must
    not end a process whose collective waits for a rank in the debugger."""
    seconds = 20 * 24 * 3600  # in milliseconds it still fits into 32 bits
    return {
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",
        "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": str(seconds),
    }


def _contains_snapshot(directory: str) -> bool:
    """Saved by `rankdbg save`. Saved exceptions, also those of this job's ranks on other
    machines, do not count."""
    import json

    try:
        content = foreign_files.read_bytes(Path(directory, "snapshot.json"), 64 << 20)
        return bool(json.loads(content).get("nodes"))
    except (OSError, ValueError, AttributeError, RecursionError):
        return False


def _environment_at_start() -> list[str]:
    try:
        entries = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:
        return list(os.environ)
    return [os.fsdecode(entry.partition(b"=")[0]) for entry in entries]


def job_name(command: Sequence[str]) -> str:
    """The name of the script that the launcher starts, and four digits. If srun starts one
    `rankdbg run` for each rank, the Slurm job that they share."""
    if os.environ.get("SLURM_STEP_ID") and identity.slurm_job(os.environ):
        return f"slurm-{identity.slurm_job(os.environ)}"
    script = next(_scripts(command), "")
    if script:
        name = Path(script).stem
    else:
        command = _without_wrappers(command)
        name = identity.script_name(command if _is_python(command[0]) else ["", *command])
    name = "".join(letter for letter in name if letter.isalnum() or letter in "-_.").lstrip("-")
    return f"{name or 'job'}-{os.urandom(2).hex()}"


def _scripts(command: Sequence[str]) -> Iterator[str]:
    """Also in the words of `sh -c`; no values of options."""
    for before, word in zip(["", *command], command, strict=False):
        for part in _SHELL_WORDS.findall(word) if before == "-c" else [word]:
            if part.endswith((".py", ".sh")) and not part.startswith("-"):
                yield part


def _without_wrappers(command: Sequence[str]) -> Sequence[str]:
    """`env X=1 nice -n 5 vllm serve` -> `vllm serve`"""
    words = list(command)
    while Path(words[0]).name in _WRAPPERS:
        rest = words[1:]
        while rest and (rest[0][0:1] in "-+0123456789" or "=" in rest[0]):
            rest.pop(0)
        if not rest:
            return command
        words = rest
    return words


def _is_python(program: str) -> bool:
    return Path(program).name.startswith(("python", "pypy"))


def _greeting(job: str, program: str, command: Sequence[str]) -> str:
    reason = identity.flags_without_agent(command) if _is_python(program) else ""
    if reason and ("S" in identity.invocation(command)[0] or not _has_rankdbg(program)):
        return f"rankdbg: job {job} has no agent ({reason}); rankdbg stacks reads it from outside\n"
    where = f"-t slurm:{job[6:]}" if job.startswith("slurm-") else f"--job {job}"
    return f"rankdbg: job {job}; look at it with: rankdbg ps {where}\n"


def _has_rankdbg(python: str) -> bool:
    """Whether an isolated Python (-I, -E) finds the agent in its own environment."""
    try:
        result = subprocess.run(
            [python, "-I", "-c", "import rankdbg"],
            env={**os.environ, "RANKDBG": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return result.returncode == 0
