"""Monitor a job; when it hangs, find the cause, save the evidence and notify you.

  rankdbg watch -- torchrun --nproc-per-node 8 train.py
  rankdbg watch --config job.yaml -- ./start.sh
  rankdbg watch -t slurm:4711 --hang-after 600 --notify 'mail -s hang me@a.org'
  rankdbg watch --abort -- srun python train.py       exit status 86 if it hung

A job hangs when no rank has made progress for --hang-after seconds. Progress is seen in
stacks, waits, output, collectives, and rankdbg.progress(step) if the program calls it.
Evidence can also be collected at fixed times: --at 1800, --every 600.

A failure of the monitoring never ends COMMAND or changes its exit status. A signal is
forwarded to COMMAND once the evidence is collected, at the latest after --grace seconds.
"""

from __future__ import annotations

import argparse
import os
import queue
import signal
import sys
import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from rankdbg.errors import BadInput
from rankdbg.frontends.cli import add_target, add_timeout, seconds
from rankdbg.process import identity

if TYPE_CHECKING:
    from rankdbg.investigations.watch.watch_settings import WatchSettings
    from rankdbg.investigations.watch.watcher import Watcher


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "rankdbg watch [options] [-- COMMAND ...]"
    parser.add_argument("--config", metavar="FILE", help="a job file with a `debug:` section")
    _add_times(parser)
    parser.add_argument(
        "--output-dir", metavar="DIR", help="where reports go (default: LOG_DIR/backtraces)"
    )
    parser.add_argument("--log-dir", metavar="DIR", help="default: the current directory")
    parser.add_argument(
        "--cuda",
        choices=("suspects", "all", "none"),
        help="which ranks to attach cuda-gdb to (default: suspects)",
    )
    _add_reactions(parser)
    parser.add_argument(
        "--rules",
        action="append",
        default=[],
        metavar="FILE|DIR",
        help="your own rules, tried first",
    )
    add_target(parser)
    parser.add_argument("--job", help="which job, if several are running; with COMMAND: its name")
    add_timeout(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")


def _add_times(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--hang-after",
        type=seconds,
        metavar="SECONDS",
        help="no progress for this long is a hang (default: 180)",
    )
    parser.add_argument(
        "--at",
        type=seconds,
        action="append",
        metavar="SECONDS",
        help="collect this long after the start, hang or not; may be repeated",
    )
    parser.add_argument(
        "--every", type=seconds, metavar="SECONDS", help="collect every SECONDS, hang or not"
    )
    parser.add_argument(
        "--look-every", type=seconds, metavar="SECONDS", help="poll every SECONDS (default: 10)"
    )


def _add_reactions(parser: argparse.ArgumentParser) -> None:
    """To a hang, and to signals."""
    parser.add_argument("--notify", metavar="COMMAND", help="run this command when the job hangs")
    parser.add_argument(
        "--webhook", metavar="URL", help="post the report to URL when the job hangs"
    )
    parser.add_argument("--abort", action="store_true", help="terminate the job when it hangs")
    parser.add_argument(
        "--exit-status", type=int, metavar="N", help="exit status after --abort (default: 86)"
    )
    parser.add_argument(
        "--grace",
        type=seconds_or_none,
        metavar="SECONDS",
        help="collect for at most this long before forwarding a signal to COMMAND (default: 5; "
        "0: forward at once)",
    )
    parser.add_argument(
        "--before-end",
        type=seconds_or_none,
        metavar="SECONDS",
        help="collect this long before the time limit of a Slurm job (default: 120; 0: never)",
    )


def seconds_or_none(text: str) -> float:
    return 0.0 if text in ("0", "0.0") else seconds(text)


def run(options: argparse.Namespace) -> int:
    from rankdbg.session.patience import find_patience
    from rankdbg.verdicts.hangs.hang_rules import load_hang_rules

    settings = _settings(options)
    # Report errors in these now, not when the job runs or hangs.
    load_hang_rules(settings.rules)
    find_patience(options.patience)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if command:
        return _watch_command(options, settings, command)
    if settings.abort:
        raise BadInput(
            "--abort needs a job that rankdbg watch has started", hint="rankdbg watch -- COMMAND"
        )
    if not settings.enabled:
        sys.stderr.write("rankdbg watch: watching is off: debug.enabled is not true\n")
        return 0
    return _watch_target(options, settings)


def _settings(options: argparse.Namespace) -> WatchSettings:
    from rankdbg.investigations.watch.watch_settings import WatchSettings, check, read_file

    settings = read_file(options.config) if options.config else WatchSettings()
    given: dict[str, Any] = {
        name: value
        for name in (
            "hang_after", "every", "look_every", "output_dir", "log_dir", "cuda", "notify",
            "webhook", "exit_status", "grace", "before_end",
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


# --- a job that is already running --------------------------------------------------------


def _watch_target(options: argparse.Namespace, settings: WatchSettings) -> int:
    from rankdbg.frontends.watch.sessions import ReportsOfVerdicts, opener
    from rankdbg.frontends.watch.supervisor import say
    from rankdbg.investigations.watch.reconnecting import Reaching
    from rankdbg.investigations.watch.watcher import Watcher

    news: queue.SimpleQueue[signal.Signals] = queue.SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda signum, _: news.put(signal.Signals(signum)))
    reaching = Reaching(opener(options))
    try:
        name = reaching.session().job(options.job)[0].job
        watcher = Watcher(reaching, settings, say, name, ReportsOfVerdicts(), runs_already=True)
        watcher.run(lambda pause: _is_over(watcher, news, pause))
        if watcher.ended:
            say(watcher.ended)
    finally:
        reaching.close()
    return 0


def _is_over(watcher: Watcher, news: queue.SimpleQueue[signal.Signals], pause: float) -> bool:
    """SIGUSR1 and SIGUSR2 collect now; other signals end the watch; the job keeps running."""
    try:
        number = news.get(timeout=pause)
    except queue.Empty:
        return False
    if number in (signal.SIGTERM, signal.SIGINT):
        return True
    watcher.collect_on_request(number.name)
    return False


# --- a job that rankdbg starts -----------------------------------------------------------------


def _watch_command(options: argparse.Namespace, settings: WatchSettings, command: list[str]) -> int:
    """Invalid input is reported before the command starts. After that, no failure of rankdbg
    ends the command (frontends/watch/supervisor.py)."""
    from rankdbg.frontends.cli import run, verb_parser
    from rankdbg.frontends.watch.supervisor import Supervisor

    name = options.job or _of_allocation(options) or run.job_name(command)
    prepared = run.prepare(verb_parser("run").parse_args(["--job", name, "--", *command]))
    order = {
        "options": {key: value for key, value in vars(options).items() if key != "command"},
        "settings": asdict(settings),
        "job": name,
        "started": time.monotonic(),
    }
    try:
        supervisor = Supervisor(
            prepared, order if settings.enabled else None, settings.grace, settings.exit_status
        )
    except OSError as error:
        raise run.cannot_run(command[0], error) from None
    # Python's normal exit would turn a full stderr into status 120.
    os._exit(supervisor.run())


def _of_allocation(options: argparse.Namespace) -> str:
    """Inside a Slurm allocation the job has this name on all its nodes."""
    number = identity.slurm_job(os.environ)
    return f"slurm-{number}" if number and not options.target else ""
