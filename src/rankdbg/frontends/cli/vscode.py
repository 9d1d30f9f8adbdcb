"""Write the VS Code configuration for attaching to all ranks, or print it for other editors.

  rankdbg vscode -t slurm:4711
  rankdbg vscode tp=0 --lockstep
  rankdbg vscode --editor nvim

Adds one configuration to .vscode/launch.json and one task to .vscode/tasks.json. The task
starts rankdbg dap with these options, so F5 is enough. Everything else in these files is
kept, including comments. The configuration contains your token for rankdbg dap: do not
commit it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from rankdbg.errors import BadInput
from rankdbg.files import foreign_files
from rankdbg.frontends.cli import dap
from rankdbg.frontends.dap import tokens

NAME = "rankdbg: all ranks"
TASK = "rankdbg dap"
EDITORS = ("vscode", "nvim", "zed", "emacs", "pycharm")
_PROBLEM = r"^(.+):(\d+): error: (.+)$"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    dap.add_server_arguments(parser)
    parser.add_argument(
        "--editor", choices=EDITORS, default="vscode", help="which editor (default: vscode)"
    )
    parser.add_argument(
        "--all-code",
        action="store_true",
        help="also step into libraries and stop in them: justMyCode false (VS Code)",
    )
    parser.add_argument(
        "--folder", default=".", metavar="DIR", help="the workspace (default: this folder)"
    )


def run(options: argparse.Namespace) -> int:
    from rankdbg import selection
    from rankdbg.session import path_maps

    selection.parse(options.ranks)
    maps = path_maps.parse(options.map)
    if options.port == 0:
        raise BadInput(
            "--port 0 does not work with an editor: it must know the port", hint="--port 5678"
        )
    if options.socket and options.editor not in _TEXTS_FOR_SOCKETS:
        able = " and ".join(_TEXTS_FOR_SOCKETS)
        raise BadInput(f"{options.editor} cannot use a socket", hint=f"--editor: {able} can")
    options.token = tokens.given(options.token)
    token = "" if options.socket else options.token or tokens.kept()
    if options.editor == "zed" and options.single is None:
        options.single = "0"  # Zed ends a session that is asked to open others
    if options.editor != "vscode":
        sys.stdout.write(_printed(options, token))
        return 0
    folder = Path(options.folder)
    if not os.path.isdir(folder):
        raise BadInput(f"no such folder: {options.folder}")
    settings = folder / ".vscode"
    try:
        settings.mkdir(exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot make the directory {settings}: {error.strerror}") from None
    launch = _configuration(options, token, maps.pairs, folder.resolve())
    _write(settings / "launch.json", "0.2.0", "configurations", "name", launch)
    tasks = settings / "tasks.json"
    environment = {**_environment(options), **_hand_over(options.token, tasks)}
    _write(tasks, "2.0.0", "tasks", "label", _task(options, environment))
    sys.stdout.write(f"wrote {settings}/launch.json and tasks.json: F5 on {NAME!r}\n")
    _warn_of_readers(settings / "launch.json")
    return 0


def _warn_of_readers(path: Path) -> None:
    """Warn if an existing file, which now contains the token, is readable for others."""
    if path.stat().st_mode & 0o077:
        sys.stdout.write(f"it contains your token, and other users can read it: chmod 600 {path}\n")


def _write(path: Path, version: str, array: str, name: str, entry: dict[str, Any]) -> None:
    from rankdbg.frontends import json_comments

    try:
        text = f'{{\n    "version": "{version}"\n}}\n'
        if path.exists():
            text = foreign_files.read_bytes(path, 16 << 20).decode()
        changed = json_comments.with_entry(text, array, name, entry)
        if changed != text or not path.exists():
            with open(path, "w", encoding="utf-8", opener=_private) as file:
                file.write(changed)
    except RecursionError:
        raise BadInput(f"{path} is not JSON with comments: it is nested too deeply") from None
    except json_comments.NotJson as error:
        hint = "fix or remove the file"
        raise BadInput(f"{path} is not JSON with comments: {error}", hint=hint) from None
    except (OSError, UnicodeError) as error:
        raise BadInput(f"cannot change {path}: {error}") from None


def _private(path: str, flags: int) -> int:
    """Readable for this user only, if it is new: it contains a token."""
    return os.open(path, flags, 0o600)


def _configuration(
    options: argparse.Namespace,
    token: str,
    pairs: tuple[tuple[str, str], ...],
    workspace: Path,
) -> dict[str, Any]:
    configuration: dict[str, Any] = {
        "name": NAME,
        "type": "debugpy",
        "request": "attach",
        "connect": {"host": "127.0.0.1", "port": options.port},
        "justMyCode": not options.all_code,
        "preLaunchTask": TASK,
        "rankdbg": {"token": token},
    }
    if pairs:
        configuration["pathMappings"] = [
            {"localRoot": _in_workspace(ours, workspace), "remoteRoot": theirs}
            for ours, theirs in pairs
        ]
    return configuration


def _in_workspace(folder: str, workspace: Path) -> str:
    try:
        inside = Path(folder).resolve().relative_to(workspace)
    except ValueError:
        return folder
    return "/".join(["${workspaceFolder}", *inside.parts])


def _hand_over(token: str, tasks: Path) -> dict[str, str]:
    """Pass a user's own token to the task: not on the command line, which all users can read. An
    earlier one is removed."""
    before = tasks.read_text("utf-8", errors="replace") if tasks.exists() else ""
    if token or tokens.VARIABLE in before:
        return {tokens.VARIABLE: token}
    return {}


def _task(options: argparse.Namespace, environment: dict[str, str]) -> dict[str, Any]:
    """VS Code continues when the server has printed where it listens."""
    return {
        "label": TASK,
        "type": "process",
        "command": sys.executable,
        "args": ["-m", "rankdbg", "dap", *_words(options)],
        **({"options": {"env": environment}} if environment else {}),
        "isBackground": True,
        "problemMatcher": [
            {
                # One that VS Code takes: it wants a file and a line of each problem.
                "pattern": [{"regexp": _PROBLEM, "file": 1, "line": 2, "message": 3}],
                "background": {
                    "activeOnStart": True,
                    "beginsPattern": "^rankdbg dap: starting",
                    "endsPattern": "^rankdbg dap: listening",
                },
            }
        ],
        "presentation": {"reveal": "silent", "panel": "dedicated"},
    }


def _environment(options: argparse.Namespace) -> dict[str, str]:
    """Environment variables that VS Code needs to find the same job."""
    target = "" if options.target else os.environ.get("RANKDBG_TARGET", "")
    known = {"RANKDBG_TARGET": target} if target else {}
    targets = [*(options.target or ()), *target.split()]
    if os.environ.get("KUBECONFIG") and any(each.startswith("k8s:") for each in targets):
        places = os.environ["KUBECONFIG"].split(":")
        known["KUBECONFIG"] = ":".join(os.path.abspath(place) for place in places if place)
    return known


def _words(options: argparse.Namespace) -> list[str]:
    """The options of rankdbg dap, as they were given here."""
    words = [options.ranks] if options.ranks != "all" else []
    words += ["--socket", options.socket] if options.socket else ["--port", str(options.port)]
    words += dap.reach(options)
    words += [word for pair in options.map for word in ("--map", pair)]
    for flag in ("lockstep", "stay", "no_tensor_summary"):
        if getattr(options, flag):
            words.append(f"--{flag.replace('_', '-')}")
    if options.single is not None:
        words += ["--single", options.single]
    if options.max_sessions != dap.MOST_SESSIONS:
        words += ["--max-sessions", str(options.max_sessions)]
    return words


def _printed(options: argparse.Namespace, token: str) -> str:
    import shlex

    command = shlex.join(["rankdbg", "dap", *_words(options)])
    if options.token:
        command = f"{tokens.VARIABLE}={shlex.quote(options.token)} {command}"
    meanings = {
        "PORT": str(options.port),
        "PATH": _quoted(options.socket or ""),
        "NAME": NAME,
        "TOKEN": _quoted(token),
        "LUA_VALUE": _in_lua(token) if options.token else _read_in_lua(),
    }
    text = (_TEXTS_FOR_SOCKETS if options.socket else _TEXTS)[options.editor]
    filled_in = re.sub("|".join(meanings), lambda found: meanings[found[0]], text)
    return f"start:  {command}\n\n{filled_in}"


def _quoted(text: str) -> str:
    """For JSON, Lua and Lisp alike."""
    return json.dumps(text, ensure_ascii=False)


def _in_lua(token: str) -> str:
    return f"{{ token = {_quoted(token)} }}"


def _read_in_lua() -> str:
    """From its file, at each attach: configurations of editors are often public."""
    file = _quoted(_below_home(tokens.path()))
    lines = ("function()", f"  local file = vim.fn.expand({file})")
    return "\n  ".join((*lines, "  return { token = vim.fn.readfile(file)[1] }", "end"))


def _below_home(path: str) -> str:
    home = os.path.expanduser("~").rstrip("/")
    return f"~{path.removeprefix(home)}" if home and path.startswith(f"{home}/") else path


_TEXTS = {
    "nvim": """\
