"""The agent never changes what the program does."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agents import PATIENCE, Programs, wait_for

HERE = Path(__file__).parents[1] / "programs"


def test_program_sees_the_same_interpreter(programs: Programs) -> None:
    """Descriptors, signal handlers, threads, paths and environment are as without an agent."""
    outcomes = [
        programs.run(HERE / "agent_looks_around.py", agent=agent) for agent in (True, False)
    ]
    assert outcomes[0].stdout == outcomes[1].stdout
    assert outcomes[0].stderr == outcomes[1].stderr == ""
    assert "descriptors [3, 4]" in outcomes[0].stdout


@pytest.mark.parametrize("flags", ["-O", "-OO", "-B", "-X dev", "-W error", "-u", "-bb", "-P"])
def test_flags(programs: Programs, flags: str) -> None:
    """Under any of python's flags the agent answers, and the program ends without a word."""
    code = """
        import os, sys
        print("ready", flush=True)
        if os.fork() == 0:
            os._exit(0)
        os.wait()
        sys.stdin.read()
        sys.exit(7)
    """
    program = programs.start(*flags.split(), code, stdin=subprocess.PIPE)
    assert programs.ask(program.pid, "card")["pid"] == program.pid
    assert programs.evaluate(program.pid, "6 * 7")["text"] == "42"
    assert programs.ask(program.pid, "stacks", threads="all", locals=True)["threads"][0]["frames"]
    programs.interrupt(program.pid)
    assert program.communicate("", timeout=PATIENCE) == ("", "")
    assert program.returncode == 7


def test_script_on_stdin(programs: Programs) -> None:
    """A script that comes through a pipe runs, and has an agent."""
    script = (
        "import os, sys\nprint(os.path.exists(f\"{os.environ['RANKDBG_DIR']}/{os.getpid()}.sock\"))"
    )
    assert programs.run("-", input=script).stdout == "True\n"


@pytest.mark.parametrize("ending", ["sys.exit(3)", "os._exit(4)", "1 / 0", "os.abort()"])
def test_exit_status(programs: Programs, ending: str) -> None:
    """The program ends as it would without an agent, and says the same."""
    code = f"import os, sys\n{ending}"
    outcomes = [programs.run(code, agent=agent) for agent in (True, False)]
    assert outcomes[0].returncode == outcomes[1].returncode
    assert outcomes[0].stderr == outcomes[1].stderr


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_closed_standard_files(programs: Programs, closed: tuple[int, ...]) -> None:
    """A program that starts without stdin, stdout or stderr does not get a socket there."""
    seen = programs.scratch / "seen"
    code = f"""
        import os, time
        deadline = time.monotonic() + 5
        while any(here := [os.path.exists(f"/proc/self/fd/{{number}}") for number in {closed}]):
            # A connection is there for a moment, if somebody looks at all processes just now.
            if time.monotonic() > deadline:
                break
            time.sleep(0.01)
        there = os.path.exists(f"{{os.environ['RANKDBG_DIR']}}/{{os.getpid()}}.sock")
        while (file := open({str(seen)!r}, "w")).fileno() != {closed[0]}:
            if time.monotonic() > deadline:
                break
            file.close()
            time.sleep(0.01)
        with file:
            file.write(f"{{here}} {{there}} {{file.fileno()}}")
    """
    command = programs._command((code,))
    shell = " ".join(f"{number}>&-" for number in closed)
    said = []
    for agent in ("1", "0"):
        subprocess.run(
            ["sh", "-c", f'exec "$@" {shell}', "sh", *command],
            env=programs.environment(RANKDBG=agent),
            check=True,
            timeout=PATIENCE,
        )
        said.append(seen.read_text())
    assert said[1].endswith(f" {closed[0]}")
    assert said[0] == said[1].replace("] False", "] True")


def test_blocked_signal_is_left_to_the_program(programs: Programs) -> None:
    """A signal that the program blocks to wait for it is not taken by the agent's thread."""
    code = """
        import signal, sys
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGTERM})
        print("ready", flush=True)
        sys.stdin.readline()
        print(signal.sigwait({signal.SIGUSR1}).name, flush=True)
        print(signal.sigwait({signal.SIGTERM}).name, flush=True)
    """
    program = programs.start(code, stdin=subprocess.PIPE)
    assert programs.answers(program.pid)
    # While it does not wait for them yet: any thread that does not block them would do.
    program.send_signal(signal.SIGUSR1)
    program.send_signal(signal.SIGTERM)
    assert program.communicate("\n", timeout=PATIENCE) == ("SIGUSR1\nSIGTERM\n", "")
    assert program.returncode == 0


def test_default_socket_timeout_does_not_end_the_agent(programs: Programs) -> None:
    """socket.setdefaulttimeout() before rankdbg.init() does not make the agent deaf."""
    code = """
        import socket, threading
        socket.setdefaulttimeout(0.01)
        import rankdbg
        rankdbg.init()
        threading.Event().wait(0.2)
        print("ready", flush=True)
        threading.Event().wait()
    """
    program = programs.start(code, env={"RANKDBG": "0"})
    assert programs.answers(program.pid)


