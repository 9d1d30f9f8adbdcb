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

from rankdbg import __version__
from rankdbg.errors import BadInput, RankdbgError

VERBS = {
    "run": "start a job with an agent in every Python process",
    "ps": "jobs and ranks: who is there, in what state, where",
    "select": "which ranks a selection picks",
    "stacks": "one merged tree of all ranks' stacks, the odd one out named",
    "why": "who holds the others up, where, why, and what to do",
    "watch": "stay beside a job; when it hangs, find out why and tell",
    "collectives": "who is missing from which collective, by torch's flight recorder",
    "ask": "evaluate an expression in ranks, without stopping them",
    "profile": "where the time goes: profiles of running ranks as one picture",
    "shell": "a prompt for all of this: list, cast, attach, ask, where, ...",
    "list": "which ranks stand in the debugger, where and why",
    "cast": "one debugger command to many ranks; what came back, grouped",
    "continue": "let stopped ranks go on",
    "pause": "stop running ranks where they are",
    "break": "stop, or log, at a line of a running job",
    "dap": "one attach for all ranks: VS Code, Neovim, any DAP client",
    "vscode": "what an editor needs for that: launch.json, tasks.json",
    "forward": "ports of a node's loopback, here, through the job's own launcher",
    "doctor": "what the logs say: what failed first, why, and what to do",
    "logs": "all ranks' logs merged by time, equal lines folded",
    "phases": "in which phase each rank is, as far as its log tells",
    "rules": "known failures, phases and causes of hangs; test a rule file",
    "check": "what works on every node of a target, and what to change",
    "collect": "bring profiles, dumps and logs home from the nodes' disks",
    "save": "keep everything that can be seen now, to look at later",
    "ray-fix": "let Ray's nsight plugin keep the workers' own interpreter",
    "demo": "a small real job that hangs, and what rankdbg says about it",
    "completion": "shell completion for bash, zsh and fish",
}

MODULES = {"continue": "continue_", "list": "list_", "break": "break_", "ray-fix": "ray_fix"}

EPILOG = """\
ranks are named the same way everywhere:
  all   3   0-6,9   1:10:2   tp=0   pp=2,dp=(1,3),tp=2:8   role=policy*
  host=node-3   state=stopped    (also written ranks(...), as in ranks(tp=0))

start with:  rankdbg demo
"""


class Verb(Protocol):
    __doc__: str | None

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, options: argparse.Namespace) -> int: ...


class Parser(argparse.ArgumentParser):
    """argparse, with errors in our form: what, why, the next command."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(message, hint=f"{self.prog} --help")


def main(words: Sequence[str]) -> int:
    try:
        status = dispatch(list(words))
        sys.stdout.flush()
        return status
    except RankdbgError as error:
        report(error)
        return error.exit_status
    except BrokenPipeError:
        # The reader (head, less) has seen enough. Python would complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if os.environ.get("RANKDBG_TRACEBACK"):
            raise
        report(_own_fault(error))
        return 70


def _own_fault(error: Exception) -> RankdbgError:
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = ""
    if place is not None:
        where = f" ({os.path.basename(place.tb_frame.f_code.co_filename)}:{place.tb_lineno})"
    return RankdbgError(
        f"rankdbg itself failed: {type(error).__name__}: {error}{where}",
        hint="RANKDBG_TRACEBACK=1 shows the whole traceback, for a report",
    )


def report(error: RankdbgError) -> None:
    from rankdbg.frontends.terminal import Terminal

    terminal = Terminal(sys.stderr)
    first, *rest = str(error).splitlines()
    terminal.print(f"{terminal.red('error:')} {first}")
    for line in rest:
        terminal.print(line)


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
    parser = verb_parser(verb)
    return load(verb).run(parser.parse_args(rest))


def load(verb: str) -> Verb:
    # `continue` cannot be the name of a module.
    module: Any = importlib.import_module(f"rankdbg.frontends.cli.{MODULES.get(verb, verb)}")
    loaded: Verb = module
    return loaded


def _paragraphs(text: str) -> str:
    """As wide as a terminal of 80 columns; examples, which are indented, are so already."""
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
        return BadInput(f"no verb {verb!r}", hint=f"did you mean: rankdbg {near[0]}")
    return BadInput(f"no verb {verb!r}", f"verbs: {', '.join(VERBS)}", hint="rankdbg --help")


# --- arguments that verbs share -----------------------------------------------------------


def add_common(parser: argparse.ArgumentParser, ranks: str | None = None) -> None:
    """-t, --job, --json, --timeout; and RANKS, `required` or `optional`."""
    if ranks:
        parser.add_argument(
            "ranks",
            metavar="RANKS",
            nargs="?" if ranks == "optional" else None,
            default="all",
            help="which ranks: 3, 0-6,9, tp=0, role=policy*, all"
            + (" (default: all)" if ranks == "optional" else ""),
        )
        parser.add_argument(
            "--all",
            action="store_true",
            dest="everything",
            help="processes that are not ranks too: launchers, helpers, children of ranks",
        )
    add_target(parser)
    parser.add_argument("--job", help="which job, where several run")
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    add_timeout(parser)


def add_save(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--save", metavar="DIR", help="keep what was seen as a snapshot")


def add_timeout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=5.0,
        metavar="SECONDS",
        help="how long to wait for an answer (default: 5)",
    )


def add_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-t",
        "--target",
        action="append",
        metavar="TARGET",
        help="where the job runs (default: this machine, or the allocation that this is in): "
        "local, ssh:HOST,HOST, slurm:JOB, k8s:NAMESPACE/POD, ray:auto, monarch, snapshot:DIR; "
        "may be given several times",
    )
    reach = parser.add_argument_group("to reach it")
    reach.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="LOCAL=REMOTE",
        help="a folder here and where the ranks have it",
    )
    reach.add_argument("--python", default="", help="the interpreter on the nodes")
    reach.add_argument("-c", "--container", default="", help="the container in a pod")
    reach.add_argument("--context", default="", help="kubectl's context")
    reach.add_argument("--kubectl", default="", metavar="COMMAND", help="kubectl or oc")
    reach.add_argument(
        "--srun",
        action="append",
        default=[],
        metavar="OPTION",
        help="one more option for srun, as in --srun=--container-name=train",
    )


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 86400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


def positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 1000")
    return int(text)


def print_json(kind: str, content: dict[str, Any]) -> None:
    sys.stdout.write(json_text(kind, content))


def json_text(kind: str, content: dict[str, Any]) -> str:
    import json

    # NaN is no JSON; as text it survives every reader.
    document = {"schema": f"rankdbg.{kind}/1", **content}
    return json.dumps(_finite(document), indent=1, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
