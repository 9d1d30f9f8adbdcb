"""The agent in other Pythons, beside other start-up code, under gevent and Yama."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agents import BOOTSTRAP, PATIENCE, Programs, python, wait_for
from tiers import chiefly_two

HERE = Path(__file__).parents[1] / "programs"


@pytest.mark.parametrize("version", chiefly_two(["3.10", "3.11", "3.12", "3.13", "3.14"]))
def test_every_python(programs: Programs, version: str) -> None:
    """A Python that knows nothing of rankdbg has an agent through PYTHONPATH, and all works:
    questions, interruption, fork, exit."""
    programs.python = python(version)
    program = programs.start(
        HERE / "agent_has_frames.py", env={"PYTHONPATH": str(BOOTSTRAP)}, stdin=subprocess.PIPE
    )
    card = programs.ask(program.pid, "card")
    assert card["python"].startswith(version)
    assert card["where"][0].rpartition(".")[2] == "inner"
    assert programs.evaluate(program.pid, "[w * rate for w in weights][0]")["text"] == "0.0"
    assert programs.evaluate(program.pid, "(name := 1)")["text"] == "1"
    assert programs.evaluate(program.pid, "name", frame="outer")["text"] == "'outer'"
    programs.interrupt(program.pid)
    threads = programs.ask(program.pid, "stacks", threads="all")["threads"]
    assert len(threads) == 3
    shown = programs.ask(program.pid, "stacks", locals=True, threads="main")
    assert shown["threads"][0]["frames"][-1][0] == "<module>"
    with programs.connect(program.pid) as connection:
        connection.sendall(b'{"hello" 1}\n')
        while connection.recv(1000):
            pass
    assert program.communicate("\n", timeout=PATIENCE) == ("inner\n", "")
    assert program.returncode == 0
    assert os.listdir(programs.directory) == []


@pytest.mark.parametrize("version", chiefly_two(["3.10", "3.11", "3.12", "3.13", "3.14"]))
def test_exit_while_it_is_asked(programs: Programs, version: str) -> None:
    """A program that ends in the middle of questions ends as ever, without a crash: on Python
    3.10 every third did."""
    programs.python = python(version)
    for _ in range(8):
        programs.end_while_asked("-X", "dev", env={"PYTHONPATH": str(BOOTSTRAP)})


@pytest.mark.parametrize("flags", ["", "-W error", "-X dev"])
@pytest.mark.parametrize("version", chiefly_two(["3.10", "3.11", "3.12", "3.13", "3.14"]))
def test_forks_give_no_warning(programs: Programs, version: str, flags: str) -> None:
    """A program of one thread that forks is not warned because of the agent's thread; the
    warning's filters are as before; and the child has its agent."""
    code = """
        import os, sys, warnings
        before = list(warnings.filters)
        child = os.fork()
        if child:
            assert os.waitpid(child, 0)[1] == 0
        assert warnings.filters == before
        print(os.path.exists(f"{os.environ['RANKDBG_DIR']}/{os.getpid()}.sock"))
    """
    programs.python = python(version)
    environment = {"PYTHONPATH": str(BOOTSTRAP)}
    finished = programs.run(*flags.split(), code, env=environment)
    assert (finished.stdout, finished.stderr) == ("True\nTrue\n", "")


@pytest.mark.parametrize("version", ["3.12", "3.13", "3.14"])
def test_forks_of_threads_are_warned_of(programs: Programs, version: str) -> None:
    """A program that has threads of its own is warned as ever."""
    code = """
        import os, threading
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        if os.fork() == 0:
            os._exit(0)
        os.wait()
    """
    programs.python = python(version)
    environment = {"PYTHONPATH": str(BOOTSTRAP)}
    said = [programs.run(code, agent=agent, env=environment).stderr for agent in (True, False)]
    assert [text.count("multi-threaded") for text in said] == [1, 1]


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.8", "3.9"])
def test_old_pythons(programs: Programs, version: str) -> None:
    """A Python that is too old says so in one line, and runs its program."""
    programs.python = python(version)
    environment = {"PYTHONPATH": str(BOOTSTRAP), "PYTHONDONTWRITEBYTECODE": "1"}
    finished = programs.run("import sys; print(len(sys.argv)); sys.exit(5)", env=environment)
    assert (finished.returncode, finished.stdout) == (5, "1\n")
    (line,) = finished.stderr.splitlines()
    assert line.startswith("rankdbg: no agent in process ")
    assert line.endswith(f"Python {version} is older than 3.10")


