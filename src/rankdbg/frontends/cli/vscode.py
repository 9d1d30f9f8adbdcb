"""What an editor needs to attach to all ranks: for VS Code it is written, for others printed.

  rankdbg vscode -t slurm:4711
  rankdbg vscode tp=0 --lockstep
  rankdbg vscode --editor nvim

.vscode/launch.json gets one configuration and .vscode/tasks.json one task that starts
rankdbg dap with these options, so that F5 does all of it. What else stands in these files,
comments too, stays as it is.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from rankdbg.errors import BadInput
from rankdbg.frontends.cli import dap

NAME = "rankdbg: all ranks"
TASK = "rankdbg dap"
EDITORS = ("vscode", "nvim", "zed", "emacs", "pycharm")
_PROBLEM = r"^(.+):(\d+): error: (.+)$"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    dap.add_arguments(parser)
    parser.add_argument(
        "--editor", choices=EDITORS, default="vscode", help="which one (default: vscode)"
    )
    parser.add_argument(
        "--folder", default=".", metavar="DIR", help="the workspace (default: this folder)"
    )


def run(options: argparse.Namespace) -> int:
    from rankdbg import path_maps, selection

    selection.parse(options.ranks)
    maps = path_maps.parse(options.map)
    if options.port == 0:
        raise BadInput("an editor must know the port: --port 0 takes any", hint="--port 5678")
    if options.editor != "vscode":
        sys.stdout.write(_printed(options))
        return 0
    folder = Path(options.folder)
    if not folder.is_dir():
        raise BadInput(f"there is no folder {options.folder}")
    settings = folder / ".vscode"
    settings.mkdir(exist_ok=True)
    launch = _configuration(options, maps.pairs, folder.resolve())
    _write(settings / "launch.json", "0.2.0", "configurations", "name", launch)
    _write(settings / "tasks.json", "2.0.0", "tasks", "label", _task(options))
    sys.stdout.write(f"wrote {settings}/launch.json and tasks.json: F5 on {NAME!r}\n")
    return 0


def _write(path: Path, version: str, array: str, name: str, entry: dict[str, Any]) -> None:
    from rankdbg.frontends import json_comments

    try:
        text = path.read_text() if path.exists() else f'{{\n    "version": "{version}"\n}}\n'
        changed = json_comments.with_entry(text, array, name, entry)
        if changed != text or not path.exists():
            path.write_text(changed)
    except json_comments.NotJson as error:
        hint = "put that right, or move the file away"
        raise BadInput(f"{path} is not JSON with comments: {error}", hint=hint) from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot change {path}: {error}") from None


def _configuration(
    options: argparse.Namespace, pairs: tuple[tuple[str, str], ...], workspace: Path
) -> dict[str, Any]:
    configuration: dict[str, Any] = {
        "name": NAME,
        "type": "debugpy",
        "request": "attach",
        "connect": {"host": "127.0.0.1", "port": options.port},
        "justMyCode": True,
        "preLaunchTask": TASK,
    }
    if options.token:
        configuration["rankdbg"] = {"token": options.token}
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


def _task(options: argparse.Namespace) -> dict[str, Any]:
    """VS Code goes on when the line has come that says where it listens."""
    return {
        "label": TASK,
        "type": "process",
        "command": sys.executable,
        "args": ["-m", "rankdbg", "dap", *_words(options)],
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


def _words(options: argparse.Namespace) -> list[str]:
    """The options of rankdbg dap, as they were given here."""
    words = [options.ranks] if options.ranks != "all" else []
    words += ["--port", str(options.port), *dap.reach(options)]
    words += [word for pair in options.map for word in ("--map", pair)]
    for flag in ("lockstep", "stay", "no_tensor_summary"):
        if getattr(options, flag):
            words.append(f"--{flag.replace('_', '-')}")
    if options.max_sessions != dap.MOST_SESSIONS:
        words += ["--max-sessions", str(options.max_sessions)]
    return [*words, "--token", options.token] if options.token else words


def _printed(options: argparse.Namespace) -> str:
    import shlex

    text = _TEXTS[options.editor].replace("PORT", str(options.port)).replace("NAME", NAME)
    command = shlex.join(["rankdbg", "dap", *_words(options)])
    return f"start:  {command}\n\n{text}"


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
})
""",
    "zed": """\
in .zed/debug.json:

[
  {
    "label": "NAME",
    "adapter": "Debugpy",
    "request": "attach",
    "connect": { "host": "127.0.0.1", "port": PORT }
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
                 :name "NAME")))
""",
    "pycharm": """\
PyCharm 2025.3 and later: Run > Edit Configurations > + > Attach to DAP

  Remote address:   127.0.0.1, port PORT

before that, with the plugin LSP4IJ: ... > + > Debug Adapter Protocol

  Server:           create a new server, template Python- Debugpy
  Configuration:    Debug Mode Attach, Address 127.0.0.1, Port PORT
  DAP parameters:
    { "type": "debugpy", "request": "attach", "name": "NAME" }
""",
}
