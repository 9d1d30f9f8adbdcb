"""Where agents and nodes meet, and whom an agent admits."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from agents import Programs, wait_for
from rankdbg import wire
from strangers import needs_root, open_up

NOBODY = 65534

HELLO = "print('hello')"


def refused(programs: Programs, *words: object, **settings: object) -> str:
    """The one line that the agent of a program says which otherwise runs as ever."""
    finished = programs.run(*words, HELLO, **settings)
    assert (finished.returncode, finished.stdout) == (0, "hello\n")
    (line,) = finished.stderr.splitlines()
    assert line.startswith("rankdbg: no agent in process ")
    return line.split(": ", 2)[2]


def test_directory_is_a_file(programs: Programs) -> None:
    """A RANKDBG_DIR that is a file: one line, and the program goes on."""
    programs.directory.write_text("")
    assert refused(programs).startswith("cannot create the directory")


def test_directory_cannot_be_made(programs: Programs) -> None:
    """A RANKDBG_DIR below something that cannot hold directories: one line."""
    assert "cannot create the directory" in refused(programs, env={"RANKDBG_DIR": "/proc/1/here"})


@needs_root
def test_directory_of_another_user(programs: Programs) -> None:
    """A RANKDBG_DIR that belongs to somebody else: one line that names the owner."""
    programs.directory.mkdir()
    os.chown(programs.directory, NOBODY, NOBODY)
    assert f"belongs to another user (uid {NOBODY})" in refused(programs)


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_directory_that_others_can_write(programs: Programs, mode: int) -> None:
    """A RANKDBG_DIR into which others can write: one line that says what to do."""
    programs.directory.mkdir()
    programs.directory.chmod(mode)
    assert "chmod 700" in refused(programs)


@needs_root
def test_directory_not_writable(programs: Programs, plain_python: str, tmp_path: Path) -> None:
    """A RANKDBG_DIR in which the user may not write: one line, and nothing is left behind."""
    programs.directory.mkdir()
    os.chown(programs.directory, NOBODY, NOBODY)
    programs.directory.chmod(0o500)
    open_up(programs.directory)
    programs.python = plain_python
    line = refused_as_nobody(programs)
    assert "Permission denied" in line
    assert os.listdir(programs.directory) == []


def test_disk_full(programs: Programs) -> None:
    """A directory on a full disk: one line, and the socket is removed again."""
    programs.directory.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=2", "none", programs.directory]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("cannot mount here")
    try:
        programs.directory.chmod(0o700)
        assert "No space left" in refused(programs)
        assert os.listdir(programs.directory) == []
    finally:
        subprocess.run(["umount", programs.directory], check=True)


@needs_root
def test_symlink_in_tmp(programs: Programs, plain_python: str, tmp_path: Path) -> None:
    """/tmp/rankdbg-UID that is a link, even to a directory of the user's own, is refused."""
    uid = 64321
    link, target = Path(f"/tmp/rankdbg-{uid}"), tmp_path / "target"
    target.mkdir()
    os.chown(target, uid, uid)
    open_up(target)
    programs.python = plain_python
    link.symlink_to(target)
    try:
        line = refused_as_nobody(programs, uid=uid, env={"RANKDBG_DIR": ""})
        assert line.endswith(f"{link} is not a directory")
        assert os.listdir(target) == []
    finally:
        link.unlink()


@needs_root
def test_default_directory(programs: Programs, plain_python: str) -> None:
    """Without RANKDBG_DIR it is /tmp/rankdbg-UID, and for that user alone."""
    uid = 64322
    directory = Path(f"/tmp/rankdbg-{uid}")
    programs.python = plain_python
    code = "import os; print(os.listdir(f'/tmp/rankdbg-{os.getuid()}'))"
    try:
        finished = as_user(programs, uid, code, {"RANKDBG_DIR": ""})
        assert finished.stdout.count(".sock") == 1, finished.stderr
        status = directory.stat()
        assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (uid, 0o700)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def until_running(programs: Programs, pid: int) -> None:
    """An agent that takes more than a second to answer is `blocked` in that look."""

    def runs() -> bool:
        row = programs.roster()[pid]
        return (row["state"], row["agent"]) == ("running", True)

    wait_for(runs, lambda: programs.roster()[pid])


@pytest.mark.parametrize("name", ["x" * 100 + "/" + "y" * 110, "two words", "größe/日本", "q'\"$"])
def test_difficult_paths(programs: Programs, name: str) -> None:
    """Paths that are long, or with blanks, quotes or any letters, work from end to end."""
    programs.directory = programs.scratch / name
    program = programs.start("import time; print('ready', flush=True); time.sleep(60)")
    assert programs.ask(program.pid, "card")["pid"] == program.pid
    until_running(programs, program.pid)


