"""rankdbg mcp --install: the entry is written, and what is there stays."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from rankdbg.errors import BadInput
from rankdbg.frontends.mcp.installing import CLIENTS, install

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

JSON_CLIENTS = [name for name, client in CLIENTS.items() if client.file.endswith(".json")]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RANKDBG_DIR", "RANKDBG_TARGET", "KUBECONFIG", "SLURM_CONF"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize("name", JSON_CLIENTS)
def test_other_servers_and_comments_stay(home: Path, name: str) -> None:
    """A second time nothing changes; other options replace those of the entry."""
    client = CLIENTS[name]
    file = home / client.file
    file.parent.mkdir(parents=True, exist_ok=True)
    before = f'{{\n    "theme": "dark", // mine\n    "{client.key}": {{"other": {{"command": "x"}}}}\n}}\n'
    file.write_text(before)
    file.chmod(0o640)
    assert "wrote" in install([name], ["mcp"])[0]
    text = file.read_text()
    assert '"theme": "dark", // mine' in text and '"other": {"command": "x"}' in text
    assert file.stat().st_mode & 0o777 == 0o640
    assert "already" in install([name], ["mcp"])[0] and file.read_text() == text
    install([name], ["mcp", "--allow=ask"])
    document = json.loads(file.read_text().replace(" // mine", ""))
    entry = document[client.key]["rankdbg"]
    words = (
        entry["command"]
        if isinstance(entry["command"], list)
        else [entry["command"], *entry["args"]]
    )
    assert words[0].endswith("rankdbg") and words[1:] == ["mcp", "--allow=ask"]
    assert document[client.key]["other"] == {"command": "x"}


def test_a_new_file_is_private(home: Path) -> None:
    """With its folder."""
    install(["cursor"], ["mcp"])
    file = home / ".cursor/mcp.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert [*json.loads(file.read_text())["mcpServers"]] == ["rankdbg"]
    assert [path.name for path in file.parent.iterdir()] == ["mcp.json"]


@pytest.mark.parametrize("name", ["cursor", "codex"])
def test_a_path_that_is_not_utf8_is_refused(
    home: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client would be told to start another file. What it had stays."""
    file = home / CLIENTS[name].file
    file.parent.mkdir()
    file.write_text("")
    monkeypatch.setenv("RANKDBG_DIR", "/srv/\udcff")
    with pytest.raises(BadInput, match="not UTF-8"):
        install([name], ["mcp"])
    assert file.read_text() == "" and [*file.parent.iterdir()] == [file]


def test_toml_of_codex(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A section is appended, and later replaced; its own keys and other sections stay."""
    monkeypatch.setenv("RANKDBG_DIR", "/srv/agents")
    file = home / ".codex/config.toml"
    file.parent.mkdir()
    file.write_text('model = "m"  # mine\n\n[mcp_servers.other]\ncommand = "x"\n')
    install(["codex"], ["mcp"])
    text = file.read_text()
    file.write_text(f"{text}startup_timeout_sec = 30\n\n[history]\nkeep = true\n")
    install(["codex"], ["mcp", "--job=demo"])
    document = tomllib.loads(file.read_text())
    entry = document["mcp_servers"]["rankdbg"]
    assert entry["args"] == ["mcp", "--job=demo"] and entry["startup_timeout_sec"] == 30
    assert entry["env"] == {"RANKDBG_DIR": "/srv/agents"}
    assert document["mcp_servers"]["other"] == {"command": "x"} and document["history"] == {
        "keep": True
    }
    assert "# mine" in file.read_text()
    assert "already" in install(["codex"], ["mcp", "--job=demo"])[0]


def test_toml_that_is_not_understood(home: Path) -> None:
    """An entry over several lines is left as it is."""
    file = home / ".codex/config.toml"
    file.parent.mkdir()
    file.write_text('[mcp_servers.rankdbg]\ncommand = "x"\nargs = [\n  "mcp",\n]\n')
    with pytest.raises(BadInput, match="would not be TOML"):
        install(["codex"], ["mcp"])
    assert file.read_text().startswith('[mcp_servers.rankdbg]\ncommand = "x"\n')


def test_clients_that_are_here(home: Path) -> None:
    """Without names those that are used; none is a sentence with what to write by hand."""
    with pytest.raises(BadInput, match="no MCP client was found") as nothing:
        install([], ["mcp"])
    assert '"mcpServers"' in str(nothing.value)
    (home / ".cursor").mkdir()
    (home / ".claude.json").write_text('{"projects": {}}')
    assert [line.split(":")[0] for line in install([], ["mcp"])] == ["claude-code", "cursor"]
    entry = json.loads((home / ".claude.json").read_text())
    assert entry["projects"] == {} and entry["mcpServers"]["rankdbg"]["type"] == "stdio"


def test_a_link_is_followed(home: Path) -> None:
    """Users keep such files elsewhere; the link stays one."""
    (home / "dotfiles").mkdir()
    (home / "dotfiles/mcp.json").write_text("{}")
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").symlink_to(home / "dotfiles/mcp.json")
    install(["cursor"], ["mcp"])
    assert (home / ".cursor/mcp.json").is_symlink()
    assert "rankdbg" in (home / "dotfiles/mcp.json").read_text()


@pytest.mark.parametrize(
    "text", ["{", '{"mcpServers": []}', "[1]", '{"mcpServers": {"rankdbg": 3}}', "[" * 9999]
)
def test_what_is_no_configuration_is_left_alone(home: Path, text: str) -> None:
    """One sentence, and the file as it was."""
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(BadInput, match="is not JSON"):
        install(["cursor"], ["mcp"])
    assert file.read_text() == text
    with pytest.raises(BadInput, match="unknown client 'emacs'"):
        install(["emacs"], ["mcp"])
