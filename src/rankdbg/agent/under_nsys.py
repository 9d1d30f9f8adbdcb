"""A rank whose name was asked for runs itself again, under `nsys profile`.

nsys takes the place of the process that the launcher has started, and so gets its signals and
hands its exit status on; the rank is nsys's child, as in `mpirun nsys profile python train.py`.
That happens before the program begins, and once: the child knows by its environment that it is
under nsys, and its own children know by RANKDBG_NSYS_PID that they are not the rank.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
import sys

from rankdbg import identity, nsys, wire
from rankdbg.agent import nsys_program, nsys_writers
from rankdbg.errors import RankdbgError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

# Set for the child: what its report is called (with %p).
REPORT = "RANKDBG_NSYS_REPORT"
# Set by the child: who is profiled, so that what it starts is not.
PROFILED = "RANKDBG_NSYS_PID"
# Set by rank 0 when it has said that it is not profiled: what it starts has its number too.
TOLD = "RANKDBG_NSYS_TOLD"
# Set by rankdbg.ray.runtime_env(name=…): Ray's workers have no other name before they begin.
NAME = "RANKDBG_NSYS_NAME"
_MULTIPROCESSING = "from multiprocessing."
_RAY_SCRIPTS = "/ray/_private/"


def begin() -> None:
    """Replaces this process, or arms the range of steps in one that is under nsys. Says what
    is wrong, and then the program goes on without a profile."""
    try:
        wish = nsys.read(os.environ)
    except RankdbgError as error:
        _say(f"not profiled: {error.in_one_line()}")
        return
    if wish is None or os.environ.get(PROFILED):
        return
    if os.environ.get(REPORT):
        _settle(wish)
    elif os.environ.get(nsys.UNDER_NSYS):
        # Somebody else's nsys, such as Ray's plugin; NeMo RL minds its steps itself.
        _leave_group_of_nsys()
        if wish.steps and os.environ.get(nsys.OURS[1]):
            os.environ[PROFILED] = str(os.getpid())
            _arm(wish.steps, "")
    else:
        _run_again(wish)


# --- before --------------------------------------------------------------------------------


def _run_again(wish: nsys.Wish) -> None:
    names = _names(sys.orig_argv, os.environ)
    numbered = [f"{name}_{_rank()}" for name in names if _rank() is not None]
    worker, pattern = wish.pattern_of([*names, *numbered])
    if not worker:
        if names:
            _tell_names([*names, *numbered], wish)
            _wait_for_workers_at_exit()
        return
    if worker not in names:
        worker = worker.rpartition("_")[0]  # the number is no part of the name
    program = nsys_program.find()
    if not program or not sys.executable:
        missing = "Python does not know its own path" if program else "nsys is not on PATH"
        advice = "" if program else "; add the directory of Nsight Systems there"
        _say(f"not profiled: {missing} on {os.uname().nodename}{advice}")
        return
    output = os.path.join(_directory(), wish.report_name(worker))
    out_of_reach = nsys_program.out_of_reach() if os.environ.get(NAME) else []
    before = [*out_of_reach, *wish.command(program, output)]
    given = os.path.abspath(wish.profile_options(output).get("output", "report%n"))  # nsys's own
    environment = {**os.environ, nsys_writers.WORKER: worker, REPORT: given}
    _make_folder(given)
    environment.update(nsys_program.take_turn())
    _say(f"Nsight profiling enabled for worker '{worker}' (matched pattern '{pattern}')")
    try:
        for ignored in (_signal.SIGPIPE, _signal.SIGXFSZ):  # by Python, and nsys would inherit it
            _signal.signal(ignored, _signal.SIG_DFL)
        os.execve(before[0], [*before, sys.executable, *sys.orig_argv[1:]], environment)
    except OSError as error:
        _signal.signal(_signal.SIGPIPE, _signal.SIG_IGN)
        nsys_program.end_turn(environment)
        _say(f"not profiled: cannot run {before[0]}: {error.strerror}")


def _names(command: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """What a pattern may fit, also with the rank's number behind it: the role, and what is run.
    None for what is no rank."""
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


def _tell_names(names: list[str], wish: nsys.Wish) -> None:
    """By which names one could be asked for. One of many says it: rank 0, at once, if none of the
    others is meant; or in a job without numbers its first process, when it ends and has not turned
    out to be Ray's driver."""
    line = f"not profiled: none of {', '.join(wish.patterns)} fits {' or '.join(names)}"
    if _rank() == 0 and not os.environ.get(TOLD):
        os.environ[TOLD] = "1"
        if not any(wish.pattern_of(f"{name}_{rank}" for name in names)[0] for rank in _others()):
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
    """Whether what has started this process is no part of the job."""
    try:
        with open(f"/proc/{os.getppid()}/environ", "rb") as file:
            return b"RANKDBG=1" not in file.read().split(b"\0")
    except OSError:
        return True


