"""The command line: a file a verb.

A verb's module has `add_arguments(parser)` and `run(options) -> exit status`; its
docstring is its help. Only the verb that was called is imported: `rankdbg --help`
and completion stay fast.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

from rankdbg._version import __version__
from rankdbg.errors import BadInput, RankdbgError
from rankdbg.frontends import interrupts
from rankdbg.frontends.standard_streams import guarded

VERBS = {
    "run": "start a job with an agent in every Python process",
    "ps": "jobs and their ranks: state, current function, since when",
    "select": "show which ranks a selection picks",
    "stacks": "all ranks' stacks merged into one tree, outliers marked",
    "why": "which rank holds the others up, where, why, and what to do",
    "top": "full-screen view: jobs, their ranks, verdicts, steps, GPUs",
    "watch": "monitor a job; when it hangs, find the cause and report it",
    "collectives": "ranks missing from a collective, from torch's flight recorder",
    "history": "where ranks parted: the last common event, the first difference",
    "diverge": "replicas that are not equal: which tensor, and in which rank",
    "nan": "nan and inf: which rank, module and tensor had the first one",
    "ask": "evaluate an expression in ranks, without stopping them",
    "profile": "profile running ranks and compare them in one picture",
    "shell": "interactive prompt: list, cast, attach, ask, where, ...",
    "list": "which ranks are stopped in the debugger, where and why",
    "cast": "send a debugger command to many ranks; equal outputs grouped",
    "continue": "let stopped ranks continue",
    "pause": "stop running ranks where they are",
    "break": "stop or log at a line of a running job",
    "dap": "one DAP server for all ranks: VS Code, Neovim, any DAP client",
    "vscode": "configure an editor for rankdbg dap: launch.json, tasks.json",
    "web": "a live page of the job, in the browser on this machine",
    "mcp": "MCP server: AI agents ask running jobs, read-only by default",
    "forward": "forward local ports to a node, through the job's launcher",
    "doctor": "find in the logs what failed first, why, and what to do",
    "logs": "all ranks' logs merged by time, equal lines folded",
    "phases": "the phase of each rank, read from its log",
    "rules": "list known failures, phases and hang causes; test a rule file",
    "check": "check what works on each node of a target, and what to change",
    "collect": "copy profiles, dumps and logs from the nodes' disks",
    "save": "save the current state as a snapshot, to look at later",
    "ray-fix": "make Ray's nsight plugin keep the workers' interpreter",
    "demo": "a small real job that hangs, and what rankdbg says about it",
    "completion": "shell completion for bash, zsh and fish",
}

MODULES = {"continue": "continue_", "list": "list_", "break": "break_", "ray-fix": "ray_fix"}

EPILOG = """\
ranks are selected the same way everywhere:
  all   3   0-6,9   1:10:2   tp=0   pp=2,dp=(1,3),tp=2:8   role=policy*
  host=node-3   state=stopped    (also written ranks(...), as in ranks(tp=0))