def test_difficult_path_in_the_c_locale(programs: Programs) -> None:
    """Letters that the program's locale does not know are no obstacle."""
    programs.directory = programs.scratch / "größe"
    environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    code = "import time; print('ready', flush=True); time.sleep(60)"
    program = programs.start(code, env=environment)
    assert programs.ask(program.pid, "card")["pid"] == program.pid
    until_running(programs, program.pid)


def test_relative_directory(programs: Programs, tmp_path: Path) -> None:
    """A relative RANKDBG_DIR means one directory, wherever the program goes."""
    code = """
        import os, signal
        os.chdir("/")
        child = os.fork()
        if child:
            print(child, flush=True)
        signal.pause()
    """
    program = programs.start(code, env={"RANKDBG_DIR": "agents"}, cwd=tmp_path)
    assert programs.answers(program.pid)
    wait_for(lambda: programs.answers(int(program.said)))


def test_files_are_private(programs: Programs) -> None:
    """Directory 0700, socket and card 0600, whatever the umask is."""
    code = "import time; print('ready', flush=True); time.sleep(60)"
    program = programs.start(code, umask=0)
    paths = [programs.directory, programs.socket(program.pid), programs.card(program.pid)]
    assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o700, 0o600, 0o600]


@needs_root
def test_other_users_are_refused(programs: Programs, plain_python: str) -> None:
    """A process of another user that reaches the socket is not talked to; root is."""
    program = programs.start("import time; print('ready', flush=True); time.sleep(60)")
    open_up(programs.directory)
    programs.directory.chmod(0o755)
    programs.socket(program.pid).chmod(0o777)
    code = f"""
        import socket
        connection = socket.socket(socket.AF_UNIX)
        connection.connect({str(programs.socket(program.pid))!r})
        print("reached", connection.recv(100))
    """
    programs.python = plain_python
    finished = as_user(programs, NOBODY, code, {"RANKDBG": "0"})
    assert finished.stdout == "reached b''\n", finished.stderr
    assert programs.answers(program.pid)


@needs_root
def test_root_is_admitted(programs: Programs, plain_python: str) -> None:
    """The agent of an ordinary user's process talks to that user and to root. (A node of root's
    does not ask it: see test_forged_cards.)"""
    programs.directory.mkdir()
    os.chown(programs.directory, NOBODY, NOBODY)
    open_up(programs.directory)
    programs.python = "setpriv"
    words = ["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", plain_python]
    code = "import time; print('ready', flush=True); time.sleep(60)"
    program = programs.start(*words, code, env=AS_NOBODY)
    with programs.connect(program.pid) as connection:
        assert wire.decode(connection.recv(1000))["hello"] == "rankdbg"


# --- another user ---------------------------------------------------------------------

AS_NOBODY = {"HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture
def plain_python(tmp_path: Path) -> str:
    """A Python, with an agent, that any user may run: root's own may lie in a closed home."""
    import rankdbg

    for python in ("/usr/bin/python3", "/usr/local/bin/python3"):
        code = "import sys; assert sys.version_info >= (3, 10)"
        if (
            Path(python).exists()
            and not subprocess.run([python, "-c", code], check=False).returncode
        ):
            break
    else:
        pytest.skip("no Python that every user may run")
    copy = tmp_path / "copy" / "rankdbg"
    # Others may be writing there at the same time, under names that do not last.
    compiled = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(rankdbg.__file__).parent, copy, ignore=compiled)
    wrapper = tmp_path / "python"
    bootstrap = copy / "agent" / "bootstrap"
    wrapper.write_text(f'#!/bin/sh\nPYTHONPATH={bootstrap} exec {python} "$@"\n')
    wrapper.chmod(0o755)
    open_up(copy)
    return str(wrapper)


def as_user(programs: Programs, uid: int, code: str, env: dict[str, str]) -> object:
    python, programs.python = programs.python, "setpriv"
    words = ["--reuid", uid, "--regid", uid, "--clear-groups", python]
    return programs.run(*words, code, env={**AS_NOBODY, **env})


def refused_as_nobody(
    programs: Programs, uid: int = NOBODY, env: dict[str, str] | None = None
) -> str:
    python, programs.python = programs.python, "setpriv"
    words = ["--reuid", uid, "--regid", uid, "--clear-groups", python]
    return refused(programs, *words, env={**AS_NOBODY, **(env or {})})
