"""A rank whose name matches a pattern executes itself again, under `nsys profile`.

nsys replaces the process that the launcher has started. So it gets the launcher's signals, and
returns the exit status; the rank is a child of nsys, as in `mpirun nsys profile python train.py`.
This happens once, before the program begins: the environment of the child says that it is under
nsys, and RANKDBG_NSYS_PID tells the child's own children that they are not the rank.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
import sys

from rankdbg import ray as worker_environments
from rankdbg import wire
from rankdbg.agent import messages
from rankdbg.agent.nsys import nsys_program, nsys_writers
from rankdbg.errors import RankdbgError
from rankdbg.files import private_files
from rankdbg.process import identity, nsys_config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping, Sequence
    from typing import Any

# Set for the child: the path of its report (with %p).
REPORT = "RANKDBG_NSYS_REPORT"
# Set by the child: the pid that is profiled, so that its own children are not.
PROFILED = "RANKDBG_NSYS_PID"
# Set by rank 0 after its message that it is not profiled: its children have its number too.
REPORTED = "RANKDBG_NSYS_TOLD"
# Set by rankdbg.ray.runtime_env(name=…): Ray's workers have no other name at their start.
NAME = "RANKDBG_NSYS_NAME"
_MULTIPROCESSING = "from multiprocessing."
_RAY_SCRIPTS = "/ray/_private/"


def begin() -> None:
    """Replaces this process by nsys; in a process under nsys, prepares the capture of a range of
    steps. After an error message the program continues without a profile."""
    try:
        config = nsys_config.read(os.environ)
    except RankdbgError as error:
        _say(f"not profiled: {error.in_one_line()}")
        return
    if config is None:
        return
    _forget_driver(os.environ)
    if os.environ.get(PROFILED):
        return
    if os.environ.get(REPORT):
        _settle(config)
    elif os.environ.get(nsys_config.UNDER_NSYS):
        # An nsys that rankdbg has not started, such as that of Ray's plugin. NeMo RL captures its
        # steps itself.
        _leave_group_of_nsys()
        if config.steps and os.environ.get(nsys_config.OURS[1]):
            os.environ[PROFILED] = str(os.getpid())
            _arm(config.steps, "")
    else:
        _run_again(config)


def _forget_driver(environ: MutableMapping[str, str]) -> None:
    """A worker of a Ray cluster that a driver under nsys has started inherits the driver's
    variables. The worker has a name of its own, and is not yet under an nsys of that name."""
    _, form, name = identity.invocation(sys.orig_argv)
    is_worker = form == "script" and name.endswith(f"{_RAY_SCRIPTS}workers/default_worker.py")
    if is_worker and environ.get(NAME) and environ.get(nsys_writers.WORKER) != environ[NAME]:
        for key in (PROFILED, REPORT, REPORTED, nsys_writers.WORKER, nsys_config.UNDER_NSYS):
            environ.pop(key, None)


# --- before --------------------------------------------------------------------------------


def _run_again(config: nsys_config.NsysConfig) -> None:
    names = _names(sys.orig_argv, os.environ)
    numbered = [f"{name}_{_rank()}" for name in names if _rank() is not None]
    worker, pattern = config.pattern_of([*names, *numbered])
    if not worker:
        if names:
            _report_names([*names, *numbered], config)
            _wait_for_workers_at_exit()
        return
    if worker not in names:
        worker = worker.rpartition("_")[0]  # without the rank's number
    program = nsys_program.find()
    if not program or not sys.executable:
        missing = "Python does not know its own path" if program else "nsys is not on PATH"
        advice = "" if program else "; add the directory of Nsight Systems there"
        _say(f"not profiled: {missing} on {os.uname().nodename}{advice}")
        return
    output = os.path.join(_directory(), config.report_name(worker))
    out_of_reach = nsys_program.out_of_reach() if os.environ.get(NAME) else []
    before = [*out_of_reach, *config.command(program, output)]
    given = os.path.abspath(config.profile_options(output).get("output", "report%n"))  # nsys's own
    environment = {**os.environ, nsys_writers.WORKER: worker, REPORT: given}
    _make_folder(given)
    environment.update(nsys_program.take_turn())
    _say(f"Nsight profiling enabled for worker '{worker}' (matched pattern '{pattern}')")
    try:
        for ignored in (
            _signal.SIGPIPE,
            _signal.SIGXFSZ,
        ):  # Python ignores them, and nsys would inherit that
            _signal.signal(ignored, _signal.SIG_DFL)
        os.execve(before[0], [*before, sys.executable, *sys.orig_argv[1:]], environment)
    except OSError as error:
        _signal.signal(_signal.SIGPIPE, _signal.SIG_IGN)
        nsys_program.end_turn(environment)
        _say(f"not profiled: cannot run {before[0]}: {error.strerror}")


def _names(command: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The names that a pattern can match, also with the rank's number appended: the role, and the
    script or module. Empty for a process that is not a rank."""
    _, form, name = identity.invocation(command)
    if _RAY_SCRIPTS in name and form == "script":
        worker = name.endswith("/default_worker.py")
        return [environ[NAME]] if worker and environ.get(NAME) else []
    if form == "code" and name.startswith(_MULTIPROCESSING):
        return []
    if not form or identity.known_kind(command) or identity.is_monarch_proc(command):
        return []
    if form == "code" and _rank() is None:
        return []
    return [*filter(None, [environ.get("RANKDBG_ROLE"), identity.script_name(command)])]