def test_out_of_descriptors(programs: Programs) -> None:
    """A program that has used up its descriptors is heard again once it has some."""
    code = """
        import os, resource, select, sys
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        held = []
        def fill():
            try:
                while True:
                    held.append(os.open("/dev/null", os.O_RDONLY))
            except OSError:
                pass
        fill()
        print("ready", flush=True)
        # Those of a connection that was there by chance come free later.
        while not select.select([sys.stdin], [], [], 0.01)[0]:
            fill()
        sys.stdin.readline()
        os.close(held.pop())
        os.close(held.pop())
        os.close(held.pop())
        sys.stdin.read()
    """
    program = programs.start(code, stdin=subprocess.PIPE)
    wait_for(
        lambda: getattr(programs.ask(program.pid, "ping", seconds=0.3), "why", "") == "late",
        "all are used up",
    )
    program.stdin.write("\n")
    program.stdin.flush()
    # The question of before has one of them until the agent sees that nobody waits any more.
    card = wait_for(lambda: as_answer(programs.ask(program.pid, "card")))
    assert card["pid"] == program.pid


def as_answer(found: Any) -> Any:
    return found if isinstance(found, dict) else None


def test_shadowing_modules(programs: Programs, tmp_path: Path) -> None:
    """A program whose own modules have the standard library's names gets its own, and the
    agent in it answers."""
    names = sorted(
        {"socket", "json", "threading", "select", "selectors", "struct", "signal", "re", "types"}
        | {"enum", "linecache", "ctypes", "inspect", "traceback", "tempfile", "logging", "queue"}
        | {"typing", "functools", "contextlib", "dataclasses", "ast", "weakref", "random", "math"}
    )
    for name in names:
        (tmp_path / f"{name}.py").write_text(f"print('own {name}')\nmine = True\n")
    script = tmp_path / "program.py"
    script.write_text(
        f"import sys\nnames = {names}\n"
        "for name in names:\n    assert __import__(name).mine\n"
        "print('ready', flush=True)\nsys.stdin.read()\n"
    )
    with_agent, without = (programs.run(script, agent=agent, input="") for agent in (True, False))
    assert with_agent.stdout == without.stdout
    assert with_agent.stderr == without.stderr
    assert with_agent.returncode == without.returncode == 0
    program = programs.start(script, stdin=subprocess.PIPE)
    wait_for(lambda: program.stdout.readline() == "ready\n")
    assert programs.ask(program.pid, "card")["pid"] == program.pid
    assert programs.evaluate(program.pid, "len(names)")["text"] == str(len(names))
    programs.interrupt(program.pid)
    (thread,) = programs.ask(program.pid, "stacks", threads="all", locals=True)["threads"]
    assert thread["frames"][-1][1] == str(script)


def test_shadowing_modules_on_the_path(programs: Programs, tmp_path: Path) -> None:
    """The same where they lie on PYTHONPATH, and are there before the agent starts."""
    for name in ("socket", "json", "threading", "struct", "signal", "ctypes", "typing", "atexit"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name} was imported')\n")
    code = "import sys; print('ready', flush=True); sys.stdin.read()"
    environment = {"PYTHONPATH": str(tmp_path)}
    program = programs.start(code, env=environment, stdin=subprocess.PIPE)
    assert programs.evaluate(program.pid, "1 + 1")["text"] == "2"
    assert program.communicate("", timeout=PATIENCE) == ("", "")


def test_answering_loads_no_public_module(programs: Programs) -> None:
    """Questions of every kind, also late and senseless ones, import nothing public."""
    code = "import sys; print('ready', flush=True); sys.stdin.read()"
    program = programs.start(code, stdin=subprocess.PIPE)

    def loaded() -> set[str]:
        names = "{m for m in sys.modules if m[0] != '_' and '.' not in m}"
        answer = programs.evaluate(program.pid, f"' '.join({names})")
        assert "cut" not in answer
        return set(answer["text"].strip("'").split())

    before = loaded()
    for question in ("ping", "card", "environment", "nonsense"):
        programs.ask(program.pid, question)
    programs.ask(program.pid, "stacks", threads="all", locals=True)
    programs.interrupt(program.pid)
    assert loaded() == before


def test_arguments_named_rankdbg(programs: Programs, tmp_path: Path) -> None:
    """Only rankdbg's own commands go without an agent, not programs that name it."""
    script = tmp_path / "program.py"
    script.write_text("print('ready', flush=True)\ninput()\n")
    program = programs.start(script, "/data/rankdbg", stdin=subprocess.PIPE)
    assert programs.answers(program.pid)
    assert programs.run("-m", "rankdbg", "--version").returncode == 0
    assert sorted(os.listdir(programs.directory)) == [f"{program.pid}.json", f"{program.pid}.sock"]