start with:  rankdbg demo
"""


class Verb(Protocol):
    __doc__: str | None

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, options: argparse.Namespace) -> int: ...


class Parser(argparse.ArgumentParser):
    """argparse, with errors in the form of rankdbg: what, why, the next command."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.color = False  # Python 3.14 and later colour the help

    def error(self, message: str) -> NoReturn:
        raise BadInput(message, hint=f"{self.prog} --help")

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Python before 3.13 parses `--job=--` as an empty list."""
        if action.nargs is None and action.option_strings and arg_strings == ["--"]:
            raise argparse.ArgumentError(action, "expected one argument, not '--'")
        return super()._get_values(action, arg_strings)


def main(words: Sequence[str]) -> int:
    """Returns the exit status. KeyboardInterrupt is left to the caller."""
    with guarded():
        return _guarded_main(words)


def _guarded_main(words: Sequence[str]) -> int:
    try:
        try:
            status = dispatch(list(words))
        except SystemExit:  # argparse, after --help
            status = 0
        sys.stdout.flush()
        return status
    except RankdbgError as error:
        _report(error)
        return error.exit_status
    except BrokenPipeError:  # the reader (head, less) has seen enough
        return 141
    except Exception as error:
        if os.environ.get("RANKDBG_TRACEBACK"):
            import traceback

            sys.stderr.write(traceback.format_exc())
        _report(_internal_error(error))
        return 70


def _internal_error(error: Exception) -> RankdbgError:
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = ""
    if place is not None:
        where = f" ({os.path.basename(place.tb_frame.f_code.co_filename)}:{place.tb_lineno})"
    return RankdbgError(
        f"internal error in rankdbg: {type(error).__name__}: {error}{where}",
        hint="set RANKDBG_TRACEBACK=1 to see the traceback for a bug report",
    )


def _report(error: RankdbgError) -> None:
    from rankdbg.frontends.terminal import print_error

    print_error(error)


def dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        return _help(words)
    if words[0] in ("-V", "--version"):
        sys.stdout.write(f"rankdbg {__version__}\n")
        return 0
    verb, *rest = words
    if verb == "_complete":
        return load("completion").complete(rest)  # type: ignore[attr-defined,no-any-return]
    if verb not in VERBS:
        raise _unknown(verb)
    options = verb_parser(verb).parse_args(rest)
    interrupts.raise_in_verbs()
    return load(verb).run(options)


def load(verb: str) -> Verb:
    # `continue` cannot be the name of a module.
    module: Any = importlib.import_module(f"rankdbg.frontends.cli.{MODULES.get(verb, verb)}")
    loaded: Verb = module
    return loaded


def _paragraphs(text: str) -> str:
    """Text wrapped at 80 columns; indented paragraphs (examples) are kept as they are."""
    import textwrap

    parts = text.strip("\n").split("\n\n")
    return "\n\n".join(p if p.startswith(" ") else textwrap.fill(p, 80) for p in parts)


def verb_parser(verb: str) -> argparse.ArgumentParser:
    module = load(verb)
    parser = Parser(
        prog=f"rankdbg {verb}",
        description=_paragraphs(module.__doc__ or ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    return parser


def _help(words: list[str]) -> int:
    if words[1:] and words[1] in VERBS:
        verb_parser(words[1]).print_help()
        return 0
    width = max(map(len, VERBS))
    lines = ["rankdbg: one debugger for every rank of a distributed Python job", ""]
    lines += ["usage: rankdbg VERB [options]       rankdbg VERB --help", ""]
    lines += [f"  {verb:{width}}  {line}" for verb, line in VERBS.items()]
    lines += ["", EPILOG]
    sys.stdout.write("\n".join(lines))
    return 0


def _unknown(verb: str) -> BadInput:
    import difflib

    near = difflib.get_close_matches(verb, VERBS, n=1)
    if near:
        return BadInput(f"unknown verb {verb!r}", hint=f"did you mean: rankdbg {near[0]}")
    return BadInput(f"unknown verb {verb!r}", f"verbs: {', '.join(VERBS)}", hint="rankdbg --help")


# --- arguments that verbs share -----------------------------------------------------------


def add_common(parser: argparse.ArgumentParser, ranks: str | None = None) -> None:
    """-t, --job, --json, --timeout; and RANKS, `required` or `optional`, or `files` too."""
    if ranks == "files":
        add_ranks_or_files(parser)
    elif ranks:
        parser.add_argument(
            "ranks",
            metavar="RANKS",
            nargs="?" if ranks == "optional" else None,
            default="all",
            help="which ranks: 3, 0-6,9, tp=0, role=policy*, all"
            + (" (default: all)" if ranks == "optional" else ""),
        )
    if ranks:
        parser.add_argument(
            "--all",
            action="store_true",
            dest="everything",
            help="include processes that are not ranks: launchers, helpers, children of ranks",
        )
    add_target(parser)
    parser.add_argument("--job", help="which job, if several are running")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_timeout(parser)


def add_ranks_or_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        metavar="RANKS|FILE",
        nargs="*",
        help="which ranks: 3, 0-6,9, tp=0, role=policy*, all (default: all); or files and "
        "folders with stack dumps, - for standard input",
    )


def split_words(options: argparse.Namespace) -> None:
    """Sets `ranks` and `files`. What is there is a file, unless it can be the name of a role."""
    words = options.words
    options.files = [word for word in words if _is_file(word, len(words) > 1)]
    others = [word for word in words if word not in options.files]
    if len(others) > 1:
        raise BadInput(
            f"no file {others[0]!r}" if options.files else f"unexpected argument {others[1]!r}",
            hint="give one selection of ranks, in quotes if it has spaces",
        )
    options.ranks = others[0] if others else "all"
    if not options.files:
        return
    for given, name in ((options.target, "-t"), (options.job, "--job"), (options.save, "--save")):
        if given:
            raise BadInput(f"stack dumps are read from files, without {name}")


def _is_file(word: str, is_one_of_many: bool) -> bool:
    if word == "-":
        return True
    if not os.path.exists(word):
        if word.startswith(("/", "./", "../", "~")) or word.endswith(_ENDINGS):
            raise BadInput(f"no file or folder {word}")
        return False
    return is_one_of_many or "/" in word or "." in word


_ENDINGS = (".txt", ".log", ".json", ".out", ".err", ".gz", ".zst", ".dump")


def add_save(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--save", metavar="DIR", help="save the result as a snapshot")


def add_timeout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--timeout",
        type=seconds,
        metavar="SECONDS",
        help="how long to wait for a response (default: 5)",
    )
    parser.add_argument(
        "--patience",
        type=patience,
        default=0.0,
        metavar="N",
        help="for slow nodes, networks and disks: wait N times as long for responses that are "
        "usually immediate (default: RANKDBG_PATIENCE, or 1)",
    )


def add_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-t",
        "--target",
        action="append",
        metavar="TARGET",
        help="where the job runs (default: this machine, or the current allocation): "
        "local, ssh:HOST,HOST, slurm:JOB, k8s:NAMESPACE/POD, ray:auto, monarch, snapshot:DIR; "
        "may be repeated",
    )
    reach = parser.add_argument_group("options for targets")
    reach.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="LOCAL=REMOTE",
        help="a local folder and its path on the nodes",
    )
    reach.add_argument("--python", default="", help="the Python interpreter on the nodes")
    reach.add_argument("-c", "--container", default="", help="the container of the pod")
    reach.add_argument("--context", default="", help="the kubectl context")
    reach.add_argument(
        "--kubectl", default="", metavar="COMMAND", help="the command to use: kubectl or oc"
    )
    reach.add_argument(
        "--srun",
        action="append",
        default=[],
        metavar="OPTION",
        help="extra option for srun: --srun=--container-name=train",
    )


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 86400:
        raise argparse.ArgumentTypeError(
            f"invalid time {text!r}: expected a number of seconds above 0"
        )
    return value


def patience(text: str) -> float:
    from rankdbg.session.patience import parse_patience

    try:
        return parse_patience(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"invalid patience {text!r}: {error}") from None


def positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= 1000:
        raise argparse.ArgumentTypeError(
            f"invalid number {text!r}: expected a whole number from 1 to 1000"
        )
    return int(text)
