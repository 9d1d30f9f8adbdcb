"""One merged tree of all ranks' stacks, each branch with its ranks.

  rankdbg stacks                      the main thread of every rank
  rankdbg stacks tp=0 --threads all   all threads of these ranks
  rankdbg stacks --outside            by py-spy, without asking agents
  rankdbg stacks --native             frames of C and C++ and their threads too
  rankdbg stacks --cuda               what the GPUs of the odd ones run
  rankdbg stacks --core core.4711     of a crash: a core file, or what
                                      faulthandler has written
  rankdbg stacks --save DIR           keep it; look again with -t snapshot:DIR

Several samples tell what moves from what stands still. A rank whose agent does not
answer is read from outside; one that cannot be read either is listed with the reason.
--native, --gdb and --cuda stop a process for a moment to look; those that cannot take it
(stopped, traced, in state D) are left alone.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from rankdbg.errors import NO_PTRACE, BadInput, CannotLook
from rankdbg.frontends.cli import add_common, add_save, positive, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankdbg.frontends.reports.stacks import StackReport
    from rankdbg.session import Sampled, Session
    from rankdbg.types import Rank, Silence

# A sample stops a rank for 0.1 s with pystack, and for seconds with a debugger.
SAMPLES = {"agent": 3, "py-spy": 3, "native": 2, "gdb": 1, "cuda": 1}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser, ranks="optional")
    parser.add_argument(
        "--threads",
        choices=("main", "all"),
        help="default: main; all where frames of C are asked for; with --core all of Python's",
    )
    parser.add_argument(
        "--samples",
        type=positive,
        metavar="N",
        help="how many (default: 3; --native: 2; --gdb, --cuda: 1)",
    )
    engine = parser.add_mutually_exclusive_group()
    _engine(engine, "--outside", "py-spy", "read with py-spy, ask no agent")
    _engine(engine, "--native", "native", "frames of C and C++ too, with pystack")
    _engine(engine, "--gdb", "gdb", "the same with gdb: slower, unwinds where pystack cannot")
    engine.add_argument(
        "--cuda",
        nargs="?",
        const="suspects",
        type=_whom,
        metavar="all",
        help="with cuda-gdb, what runs on the GPUs of suspects, or of all",
    )
    engine.add_argument(
        "--core",
        nargs="+",
        metavar="FILE",
        help="core files, or logs with output of faulthandler, instead of a job",
    )
    parser.add_argument("--exe", metavar="PYTHON", help="the interpreter that wrote the core files")
    parser.add_argument("--locals", action="store_true", help="show variables of the user's frames")
    parser.add_argument("--full", action="store_true", help="show every frame of libraries")
    add_save(parser)


def _engine(group: argparse._MutuallyExclusiveGroup, option: str, engine: str, text: str) -> None:
    group.add_argument(
        option, dest="engine", action="store_const", const=engine, default="agent", help=text
    )


def _whom(text: str) -> str:
    if text not in ("all", "suspects"):
        raise argparse.ArgumentTypeError(
            f"it takes nothing or all, not {text!r}; ranks come first: rankdbg stacks {text} --cuda"
        )
    return text


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.terminal import Terminal

    if options.exe and not options.core:
        raise BadInput("--exe goes with --core: the interpreter that wrote the core files")
    report = _of_files(options) if options.core else _of_job(options)
    if options.json:
        print_json("stacks", report.as_json())
    else:
        report.print(Terminal(), full=options.full, with_locals=options.locals)
    if options.save:
        sys.stderr.write(f"saved; look again with: rankdbg stacks -t snapshot:{options.save}\n")
    return 0 if report.seen else 1


def _of_job(options: argparse.Namespace) -> StackReport:
    from rankdbg.frontends.reaching import open_session
    from rankdbg.frontends.reports.ranks import choose
    from rankdbg.frontends.reports.stacks import StackReport

    with open_session(options) as session:
        ranks, everybody = choose(session, options)
        seen, silent = _look(session, ranks, options)
        if options.save:
            session.save(options.save)
    return StackReport(seen, silent, everybody)


def _look(
    session: Session, ranks: Sequence[Rank], options: argparse.Namespace
) -> tuple[list[Sampled], list[Silence]]:
    engine = "cuda" if options.cuda else options.engine
    plain = engine in ("agent", "py-spy")
    threads = options.threads or ("main" if plain else "all")
    if options.cuda == "suspects":
        from rankdbg.frontends.suspects import look_closely_at_suspects

        return look_closely_at_suspects(session, ranks, engine, threads, options.locals)
    seen, silent = session.stacks(
        ranks,
        threads=threads,
        samples=options.samples or SAMPLES[engine],
        engine=engine,
        with_locals=options.locals,
    )
    if not seen and not plain:
        _say_if_not_permitted(silent)
    return seen, silent


def _say_if_not_permitted(silent: Sequence[Silence]) -> None:
    if silent and all(silence.reason.startswith(NO_PTRACE) for silence in silent):
        why, _, change = silent[0].reason.removeprefix(f"{NO_PTRACE}: ").partition("; ")
        raise CannotLook(
            f"cannot read process {silent[0].rank.pid}: {NO_PTRACE}",
            why,
            *([change] if change else []),
            hint="rankdbg stacks asks the agents, who need no permission",
        )


def _of_files(options: argparse.Namespace) -> StackReport:
    from rankdbg import selection
    from rankdbg.frontends.crash_files import read_crashes
    from rankdbg.frontends.reports.stacks import StackReport

    for given, name in ((options.target, "-t"), (options.job, "--job"), (options.save, "--save")):
        if given:
            raise BadInput(f"--core reads files and takes no {name}")
    seen, silent = read_crashes(options.core, options.exe, options.threads or "python")
    everybody = [sampled.rank for sampled in seen] + [silence.rank for silence in silent]
    chosen = {r.process for r in selection.pick(selection.parse(options.ranks), everybody)}
    return StackReport(
        [sampled for sampled in seen if sampled.rank.process in chosen],
        [silence for silence in silent if silence.rank.process in chosen],
        everybody,
    )
