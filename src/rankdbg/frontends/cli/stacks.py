"""All ranks' stacks merged into one tree, each branch with its ranks.

  rankdbg stacks                      the main thread of every rank
  rankdbg stacks tp=0 --threads all   all threads of these ranks
  rankdbg stacks 3 --children         with its data loader workers and all other
                                      processes below it
  rankdbg stacks --tasks              and the tasks of asyncio: what each awaits
  rankdbg stacks --outside            read with py-spy, without the agents
  rankdbg stacks --native             with C and C++ frames and native threads
  rankdbg stacks --cuda               kernels on the GPUs of suspect ranks
  rankdbg stacks --core core.4711     stacks of a crash, from a core file or
                                      the output of faulthandler
  rankdbg stacks dumps/ rank7.txt     stack dumps that py-spy, pystack, gdb,
                                      cuda-gdb or faulthandler have written
  py-spy dump -p 4711 | rankdbg stacks -
  rankdbg stacks --html FILE          a page to look at and to send
  rankdbg stacks --save DIR           save it; open it with -t snapshot:DIR

Several samples show which ranks move. A rank whose agent does not respond is read with
py-spy; a rank that cannot be read is listed with the reason. --native, --gdb and --cuda
stop a process for a moment; processes that are stopped, traced or in state D are skipped.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING

from rankdbg.errors import BadInput
from rankdbg.frontends.cli import add_common, add_save, positive, split_words
from rankdbg.frontends.cli.html_option import add_html, check_html, write_html
from rankdbg.frontends.reports.documents import print_json

if TYPE_CHECKING:
    from rankdbg.investigations.stacks.merged_stacks import MergedStacks


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser, ranks="files")
    parser.add_argument(
        "--threads",
        choices=("main", "all"),
        help="default: main; all with --native, --gdb and --cuda; all Python threads with --core",
    )
    parser.add_argument(
        "--samples",
        type=positive,
        metavar="N",
        help="number of samples (default: 3; --native: 2; --gdb, --cuda: 1)",
    )
    engine = parser.add_mutually_exclusive_group()
    _engine(engine, "--outside", "py-spy", "read with py-spy, without the agents")
    _engine(engine, "--native", "native", "include C and C++ frames, with pystack")
    _engine(engine, "--gdb", "gdb", "the same with gdb: slower, works where pystack does not")
    engine.add_argument(
        "--cuda",
        nargs="?",
        const="suspects",
        type=_which_gpus,
        metavar="all",
        help="kernels on the GPUs of suspects (or all ranks), with cuda-gdb",
    )
    engine.add_argument(
        "--probe",
        dest="engine",
        metavar="NAME",
        default="agent",
        help="read with a probe that a plug-in adds on the nodes",
    )
    engine.add_argument(
        "--core",
        nargs="+",
        metavar="FILE",
        help="core files or logs with faulthandler output, instead of a job",
    )
    parser.add_argument("--exe", metavar="PYTHON", help="the interpreter that wrote the core files")
    parser.add_argument(
        "--children",
        action="store_true",
        help="include the processes below the ranks: data loader workers, pools, commands",
    )
    parser.add_argument(
        "--tasks", action="store_true", help="include the tasks of asyncio, and what each awaits"
    )
    parser.add_argument("--locals", action="store_true", help="show local variables of user code")
    parser.add_argument("--full", action="store_true", help="show all library frames")
    add_html(parser)
    add_save(parser)


def _engine(group: argparse._MutuallyExclusiveGroup, option: str, engine: str, text: str) -> None:
    group.add_argument(
        option, dest="engine", action="store_const", const=engine, default="agent", help=text
    )


def _which_gpus(text: str) -> str:
    if text not in ("all", "suspects"):
        raise argparse.ArgumentTypeError(
            f"expected all or nothing, not {text!r}; ranks go first: rankdbg stacks {text} --cuda"
        )
    return text


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.reports.stacks import print_stacks
    from rankdbg.frontends.terminal import Terminal

    split_words(options)
    if options.exe and not options.core:
        raise BadInput("--exe needs --core: it names the interpreter that wrote the core files")
    if options.children and (options.core or options.cuda):
        raise BadInput(f"--children cannot be used with --{'core' if options.core else 'cuda'}")
    if options.files and (options.core or options.cuda or options.children):
        raise BadInput("stack dumps are shown as they are, without --core, --cuda and --children")
    if options.tasks and (options.files or options.core or options.cuda):
        raise BadInput("--tasks cannot be used with --core, --cuda or stack dumps")
    check_html(options)
    read = _of_dumps if options.files else _of_files if options.core else _of_job
    merged = read(options)
    if options.json:
        print_json("stacks", merged.as_json())
    else:
        print_stacks(Terminal(), merged, full=options.full, with_locals=options.locals)
    if options.html is not None:
        from rankdbg.frontends.html.job_document import document_of_stacks

        write_html(options, partial(document_of_stacks, merged), "stacks", *_origin(options))
    if options.save:
        sys.stderr.write(f"saved; open it with: rankdbg stacks -t snapshot:{options.save}\n")
    return 0 if merged.seen else 1


def _of_job(options: argparse.Namespace) -> MergedStacks:
    from rankdbg.frontends.reaching import open_session
    from rankdbg.frontends.reports.ranks import choose
    from rankdbg.investigations.stacks.reading_stacks import read_stacks

    with open_session(options) as session:
        ranks, all_ranks = choose(session, options)
        merged = read_stacks(
            session,
            ranks,
            all_ranks,
            engine="cuda" if options.cuda else options.engine,
            threads=options.threads,
            samples=options.samples,
            with_locals=options.locals,
            children=options.children,
            tasks=options.tasks,
            only_suspects=options.cuda == "suspects",
        )
        if options.save:
            session.save(options.save)
        options.origin = session.cluster.target, session.cluster.saved
    return merged


def _origin(options: argparse.Namespace) -> tuple[str, str]:
    """Where the stacks are from, and when they were saved."""
    files: list[str] = options.core or options.files
    found: tuple[str, str] = (", ".join(files), "") if files else options.origin
    return found


def _of_dumps(options: argparse.Namespace) -> MergedStacks:
    from rankdbg import selection
    from rankdbg.investigations.dumps.stack_dumps import read_stack_dumps

    job = read_stack_dumps(options.files, sys.stdin.buffer)
    chosen = selection.parse(options.ranks)
    return job.stacks(chosen, options.everything, options.threads or "main")


def _of_files(options: argparse.Namespace) -> MergedStacks:
    from rankdbg import selection
    from rankdbg.investigations.dumps.crash_files import read_crashes
    from rankdbg.investigations.stacks.merged_stacks import MergedStacks

    for given, name in ((options.target, "-t"), (options.job, "--job"), (options.save, "--save")):
        if given:
            raise BadInput(f"--core reads files and does not take {name}")
    seen, silent = read_crashes(options.core, options.exe, options.threads or "python")
    all_ranks = [sampled.rank for sampled in seen] + [silence.rank for silence in silent]
    chosen = {r.process for r in selection.pick(selection.parse(options.ranks), all_ranks)}
    return MergedStacks(
        [sampled for sampled in seen if sampled.rank.process in chosen],
        [silence for silence in silent if silence.rank.process in chosen],
        all_ranks,
    )
