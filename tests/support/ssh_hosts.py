"""Two hosts on this machine: real sshds, each in a PID namespace of its own.

What runs on one is not to be seen on the other, as on two machines. `path` is to stand first
on PATH: its ssh has a configuration with the hosts' names.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs import free_port
from waiting import PATIENCE, processes_beside, wait_for

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"


class Hosts:
    def __init__(self, scratch: Path, *names: str) -> None:
        if not os.path.exists(SSHD) or os.geteuid() != 0:
            pytest.skip("needs sshd, and root for namespaces")
        self.scratch = scratch
        self.path = scratch / "bin"
        self.names = names
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._ports = {name: free_port() for name in names}
        scratch.mkdir(parents=True, exist_ok=True)
        for key in ("host_key", "user_key"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(scratch / key)]
            subprocess.run(words, check=True)
        os.makedirs("/run/sshd", exist_ok=True)
        self._write_client()

    def __enter__(self) -> Hosts:
        with contextlib.ExitStack() as undo:
            undo.callback(self.end)
            for name in self.names:
                self.start(name)
            undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def target(self) -> str:
        return f"ssh:{','.join(self.names)}"

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PATH": f"{self.path}:{os.environ['PATH']}"}

    def temporary(self, name: str) -> Path:
        """Where processes on the host put what they need for a while."""
        return self.scratch / name / "tmp"

    def start(self, name: str) -> None:
        self.temporary(name).mkdir(parents=True, exist_ok=True)
        settings = self.scratch / f"{name}.conf"
        settings.write_text(
            f"Port {self._ports[name]}\nListenAddress 127.0.0.1\nPidFile none\n"
            f"HostKey {self.scratch}/host_key\nAuthorizedKeysFile {self.scratch}/user_key.pub\n"
            "StrictModes no\nUsePAM no\nPermitRootLogin yes\nMaxStartups 100\n"
            f"SetEnv TMPDIR={self.temporary(name)} RANKDBG_DIR={self.scratch}/{name}/agents\n"
        )
        words = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
        words += [SSHD, "-D", "-e", "-f", str(settings)]
        with (self.scratch / f"{name}.log").open("wb") as log:
            self._daemons[name] = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        wait_for(lambda: self.run(name, "true").returncode == 0)

    def run(self, name: str, line: str) -> subprocess.CompletedProcess[str]:
        words = [str(self.path / "ssh"), "-n", name, line]
        return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)

    def start_rank(self, name: str, job: str, rank: int, world: int, *command: object) -> None:
        labels = f"RANKDBG=1 RANKDBG_JOB={job} RANK={rank} WORLD_SIZE={world}"
        words = " ".join(map(str, (sys.executable, *command)))
        line = f"export {labels}; setsid {words} </dev/null >/dev/null 2>&1 &"
        result = self.run(name, line)
        assert result.returncode == 0, result.stderr

    def processes(self, name: str, word: str) -> list[int]:
        """The processes on a host with that word in their command line."""
        return processes_beside(self._first_process(name), word)

    def _first_process(self, name: str) -> int:
        daemon = self._daemons[name]
        children = Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read_text().split()
        (first,) = children
        return int(first)

    @contextlib.contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """Its sshd takes connections and says nothing; what runs on the host runs on."""
        first = self._first_process(name)
        os.kill(first, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(first, signal.SIGCONT)

    def stop(self, name: str) -> None:
        """The host goes down: everything on it is gone."""
        running = self.processes(name, "")
        daemon = self._daemons.pop(name)
        os.kill(daemon.pid, signal.SIGKILL)
        daemon.wait(PATIENCE)
        wait_for(lambda: not any(map(_is_there, running)), "its processes are gone")

    def end(self) -> None:
        for name in list(self._daemons):
            self.stop(name)

    def _write_client(self) -> None:
        lines = []
        for name, port in self._ports.items():
            lines += [f"Host {name}", "  HostName 127.0.0.1", f"  Port {port}", "  User root"]
        lines += ["Host *", f"  IdentityFile {self.scratch}/user_key", "  LogLevel ERROR"]
        lines += ["  StrictHostKeyChecking no", "  UserKnownHostsFile /dev/null"]
        (self.scratch / "ssh_config").write_text("\n".join(lines) + "\n")
        self.path.mkdir()
        real = shutil.which("ssh")
        (self.path / "ssh").write_text(
            f'#!/bin/sh\nexec {real} -F {self.scratch}/ssh_config "$@"\n'
        )
        (self.path / "ssh").chmod(0o755)


def _is_there(pid: int) -> bool:
    """Not so a zombie, which only waits to be counted."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False
