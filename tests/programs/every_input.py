"""Gives verbs every kind of bad input, each call in a child of its own, and prints for each verb what
went wrong: {VERB: {"calls": N, "wrong": [[words, status, what it said], ...]}, ...}.

    every_input.py SCRATCH VERB...
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import itertools
import json
import os
import pkgutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from rankdbg.frontends import cli

SECONDS = 60
# Options that all verbs share are given bad values with one of them.
SHARED_BY, SHARED = (
    "ps",
    {"map", "python", "container", "context", "kubectl", "srun", "target", "job"},
)


def write_snapshot(folder: Path) -> None:
    """Of two ranks: a target that answers at once, and on which nothing can be broken."""
    rank = {
        **{"start": 1, "ppid": 1, "job": "j", "kind": "rank", "labels": {}, "state": "running"},
        **{"detail": "", "where": ["step", "/a/train.py", 3], "step": 1, "age": 2.0},
        **{"agent": True, "python": "3.11.7", "command": ["python", "train.py"]},
    }
    ranks = [{**rank, "pid": 10 + number, "number": number} for number in range(2)]
    stack = [{"name": "MainThread", "main": True, "frames": [["step", "/a/train.py", 3]]}]
    processes = [
        {"process": [10 + n, 1], "samples": [0, 0], "source": "agent", "why": ""} for n in range(2)
    ]
    answers = {
        "roster": {"host": "n", "processes": ranks, "notes": [], "other_users": []},
        "stacks": {"distinct": [stack], "processes": processes, "silent": []},
    }
    (folder / "nodes" / "n").mkdir(parents=True)
    head = {"snapshot": 1, "version": "0", "saved": "", "target": "t", "nodes": {"n": "n"}}
    (folder / "snapshot.json").write_text(json.dumps(head))
    for kind, answer in answers.items():
        content = {"question": {"ask": kind, "threads": "all"}, "answer": answer}
        (folder / "nodes" / "n" / f"{kind}.json").write_text(json.dumps(content))


def bad_values(scratch: Path) -> list[str]:
    (scratch / "binary").write_bytes(bytes(range(256)) * 4)
    (scratch / "empty").touch()
    (scratch / "folder" / "inside").mkdir(parents=True)
    (scratch / "secret").write_text("x")
    (scratch / "secret").chmod(0)
    (scratch / "zero").symlink_to("/dev/zero")
    (scratch / "loop").symlink_to("loop")
    (scratch / "deep.json").write_text("[" * 100_000)
    files = ["binary", "empty", "folder", "secret", "zero", "loop", "deep.json", "nowhere"]
    words = [
        "",
        " ",
        "-1",
        "0",
        "nan",
        "inf",
        "1e999",
        "9" * 5000,
        "a" * 5000,
        "((((",
        "a{99999999999}",
    ]
    odd = [
        "\udcff\udcfe",
        "\x1b[2J",
        "a\nb",
        "../../..",
        "%s{0}{x}",
        "=",
        ",",
        ":",
        "--",
        "-",
        "snapshot:",
    ]
    return [*words, *odd, *(str(scratch / name) for name in files)]


def calls(verb: str, scratch: Path, tried: Counter[object]) -> Iterator[list[str]]:
    """Bad values for options and words, one at a time."""
    parser = cli.verb_parser(verb)
    positional = [a for a in parser._actions if not a.option_strings]
    usual = [word for action in positional for word in _usual(action, scratch)]
    actions = [action for action in parser._actions if takes_bad_values(verb, action)]
    for action, value in chosen(verb, actions, bad_values(scratch), tried):
        count = action.nargs if isinstance(action.nargs, int) else 1
        if action.option_strings:
            joined = [f"{action.option_strings[-1]}={value}"] if count == 1 else []
            yield [*usual, *(joined or [action.option_strings[-1], *[value] * count])]
        else:
            others = [
                [value] if other is action else _usual(other, scratch) for other in positional
            ]
            yield [word for words in others for word in words]


def takes_bad_values(verb: str, action: argparse.Action) -> bool:
    if isinstance(action, (argparse._HelpAction, argparse._StoreTrueAction)):
        return False
    return action.dest not in SHARED or verb == SHARED_BY


def chosen(
    verb: str, actions: list[argparse.Action], values: list[str], tried: Counter[object]
) -> Iterator[tuple[argparse.Action, str]]:
    """All of them take minutes. These are the pairs: each kind of option with each value, and each
    option of each verb at least once. (RANKDBG_TEST_INPUTS=many: each verb with
    each value, too; =all: all.)"""
    how_many = os.environ.get("RANKDBG_TEST_INPUTS", "many")
    if how_many == "all":
        yield from itertools.product(actions, values)
        return

    def one(action: argparse.Action, value: str, number: int) -> tuple[argparse.Action, str]:
        tried.update([(action.type, number), (action.dest, number), (verb, action.dest)])
        return action, value

    for number, value in enumerate(values if actions else ()):
        if how_many == "many":
            yield one(min(actions, key=rarest(verb, number, tried)), value, number)
        for action in actions:
            if not tried[action.type, number]:
                yield one(action, value, number)
    for number, action in enumerate(actions):
        if not tried[verb, action.dest]:
            yield one(action, values[number % len(values)], number % len(values))


def rarest(verb: str, number: int, tried: Counter[object]) -> Callable[[argparse.Action], object]:
    return lambda action: (
        tried[action.type, number] > 0, tried[verb, action.dest], tried[action.dest, number]
    )  # fmt: skip


def _usual(action: argparse.Action, scratch: Path) -> list[str]:
    if action.nargs in ("?", "*", argparse.REMAINDER):
        return []
    return {"ranks": ["all"], "destination": [str(scratch / "home")]}.get(action.dest, ["all"])


def run(words: list[str], output: int) -> int:
    """Its exit status; 124 if it was killed at the deadline."""
    child = os.fork()
    if not child:
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS)
        os.setsid()
        sys.argv = ["rankdbg", *words]
        try:
            status = cli.main(words)
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        except BaseException as error:
            os.write(2, f"Traceback: {error!r}".encode(errors="replace"))
            status = 99
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return 124 if status == -signal.SIGALRM else status


def judged(status: int, said: str) -> bool:
    """Whether a user can live with it: done, nothing to show, or a sentence."""
    if "internal error in rankdbg" in said or "Traceback" in said:
        return False
    if status == 2:
        return any(line.startswith("error: ") for line in said.splitlines())
    return status in (0, 1)


def load_all() -> None:
    """Once for all children: to import what a call needs takes longer than the call."""
    importlib.import_module("rankdbg.clusters.snapshot")
    for folder in ("session", "verdicts", "investigations", "frontends"):
        package = importlib.import_module(f"rankdbg.{folder}")
        for module in pkgutil.walk_packages(package.__path__, f"rankdbg.{folder}."):
            with contextlib.suppress(ImportError):  # of a package that is not installed
                importlib.import_module(module.name)


def try_all(verb: str, scratch: Path, tried: Counter[object]) -> dict[str, object]:
    (scratch / "cwd").mkdir(parents=True)
    os.chdir(scratch / "cwd")
    count, wrong = 0, []
    write_snapshot(scratch / "snapshot")
    takes_target = any("-t" in action.option_strings for action in cli.verb_parser(verb)._actions)
    cli.load(verb)
    for words in calls(verb, scratch, tried):
        if verb == "watch":  # without a command it watches until it is ended
            words = [*words, "--", "true"]
        elif takes_target and not any(word.startswith("--target=") for word in words):
            words = ["-t", f"snapshot:{scratch / 'snapshot'}", *words]
        with tempfile.TemporaryFile() as output:
            status = run([verb, *words], output.fileno())
            output.seek(0)
            said = output.read(1 << 20).decode(errors="replace")
        count += 1
        if not judged(status, said):
            shown = [word if len(word) < 60 else word[:60] + "…" for word in words]
            wrong.append([shown, status, said[-500:]])
    return {"calls": count, "wrong": wrong}


def main() -> None:
    scratch, *verbs = sys.argv[1:]
    load_all()
    gc.freeze()  # what is loaded is not looked through, and so not copied, in each child
    tried: Counter[object] = Counter()
    print(json.dumps({verb: try_all(verb, Path(scratch) / verb, tried) for verb in verbs}))


main()