@pytest.mark.parametrize("version", ["2.7", "3.8", "3.11", "3.13"])
def test_hidden_sitecustomize(programs: Programs, tmp_path: Path, version: str) -> None:
    """A sitecustomize of the user's own runs too, and is the one that the program sees."""
    programs.python = python(version)
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import sys\nsys.stdout.write('own\\n')\nmine = 1\n")
    code = "import sitecustomize; print(sitecustomize.mine)"
    environment = {
        "PYTHONPATH": f"{BOOTSTRAP}{os.pathsep}{own}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    finished = programs.run(code, env=environment)
    assert finished.stdout == "own\n1\n"


def test_broken_sitecustomize(programs: Programs, tmp_path: Path) -> None:
    """A sitecustomize of the user's own that fails does so as without rankdbg."""
    (tmp_path / "sitecustomize.py").write_text("import missing_module\n")
    said = []
    for path in (f"{BOOTSTRAP}{os.pathsep}{tmp_path}", str(tmp_path)):
        finished = programs.run("print('ran')", env={"PYTHONPATH": path})
        assert finished.stdout == "ran\n"
        said.append(finished.stderr.splitlines()[-1:])
    assert said[0] == said[1]


def test_bootstrap_is_not_seen(programs: Programs) -> None:
    """The bootstrap's folder and rankdbg's are not on the program's path."""
    programs.python = python("3.12")
    code = "import sys; print(*sys.path, sep='\\n')"
    finished = programs.run(code, env={"PYTHONPATH": str(BOOTSTRAP)})
    assert str(BOOTSTRAP.parents[2]) not in finished.stdout


# --- gevent ---------------------------------------------------------------------------

GEVENT = """
    {before}
    from gevent import monkey
    monkey.patch_all()
    {after}
    import gevent, threading, time
    ticks = 0
    def ticking():
        global ticks
        while True:
            ticks += 1
            time.sleep(0.001)
    def waiting():
        threading.Event().wait()
    workers = [gevent.spawn(ticking), threading.Thread(target=waiting, daemon=True)]
    workers[1].start()
    gevent.sleep(0)
    print("ready", flush=True)
    workers[0].join()
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_gevent(programs: Programs, when: str) -> None:
    """An agent that starts before or after gevent's patches answers, and greenlets go on."""
    pytest.importorskip("gevent")
    lines = {"before": "", "after": "", when: "import rankdbg; rankdbg.init()"}
    program = programs.start(GEVENT.format(**lines), env={"RANKDBG": "0"})

    def ticks() -> Any:
        return programs.evaluate(program.pid, "__import__('__main__').ticks")["number"]

    assert programs.ask(program.pid, "card")["where"] is not None
    before = ticks()
    wait_for(lambda: ticks() > before + 20)
    # A client that says nothing, and an expression that takes its time, block no greenlet.
    with programs.connect(program.pid):
        before = ticks()
        programs.interrupt(program.pid)
        wait_for(lambda: ticks() > before, "greenlets go on")
    assert programs.ask(program.pid, "stacks", threads="all")["threads"][0]["main"] is True


def test_gevent_fork(programs: Programs) -> None:
    """The child of a patched fork has an agent."""
    pytest.importorskip("gevent")
    code = """
        from gevent import monkey
        monkey.patch_all()
        import os, time
        child = os.fork()
        if child:
            print(child, flush=True)
        time.sleep(60)
    """
    program = programs.start(code)
    child = int(program.said)
    wait_for(lambda: programs.card(child).exists() and programs.answers(child))
    assert programs.answers(program.pid)


# --- Yama -----------------------------------------------------------------------------

SHIM = """
#include <stdarg.h>
#include <stdio.h>
int prctl(int option, ...) {
    va_list rest;
    va_start(rest, option);
    unsigned long second = va_arg(rest, unsigned long);
    va_end(rest);
    fprintf(stderr, "prctl %d %lu\\n", option, second);
    return 0;
}
"""


def test_permission_to_trace(tmp_path: Path) -> None:
    """Under Yama the agent calls prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY), in 64 bits."""
    if not shutil.which("gcc"):
        pytest.skip("no C compiler")
    source, library = tmp_path / "shim.c", tmp_path / "shim.so"
    source.write_text(SHIM)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    code = "import sys; from rankdbg.agent import native; print(native.set_ptracer_any(), 'ctypes' in sys.modules)"
    finished = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert finished.stdout == "0 False\n"
    assert finished.stderr == f"prctl {0x59616D61} {2**64 - 1}\n"
