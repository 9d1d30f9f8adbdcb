"""Stay beside a job; when it hangs, find out why, keep the evidence, tell somebody.

  rankdbg watch -- torchrun --nproc-per-node 8 train.py
  rankdbg watch --config job.yaml -- ./start.sh
  rankdbg watch -t slurm:4711 --hang-after 600 --notify 'mail -s hang me@a.org'
  rankdbg watch --abort -- srun python train.py       exit status 86: it hung

A job hangs when no rank has come on for --hang-after seconds: by stacks, waits, what it
writes, collectives, and rankdbg.progress(step) where the program calls it. Also at fixed
times: --at 1800, --every 600.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rankdbg.errors import BadInput
from rankdbg.frontends.cli import add_target, add_timeout, seconds

if TYPE_CHECKING:
    from rankdbg.frontends.watch.settings import Settings
    from rankdbg.frontends.watch.watcher import Watcher
    from rankdbg.session import Session

# Between the request to end and the end by force.
GRACE_SECONDS = 15.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "rankdbg watch [options] [-- COMMAND ...]"
    parser.add_argument("--config", metavar="FILE", help="a job file with a section `debug:`")
    parser.add_argument("--hang-after", type=seconds, metavar="SECONDS", help="default: 180")
    parser.add_argument(
        "--at",
        type=seconds,
        action="append",
        metavar="SECONDS",
        help="collect so long after the start, hang or not; may be given several times",
    )
    parser.add_argument("--every", type=seconds, metavar="SECONDS", help="collect so often")
    parser.add_argument(
        "--look-every", type=seconds, metavar="SECONDS", help="between looks (default: 10)"
    )
    parser.add_argument("--output-dir", metavar="DIR", help="default: LOG_DIR/backtraces")
    parser.add_argument("--log-dir", metavar="DIR", help="default: the current directory")
    parser.add_argument(
        "--cuda",
        choices=("suspects", "all", "none"),
        help="whom to attach cuda-gdb to (default: suspects)",
    )
    parser.add_argument("--notify", metavar="COMMAND", help="run this when it hangs")
    parser.add_argument("--webhook", metavar="URL", help="post the report there when it hangs")
    parser.add_argument("--abort", action="store_true", help="end the job when it hangs")
    parser.add_argument(
        "--exit-status", type=int, metavar="N", help="of a job that was ended (default: 86)"
    )
    parser.add_argument("--rules", action="append", default=[], metavar="FILE|DIR")
    add_target(parser)
    parser.add_argument("--job", help="which job, where several run; or its name with COMMAND")
    add_timeout(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")


def run(options: argparse.Namespace) -> int:
    from rankdbg.verdicts.hang_rules import load_hang_rules

    settings = _settings(options)
    load_hang_rules(settings.rules)  # a fault in them is said now, not when the job hangs
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if command:
        return _watch_command(options, settings, command)
    if settings.abort:
        raise BadInput(
            "--abort ends a job that rankdbg watch has started", hint="rankdbg watch -- COMMAND"
        )
    if not settings.enabled:
        say("watching is switched off: debug.enabled is not true")
        return 0
    return _watch_target(options, settings)


def _settings(options: argparse.Namespace) -> Settings:
    from rankdbg.frontends.watch.settings import Settings, check, read_file

    settings = read_file(options.config) if options.config else Settings()
    given: dict[str, Any] = {
        name: value
        for name in (
            "hang_after", "every", "look_every", "output_dir", "log_dir", "cuda", "notify",
            "webhook", "exit_status",
        )
        if (value := getattr(options, name)) is not None
    }  # fmt: skip
    if options.at:
        given["wait_seconds"] = tuple(options.at)
    if options.rules:
        given["rules"] = tuple(options.rules)
    if options.abort:
        given["abort"] = True
    settings = replace(settings, **given)
    check(settings)
    return settings


def say(text: str) -> None:
    sys.stderr.write(f"rankdbg watch: {text}\n")
    sys.stderr.flush()


# --- a job that is already there -----------------------------------------------------------


def _watch_target(options: argparse.Namespace, settings: Settings) -> int:
    from rankdbg.frontends.reaching import open_session
    from rankdbg.frontends.watch.watcher import Watcher

    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    with open_session(options) as session:
        session.reopens = True
        name = session.job(options.job)[0].job
        say(f"watching job {name}; reports go to {settings.directory}")
        watcher = Watcher(session, settings, say, name)
        watcher.run(lambda pause: _is_over(session, watcher, over, pause))
        if not watcher.found:
            say(f"job {name} has ended")
    return 0


def _is_over(session: Session, watcher: Watcher, over: threading.Event, pause: float) -> bool:
    """A job of which nothing was found may be on a node that did not answer."""
    return (not watcher.found and not session.silent_nodes) or over.wait(pause)


# --- a job of our own ----------------------------------------------------------------------


def _watch_command(options: argparse.Namespace, settings: Settings, command: list[str]) -> int:
    from rankdbg.frontends.cli.run import job_name

    name = options.job or _of_allocation(options) or job_name(command)
    words = [sys.executable, "-m", "rankdbg", "run", "--job", name, "--", *command]
    # A group of its own: what we end at a hang is the job, whole, and nobody else.
    child = subprocess.Popen(words, preexec_fn=os.setpgrp)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda signum, _: _signal_group(child, signum))
    if not settings.enabled:
        return _status(child.wait())
    hung = _beside(options, settings, name, child)
    if hung and child.poll() is None:
        say(f"the job hangs and is ended (--abort); exit status {settings.exit_status}")
        _end(child)
        return settings.exit_status
    return _status(child.wait())


def _of_allocation(options: argparse.Namespace) -> str:
    """Inside an allocation of Slurm the job is looked for on all its nodes, by this name."""
    number = os.environ.get("SLURM_JOB_ID", "")
    return f"slurm-{number}" if number and not options.target else ""


def _beside(
    options: argparse.Namespace, settings: Settings, job: str, child: subprocess.Popen[bytes]
) -> bool:
    from rankdbg.frontends.reaching import open_session
    from rankdbg.frontends.watch.watcher import Watcher

    def wait(pause: float) -> bool:
        try:
            child.wait(pause)
        except subprocess.TimeoutExpired:
            return False
        return True

    with open_session(options) as session:
        session.reopens = True
        return Watcher(session, settings, say, job).run(wait)


def _end(child: subprocess.Popen[bytes]) -> None:
    _signal_group(child, signal.SIGTERM)
    try:
        child.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    _signal_group(child, signal.SIGKILL)
    child.wait()


def _signal_group(child: subprocess.Popen[bytes], number: int) -> None:
    try:
        os.killpg(child.pid, number)
    except ProcessLookupError:
        pass


def _status(returned: int) -> int:
    """As a shell has it: 128 and the signal."""
    return 128 - returned if returned < 0 else returned
