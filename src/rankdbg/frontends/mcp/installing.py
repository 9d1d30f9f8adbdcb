"""The entry for this server in the configuration of MCP clients. What is there stays."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from rankdbg.errors import BadInput
from rankdbg.files import foreign_files, whole_files
from rankdbg.frontends import json_comments
from rankdbg.text.escapes import visible_line

NAME = "rankdbg"
LARGEST = 64 << 20  # Claude Code keeps its own state in the same file
# Where the agents are, if not in their usual place; what else a shell has, clients pass on or not.
_PASSED_ON = ("RANKDBG_DIR", "RANKDBG_TARGET", "KUBECONFIG", "SLURM_CONF")
_SECTION = re.compile(r"^[ \t]*\[ *mcp_servers *\. *[\"']?rankdbg[\"']? *\]", re.MULTILINE)


@dataclass(frozen=True)
class Client:
    """`file`: below the home directory; `sign`: what is there if the client is used; `key`: the
    object that has an entry for each server."""

    name: str
    file: str
    sign: str
    key: str = "mcpServers"
    entry: Callable[[list[str], dict[str, str]], dict[str, Any]] | None = None


def _plain(command: list[str], environment: dict[str, str]) -> dict[str, Any]:
    entry: dict[str, Any] = {"command": command[0], "args": command[1:]}
    return {**entry, "env": environment} if environment else entry


def _with_type(command: list[str], environment: dict[str, str]) -> dict[str, Any]:
    return {"type": "stdio", **_plain(command, environment)}


def _opencode(command: list[str], environment: dict[str, str]) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "local", "command": command, "enabled": True}
    return {**entry, "environment": environment} if environment else entry


CLIENTS = {
    client.name: client
    for client in (
        Client("claude-desktop", ".config/Claude/claude_desktop_config.json", ".config/Claude"),
        Client("claude-code", ".claude.json", ".claude.json", entry=_with_type),
        Client("cursor", ".cursor/mcp.json", ".cursor"),
        Client("vscode", ".config/Code/User/mcp.json", ".config/Code/User", "servers", _with_type),
        Client("codex", ".codex/config.toml", ".codex"),
        Client("gemini", ".gemini/settings.json", ".gemini"),
        Client("windsurf", ".codeium/windsurf/mcp_config.json", ".codeium/windsurf"),
        Client("zed", ".config/zed/settings.json", ".config/zed", "context_servers"),
        Client("opencode", ".config/opencode/opencode.json", ".config/opencode", "mcp", _opencode),
    )
}


def install(names: Sequence[str], words: Sequence[str]) -> list[str]:
    """Writes the entries; returns a line for each. `names`: none: of clients that are used here."""
    home = Path.home()
    unknown = [name for name in names if name not in CLIENTS]
    if unknown:
        known = ", ".join(CLIENTS)
        raise BadInput(f"unknown client {unknown[0]!r}", hint=f"there are: {known}")
    chosen = [CLIENTS[name] for name in names]
    if not names:
        chosen = [each for each in CLIENTS.values() if (home / each.sign).exists()]
    command = [_own_command(), *words]
    for text in (*command, *_environment().values()):
        _check_encoding(text)
    if not chosen:
        shown = json.dumps({"mcpServers": {NAME: _plain(command, _environment())}})
        raise BadInput(
            "no MCP client was found here",
            f"name one: {', '.join(CLIENTS)}",
            f"or write into the configuration of yours: {shown}",
        )
    return [_install(client, home / client.file, command) for client in chosen]


def _own_command() -> str:
    """With its path: clients do not have the PATH of a shell."""
    own = Path(sys.argv[0])
    if own.name == "rankdbg" and os.access(own, os.X_OK):
        return os.path.abspath(own)
    beside = Path(sys.executable).with_name("rankdbg")
    return str(beside) if beside.exists() else shutil.which("rankdbg") or "rankdbg"


def _check_encoding(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        shown = visible_line(text)
        raise BadInput(
            f"cannot write {shown} into a configuration: its name is not UTF-8",
            hint="use a path with a name in UTF-8, a symbolic link for instance",
        ) from None


def _environment() -> dict[str, str]:
    return {name: os.environ[name] for name in _PASSED_ON if os.environ.get(name)}


def _install(client: Client, path: Path, command: list[str]) -> str:
    try:
        path = path.resolve()  # of a link, the file that it leads to is changed
        text = foreign_files.read_bytes(path, LARGEST).decode() if path.exists() else ""
        if path.suffix == ".toml":
            changed = _checked_toml(path, _with_section(text, command))
        else:
            entry = (client.entry or _plain)(command, _environment())
            changed = json_comments.with_member(text, client.key, NAME, entry)
        if changed == text:
            return f"{client.name}: {path} has the entry already"
        _replace(path, changed)
    except RecursionError:
        raise BadInput(f"{path} is not JSON: it is nested too deeply") from None
    except json_comments.NotJson as error:
        raise BadInput(f"{path} is not JSON: {error}", hint="fix or remove the file") from None
    except (OSError, UnicodeError) as error:
        raise BadInput(f"cannot change {path}: {error}") from None
    return f"{client.name}: wrote {path}; restart the client"


def _with_section(text: str, command: list[str]) -> str:
    """TOML: a section of that name is replaced, another is appended."""
    lines = [
        f"[mcp_servers.{NAME}]",
        f"command = {json.dumps(command[0])}",
        f"args = {json.dumps(command[1:])}",
    ]
    if environment := _environment():
        pairs = ", ".join(f"{name} = {json.dumps(value)}" for name, value in environment.items())
        lines.append(f"env = {{ {pairs} }}")
    section = "\n".join(lines) + "\n"
    found = _SECTION.search(text)
    if found is None:
        gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        return text + gap + section
    following = re.search(r"^[ \t]*\[", text[found.end() :], re.MULTILINE)
    end = found.end() + following.start() if following else len(text)
    own = text[found.start() : end]
    kept = [
        line for line in own.splitlines()[1:] if not re.match(r"\s*(command|args|env)\s*=", line)
    ]
    rest = "".join(f"{line}\n" for line in kept if line.strip())
    return (
        text[: found.start()]
        + section
        + rest
        + ("\n" if following else "")
        + text[end:].lstrip("\n")
    )


def _checked_toml(path: Path, text: str) -> str:
    """A section of a form that is not understood here is not changed."""
    toml: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        toml.loads(text)
    except toml.TOMLDecodeError as error:
        hint = f"fix or remove the section mcp_servers.{NAME}"
        raise BadInput(f"{path} would not be TOML: {error}", hint=hint) from None
    return text


def _replace(path: Path, text: str) -> None:
    """At once: a client that reads it meanwhile finds the one or the other. A new file is for its
    owner alone; another keeps its mode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    with whole_files.open_whole(path, mode) as file:
        file.write(text)
