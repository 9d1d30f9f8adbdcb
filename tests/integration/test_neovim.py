"""Neovim with nvim-dap, as it comes: set up with what `rankdbg vscode --editor nvim` prints.

RANKDBG_TEST_NVIM_DAP is the folder of nvim-dap, RANKDBG_TEST_NVIM the editor itself if it is not
the one on PATH.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from editor import TORCH, DapServer, line_of, start_torch
from jobs import Job
from waiting import PATIENCE, wait_for

NVIM = os.environ.get("RANKDBG_TEST_NVIM") or shutil.which("nvim")
NVIM_DAP = os.environ.get("RANKDBG_TEST_NVIM_DAP")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (NVIM and NVIM_DAP), reason="no nvim, or no RANKDBG_TEST_NVIM_DAP with nvim-dap"
    ),
]

# What a user sees of each session, by its name.
SESSIONS = """
function Sessions()
  local seen = {}
  local function see(session)
    local frame = session.current_frame
    seen[session.config.name] = {
      is_open = session.initialized,
      line = session.stopped_thread_id and frame and frame.line,
    }
    for _, child in pairs(session.children) do see(child) end
  end
  for _, session in pairs(require("dap").sessions()) do see(session) end
  return next(seen) and seen or vim.empty_dict()
end

function Choose(begin)
  local function find(session)
    if vim.startswith(session.config.name, begin) then require("dap").set_session(session) end
    for _, child in pairs(session.children) do find(child) end
  end
  for _, session in pairs(require("dap").sessions()) do find(session) end
end
"""


class Neovim:
    def __init__(self, scratch: Path, printed: str, file: Path, line: int) -> None:
        _, _, configuration = printed.partition("nvim-dap:\n")
        (scratch / "rankdbg.lua").write_text(configuration)
        (scratch / "sessions.lua").write_text(SESSIONS)
        (scratch / "init.vim").write_text(
            f"set noswapfile shortmess+=A runtimepath^={NVIM_DAP}\n"
            f"filetype plugin on\nsource {scratch}/sessions.lua\nsource {scratch}/rankdbg.lua\n"
        )
        self._socket = scratch / "nvim.sock"
        words = ["--headless", "-u", scratch / "init.vim", "--listen", self._socket, f"+{line}"]
        environment = {**os.environ, "XDG_STATE_HOME": str(scratch), "XDG_CACHE_HOME": str(scratch)}
        self._log = (scratch / "nvim.log").open("w+")
        self.process = subprocess.Popen(
            [str(NVIM), *map(str, words), str(file)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        wait_for(self._socket.exists, "nvim listens")

    def evaluate(self, expression: str) -> Any:
        """In Vim's language."""
        command = [str(NVIM), "--server", str(self._socket), "--remote-expr"]
        answer = subprocess.run(
            [*command, f"json_encode({expression})"],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        said = answer.stdout or answer.stderr  # 0.7 answers on stderr
        assert answer.returncode == 0 and said, (said, self.said())
        return json.loads(said)

    def command(self, command: str) -> None:
        """One that is typed after the colon."""
        self.evaluate(f"execute({json.dumps(command)})")

    def sessions(self) -> dict[str, dict[str, Any]]:
        seen: dict[str, dict[str, Any]] = self.evaluate('luaeval("Sessions()")')
        return dict(sorted(seen.items()))

    def ranks(self) -> dict[str, dict[str, Any]]:
        return {name[:6]: seen for name, seen in self.sessions().items() if name[:5] == "rank "}

    def wait_for_lines(self, wanted: list[int]) -> None:
        wait_for(
            lambda: [seen.get("line") for seen in self.ranks().values()] == wanted,
            lambda: (wanted, self.sessions(), self.said()),
        )

    def choose(self, begin: str) -> None:
        """The session whose name begins so."""
        self.command(f"lua Choose({json.dumps(begin)})")

    def console(self, line: str) -> None:
        """Typed into nvim-dap's REPL."""
        keys = f"GA{line}\r\x1b"  # its last line is the prompt
        self.command("call win_gotoid(bufwinid('dap-repl'))")
        self.evaluate(f"feedkeys({json.dumps(keys)}, 'xt')")

    def console_text(self) -> str:
        return "\n".join(self.evaluate("getbufline(bufnr('dap-repl'), 1, '$')"))

    def said(self) -> str:
        self._log.seek(0)
        return self._log.read()

    def end(self) -> None:
        self.process.kill()
        self.process.wait(timeout=PATIENCE)
        self._log.close()


def test_one_attach_from_neovim(job: Job, tmp_path: Path) -> None:
    """With the printed configuration and nothing else: a session a rank, all stopped at one
    breakpoint, variables, a step, the parent's console; leaving lets the ranks go on."""
    gate = start_torch(job, 2)
    with DapServer(job) as server:
        printed = job.cli("vscode", "--editor", "nvim", "--port", server.port).stdout
        line = line_of(TORCH, "before it")
        nvim = Neovim(tmp_path, printed, TORCH, line)
        try:
            nvim.command("DapToggleBreakpoint")
            nvim.command("DapContinue")
            wait_for(
                lambda: (
                    [name for name, seen in nvim.ranks().items() if seen["is_open"]]
                    == ["rank 0", "rank 1"]
                ),
                nvim.sessions,
            )
            gate.touch()
            nvim.wait_for_lines([line, line])
            nvim.choose("rank 1")
            nvim.command("DapToggleRepl")
            nvim.console("total + RANK")
            total = "Tensor 3×4 float32 cpu min 2 mean 2 max 2"
            wait_for(lambda: total in nvim.console_text(), nvim.console_text)
            nvim.command("DapStepOver")
            nvim.wait_for_lines([line, line + 1])

            nvim.choose("rankdbg: all ranks")
            nvim.console("ask all RANK // 2")
            wait_for(lambda: "0-1  0" in nvim.console_text().splitlines(), nvim.console_text)
            nvim.console("where")
            wait_for(lambda: "train_step" in nvim.console_text(), nvim.console_text)
            nvim.console("continue")
            nvim.wait_for_lines([line, line])
            again = f" stopped at {TORCH.name}:{line} (breakpoint)"
            wait_for(lambda: nvim.console_text().count(again) > 1, nvim.console_text)
            lines = nvim.console_text().splitlines()
            assert all(text.startswith("rank") for text in lines if again in text), lines

            nvim.choose("rankdbg: all ranks")
            nvim.command("lua require('dap').disconnect()")
            wait_for(lambda: not nvim.sessions(), nvim.sessions)
            job.wait_for(lambda ranks: {rank.state for rank in ranks} == {"running"})
        finally:
            nvim.end()