def _directory() -> str:
    """For reports: where Ray has its logs, else by host below the working directory, since
    that is often one directory for all of them."""
    told = dict(word.partition("=")[::2] for word in sys.orig_argv if word.startswith("--"))
    wanted = os.path.join(os.path.abspath("nsight"), os.uname().nodename)
    if os.environ.get(NAME) and {"--temp-dir", "--session-name"} <= told.keys():
        wanted = os.path.join(told["--temp-dir"], told["--session-name"], "logs", "nsight")
    try:
        os.makedirs(wanted, exist_ok=True)
        if os.access(wanted, os.W_OK):
            return wanted
    except OSError:
        pass
    return os.environ.get("TMPDIR") or "/tmp"


def _make_folder(output: str) -> None:
    """nsys would put a report whose folder is missing into /tmp. Below a % only it knows where."""
    folder, percent, _ = os.path.dirname(output).partition("%")
    try:
        os.makedirs(os.path.dirname(folder) if percent else folder, exist_ok=True)
    except OSError:  # nsys says so, and where its report went
        pass


def _wait_for_workers_at_exit() -> None:
    """Registered before Ray is loaded, it comes after Ray has shut down."""
    import atexit

    pid = os.getpid()

    def wait() -> None:
        if os.getpid() == pid and "rankdbg.ray" in sys.modules:
            from rankdbg.agent import workers_reports

            workers_reports.wait()

    atexit.register(wait)


# --- after ---------------------------------------------------------------------------------


def _settle(wish: nsys.Wish) -> None:
    """This is the rank itself, under nsys."""
    pid = os.getpid()
    os.environ[PROFILED] = str(pid)
    nsys_program.end_turn(os.environ)
    _leave_group_of_nsys()
    host = os.uname().nodename
    report = nsys.expand(os.environ[REPORT], pid, host, os.environ)
    if report:
        _describe(report, wish, host)
    _arm(wish.steps, report)


def _leave_group_of_nsys() -> None:
    """Ray also kills the process group that a worker is in as soon as that worker has ended."""
    if _RAY_SCRIPTS in identity.invocation(sys.orig_argv)[2]:
        try:
            os.setpgid(0, 0)
        except OSError:  # it leads a session, and so is in no group of nsys
            pass


def _arm(steps: nsys.Steps | None, report: str) -> None:
    from rankdbg.agent import capture

    capture.arm(steps, report)


def _describe(report: str, wish: nsys.Wish, host: str) -> None:
    """Beside the report, for those who look at it later: whose it is."""
    labels = identity.from_environment(os.environ)
    told: dict[str, Any] = {
        "worker": os.environ.get(nsys_writers.WORKER, ""),
        "host": host,
        "pid": os.getpid(),
        "rank": labels.get("rank"),
        "world": labels.get("world"),
        "job": labels.get("job", ""),
        "steps": wish.range_text(),
        "command": list(sys.orig_argv),
    }
    try:
        with open(report.removesuffix(".nsys-rep") + ".json", "wb") as file:
            file.write(wire.encode(told))
    except OSError:  # it is a help, no more
        pass


def _say(line: str) -> None:
    rank = _rank()
    who = f"rank {rank}: " if rank is not None else ""
    try:
        sys.stderr.write(f"rankdbg: {who}{line}\n")
        sys.stderr.flush()
    except Exception:  # closed, or None
        pass
