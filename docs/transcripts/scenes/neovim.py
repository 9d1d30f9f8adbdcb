"""What Neovim's configuration needs."""

from __future__ import annotations

from transcripts.scenario import NotRun, Play, Scene


def configurations(play: Play) -> None:
    play.run('dap.adapters.rankdbg = { type = "server"')
    play.run('"--connect"', keep=lambda lines: lines[: lines.index("}") + 1])


SCENARIO = [
    Scene(
        configurations, ("rankdbg vscode --editor nvim", "rankdbg vscode --editor nvim --socket")
    ),
    NotRun("ports of a pod: nothing of it can be seen here", ("rankdbg forward",)),
]
