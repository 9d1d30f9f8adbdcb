"""The machine of the pages: called node-1, with the checkout in /srv/rankdbg and a user in /home/me.

Each scene has namespaces of its own, so names, paths and processes of the machine at hand stay out
of the page, and everything that a scene has started ends with it. Needs Linux and root.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from waiting import wait_for

ROOT = Path(__file__).parents[2]
HOST = "node-1"
HOME = Path("/home/me")
CHECKOUT = Path("/srv/rankdbg")

_NAMESPACES = ("--uts", "--mount", "--net", "--fork", "--kill-child")
_OWN_PIDS = ("--pid", "--mount-proc")
# The kit that starts a Kubernetes is looked for beside the checkout. Slurm resolves no name on a
# machine that has loopback addresses alone.
_ENTER = f"""
set -e
hostname {HOST}
ip link set lo up
ip addr add 10.0.0.1/32 dev lo
mount --bind "$1" /mnt
mount -t tmpfs none /srv
mkdir {CHECKOUT} /srv/shared
[ ! -d "$1/../shared" ] || mount --bind "$1/../shared" /srv/shared
mount --move /mnt {CHECKOUT}
mount -t tmpfs none /home
mkdir -p {HOME}/bin
mount -t tmpfs none /tmp
chmod 1777 /tmp
printf '127.0.0.1 localhost {HOST}\n::1 localhost {HOST}\n' > /tmp/hosts
mount --bind /tmp/hosts /etc/hosts
printf 'passwd: files\ngroup: files\nhosts: files\n' > /tmp/nsswitch.conf
mount --bind /tmp/nsswitch.conf /etc/nsswitch.conf
cd {CHECKOUT}
shift
exec "$@"
"""


def run_inside(*words: str, own_pids: bool = True) -> int:
    """This program again, with these words, on that machine."""
    namespaces = [*_NAMESPACES, *(_OWN_PIDS if own_pids else ())]
    enter = ["sh", "-c", _ENTER, "sh", str(ROOT), _python(), "docs/make_transcripts.py", *words]
    return subprocess.call(["unshare", *namespaces, *enter])


def _python() -> str:
    python = Path(sys.executable)
    return str(CHECKOUT / python.relative_to(ROOT) if python.is_relative_to(ROOT) else python)


def settle_in() -> None:
    """What the user's shell has: a clean environment, and the commands of the pages on PATH."""
    python = Path(sys.executable)
    torchrun = python.with_name("torchrun")
    _write_command("rankdbg", python, "-m", "rankdbg")
    _write_command("python", python)
    _write_command("python3", python)
    _write_command("torchrun", python, torchrun)
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    os.environ.clear()
    os.environ.update(
        kept,
        PATH=f"{HOME / 'bin'}:{kept['PATH']}",
        HOME=str(HOME),
        USER="me",
        NO_COLOR="1",
        COLUMNS="80",
        TERM="dumb",
        OMP_NUM_THREADS="1",  # else torchrun says that it sets it
        PYTHONUNBUFFERED="1",  # stdout and stderr in the order in which they were written
    )
    os.environ.setdefault("LANG", "C.UTF-8")
    os.chdir(HOME)


def _write_command(name: str, *words: str | Path) -> None:
    file = HOME / "bin" / name
    file.write_text(f'#!/bin/sh\nexec {" ".join(map(str, words))} "$@"\n')
    file.chmod(0o755)


def copy_here(*paths: str | Path, to: str | Path = HOME) -> None:
    """Files of the checkout, as if they were the user's own."""
    Path(to).mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-r", *(CHECKOUT / path for path in paths), to], check=True)


def rename(host: str) -> None:
    """The machine, where the nodes of the scene have a name like its own."""
    socket.sethostname(host)
    with Path("/etc/hosts").open("a") as file:
        file.write(f"127.0.0.1 {host}\n")


def hide_kernel_log() -> None:
    """Its messages are those of the machine at hand."""
    subprocess.run(["mount", "--bind", "/dev/null", "/dev/kmsg"], check=True)


@contextlib.contextmanager
def memory_limit(size: int) -> Iterator[Path]:
    """A control group whose processes together may have so many bytes."""
    of_its_own = Path("/sys/fs/cgroup/memory")  # before version 2
    group = (of_its_own if of_its_own.exists() else of_its_own.parent) / "rankdbg-transcripts"
    group.mkdir()
    limits = (group / "memory.limit_in_bytes", group / "memory.max")
    next(file for file in limits if file.exists()).write_text(str(size))
    try:
        yield group
    finally:
        wait_for(lambda: not (group / "cgroup.procs").read_text(), "its processes have ended")
        group.rmdir()


def start(words: Sequence[object], **settings: object) -> subprocess.Popen[bytes]:
    """In the background; it ends with the scene, or with `end`."""
    null = subprocess.DEVNULL
    quiet = {"stdin": null, "stdout": null, "stderr": null, "start_new_session": True}
    return subprocess.Popen([str(word) for word in words], **{**quiet, **settings})  # type: ignore[call-overload]


def end(process: subprocess.Popen[bytes]) -> None:
    """With all that it has started."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