in your configuration of nvim-dap:

local dap = require("dap")
dap.adapters.rankdbg = { type = "server", host = "127.0.0.1", port = PORT }
dap.configurations.python = dap.configurations.python or {}
table.insert(dap.configurations.python, {
  type = "rankdbg",
  request = "attach",
  name = "NAME",
  rankdbg = LUA_VALUE,
})
""",
    "zed": """\
in .zed/debug.json:

[
  {
    "label": "NAME",
    "adapter": "Debugpy",
    "request": "attach",
    "connect": { "host": "127.0.0.1", "port": PORT },
    "rankdbg": { "token": TOKEN }
  }
]
""",
    "emacs": """\
for dape:

(with-eval-after-load 'dape
  (add-to-list 'dape-configs
               '(rankdbg
                 modes (python-mode python-ts-mode)
                 host "127.0.0.1"
                 port PORT
                 :request "attach"
                 :type "python"
                 :name "NAME"
                 :rankdbg (:token TOKEN))))
""",
    "pycharm": """\
with the plugin LSP4IJ: Run > Edit Configurations > + > Debug Adapter Protocol

  Server:           create a new server, template Python- Debugpy
  Configuration:    Debug Mode Attach, Address 127.0.0.1, Port PORT
  DAP parameters:
    { "type": "debugpy", "request": "attach", "name": "NAME",
      "rankdbg": { "token": TOKEN } }

PyCharm's own Attach to DAP has no place for the token.
""",
}
_TEXTS_FOR_SOCKETS = {
    "nvim": """\
in your configuration of nvim-dap:

local dap = require("dap")
dap.adapters.rankdbg = {
  type = "executable",
  command = "rankdbg",
  args = { "dap", "--connect", PATH },
}
dap.configurations.python = dap.configurations.python or {}
table.insert(dap.configurations.python, {
  type = "rankdbg",
  request = "attach",
  name = "NAME",
})
""",
    "emacs": """\
for dape:

(with-eval-after-load 'dape
  (add-to-list 'dape-configs
               '(rankdbg
                 modes (python-mode python-ts-mode)
                 command "rankdbg"
                 command-args ("dap" "--connect" PATH)
                 :request "attach"
                 :type "python"
                 :name "NAME")))
""",
}