def _rank() -> int | None:
    rank: int | None = identity.from_environment(os.environ).get("rank")
    return rank


def _report_names(names: list[str], config: nsys_config.NsysConfig) -> None:
    """Print the names that a pattern could match. Only one process of a job does so: rank 0, at
    once, if no other rank matches; in a job without rank numbers its first process, when it exits
    and is not a driver of Ray."""
    line = f"not profiled: no pattern of {', '.join(config.patterns)} matches {' or '.join(names)}"
    if _rank() == 0 and not os.environ.get(REPORTED):
        os.environ[REPORTED] = "1"
        if not any(config.pattern_of(f"{name}_{rank}" for name in names)[0] for rank in _others()):
            _say(line)
    elif _rank() is None and _is_first():
        import atexit

        pid = os.getpid()
        atexit.register(
            lambda: _say(line) if os.getpid() == pid and "ray" not in sys.modules else None
        )


def _others() -> range:
    return range(1, identity.from_environment(os.environ).get("world") or 1)


def _is_first() -> bool:
    """Whether the parent of this process is not part of the job."""
    try:
        with open(f"/proc/{os.getppid()}/environ", "rb") as file:
            return b"RANKDBG=1" not in file.read().split(b"\0")
    except OSError:
        return True


def _directory() -> str:
    """For reports: Ray's directory of logs, else one for each host below the working directory,
    which hosts often share."""
    options = dict(word.partition("=")[::2] for word in sys.orig_argv if word.startswith("--"))
    wanted = os.path.join(os.path.abspath("nsight"), os.uname().nodename)
    if os.environ.get(NAME) and {"--temp-dir", "--session-name"} <= options.keys():
        wanted = os.path.join(options["--temp-dir"], options["--session-name"], "logs", "nsight")
    try:
        os.makedirs(wanted, exist_ok=True)
        if os.access(wanted, os.W_OK):
            return wanted
    except OSError:
        pass
    return os.environ.get("TMPDIR") or "/tmp"


def _make_folder(output: str) -> None:
    """nsys would put a report whose folder is missing into /tmp. What follows a % in the path is
    known to nsys only."""
    folder, percent, _ = os.path.dirname(output).partition("%")
    try:
        os.makedirs(os.path.dirname(folder) if percent else folder, exist_ok=True)
    except OSError:  # nsys reports it, and where its report is
        pass


def _wait_for_workers_at_exit() -> None:
    """Registered before Ray is loaded, so it runs after Ray has shut down."""
    import atexit

    pid = os.getpid()

    def wait() -> None:
        if os.getpid() == pid and worker_environments.any_is_profiled():
            from rankdbg.agent.nsys import worker_reports

            worker_reports.wait()

    atexit.register(wait)


# --- after ---------------------------------------------------------------------------------


def _settle(config: nsys_config.NsysConfig) -> None:
    """This is the rank itself, under nsys."""
    pid = os.getpid()
    os.environ[PROFILED] = str(pid)
    nsys_program.end_turn(os.environ)
    _leave_group_of_nsys()
    host = os.uname().nodename
    report = nsys_config.expand(os.environ[REPORT], pid, host, os.environ)
    if report:
        _describe(report, config, host)
    _arm(config.steps, report)
    _wait_for_workers_at_exit()  # of Ray, if this is a driver


def _leave_group_of_nsys() -> None:
    """Ray kills the process group of a worker as soon as the worker has exited."""
    if _RAY_SCRIPTS in identity.invocation(sys.orig_argv)[2]:
        try:
            os.setpgid(0, 0)
        except OSError:  # it leads a session, so it is not in the group of nsys
            pass


def _arm(steps: nsys_config.Steps | None, report: str) -> None:
    from rankdbg.agent.nsys import capture

    capture.arm(steps, report)


def _describe(report: str, config: nsys_config.NsysConfig, host: str) -> None:
    """Write a file beside the report that names its rank, for `rankdbg collect`."""
    labels = identity.from_environment(os.environ)
    description: dict[str, Any] = {
        "worker": os.environ.get(nsys_writers.WORKER, ""),
        "host": host,
        "pid": os.getpid(),
        "rank": labels.get("rank"),
        "world": labels.get("world"),
        "job": labels.get("job", ""),
        "steps": config.range_text(),
        "command": list(sys.orig_argv),
    }
    try:
        # Private: the command line may contain secrets, and masking them needs re, which is not
        # to be loaded here.
        with private_files.open_file(report.removesuffix(".nsys-rep") + ".json", "wb") as file:
            file.write(wire.encode(description))
    except OSError:  # the report is usable without it
        pass


def _say(line: str) -> None:
    rank = _rank()
    messages.write(f"rank {rank}: {line}" if rank is not None else line)
