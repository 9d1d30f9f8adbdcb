"""The agent lives as long as its process: fork, exec, daemons, exit, kill."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from agents import Programs, wait_for
from waiting import PATIENCE

HERE = Path(__file__).parents[1] / "programs"

FORKS = """
    import os, signal, sys
    def child_waits():
        print(os.getpid(), flush=True)
        signal.pause()
    def parent_waits():
        signal.pause()
    if os.fork() == 0:
        child_waits()
    parent_waits()
"""

USES_MULTIPROCESSING = """
    import multiprocessing, os, signal
    def child_waits():
        print(os.getpid(), flush=True)
        signal.pause()
    if __name__ == "__main__":
        child = multiprocessing.get_context("fork").Process(target=child_waits)
        child.start()
        child.join()
"""


@pytest.mark.parametrize("code", [FORKS, USES_MULTIPROCESSING], ids=["os.fork", "multiprocessing"])
def test_fork(programs: Programs, code: str) -> None:
    """A forked child has a card and a socket of its own, and answers for itself."""
    program = programs.start(code)
    child = int(program.said)
    card = wait_for(lambda: programs.card(child).exists() and programs.ask(child, "card"))
    assert (card["pid"], card["ppid"]) == (child, program.pid)
    assert card["where"][0] == "child_waits"
    assert programs.evaluate(child, "os.getpid()")["text"] == str(child)
    assert programs.evaluate(program.pid, "os.getpid()")["text"] == str(program.pid)


def test_parents_socket_dies_with_the_parent(programs: Programs) -> None:
    """A child keeps neither the parent's listening socket nor its connections open."""
    program = programs.start(FORKS)
    child = int(program.said)
    assert programs.answers(child)
    program.kill()
    program.wait()
    assert programs.ask(program.pid, "ping").why == "refused"
    assert programs.answers(child)


def test_open_connection_is_not_inherited(programs: Programs) -> None:
    """A client sees the end of a killed parent at once, although a child lives on."""
    code = """
        import os, signal, sys
        print("ready", flush=True)
        sys.stdin.readline()
        child = os.fork()
        if child:
            print(child, flush=True)
        signal.pause()
    """
    program = programs.start(code, stdin=subprocess.PIPE)
    with programs.connect(program.pid) as connection:
        assert b"hello" in connection.recv(1000)
        program.stdin.write("\n")
        program.stdin.flush()
        child = int(program.stdout.readline())
        wait_for(lambda: programs.card(child).exists())
        program.kill()
        program.wait()
        assert connection.recv(1000) == b""


def test_rank_is_not_inherited(programs: Programs) -> None:
    """A forked child has the mesh that was given to init(), not the rank."""
    code = """
        import os, signal, rankdbg
        rankdbg.init(rank=3, world=8, mesh={"dp": 8})
        child = os.fork()
        if child:
            print(child, flush=True)
        signal.pause()
    """
    program = programs.start(code)
    child = int(program.said)
    labels = wait_for(lambda: programs.card(child).exists() and programs.ask(child, "card"))[
        "labels"
    ]
    assert programs.ask(program.pid, "card")["labels"]["rank"] == 3
    assert "rank" not in labels
    assert labels["mesh"] == {"dp": 8}


def test_exec_of_python(programs: Programs) -> None:
    """After exec of another Python the same pid has a new agent."""
    code = """
        import os, sys
        print("ready", flush=True)
        sys.stdin.readline()
        os.execv(sys.executable, [sys.executable, "-c", "import time; second = 2; time.sleep(60)"])
    """
    program = programs.start(code, stdin=subprocess.PIPE)
    first = programs.ask(program.pid, "card")
    program.stdin.write("\n")
    program.stdin.flush()

    def second() -> bool:
        answer = programs.evaluate(program.pid, "second")
        return isinstance(answer, dict) and answer.get("text") == "2"

    wait_for(second)
    assert programs.ask(program.pid, "card")["start"] == first["start"]


def test_exec_of_something_else(programs: Programs) -> None:
    """After exec of a program without agent, the roster says where the agent has gone."""
    code = "import os; print('ready', flush=True); os.execv('/bin/sleep', ['sleep', '60'])"
    program = programs.start(code)
    wait_for(lambda: Path(f"/proc/{program.pid}/comm").read_text() == "sleep\n")
    row = programs.roster()[program.pid]
    assert row["state"] == "no agent"
    assert "runs another program" in row["detail"]


def test_daemon(programs: Programs) -> None:
    """After a double fork, setsid and the closing of all descriptors the agent answers, and
    leaves the program's own sockets to the program, also one of its former number."""
    program = programs.start(HERE / "agent_daemonises.py")
    pid, *ports = map(int, program.said.split())
    assert pid != program.pid
    try:
        wait_for(lambda: programs.answers(pid))
        for _ in range(3):
            for port in ports:
                with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as client:
                    assert client.recv(100) == b"mine"
            assert programs.evaluate(pid, "own[0].fileno()")["text"] == "3"
        assert programs.ask(pid, "card")["where"][2] > 0
    finally:
        os.kill(pid, signal.SIGKILL)


def test_number_taken_while_the_agent_is_about_to_wait(programs: Programs) -> None:
    """The program closes the agent's socket and gives its number to one of its own, right after
    the agent has looked: connections to it stay with the program, and the agent answers."""
    code = """
        import os, signal, socket
        from rankdbg.agent.listener import Listener

        own = socket.create_server(("127.0.0.1", 0))
        client = socket.create_connection(own.getsockname())
        look_after_files = Listener._look_after_files
        def looked(self):
            look_after_files(self)
            Listener._look_after_files = look_after_files
            os.dup2(own.fileno(), self._socket.fileno())
        Listener._look_after_files = looked
        print("ready", flush=True)
        signal.pause()
    """
    program = programs.start(code)
    wait_for(lambda: programs.answers(program.pid))  # the agent looks again after this
    patched = "__import__('__main__').Listener._look_after_files.__name__"

    def is_taken() -> bool:
        answer = programs.evaluate(program.pid, patched)  # none from the socket that is given up
        return isinstance(answer, dict) and answer.get("text") == "'_look_after_files'"

    wait_for(is_taken)
    accept = "own.settimeout(100) or own.accept()[1] == client.getsockname()"
    assert programs.evaluate(program.pid, accept)["text"] == "True"


def test_closed_socket_is_noticed(programs: Programs) -> None:
    """A program that closes the agent's socket when nobody asks is reachable soon after."""
    code = """
        import os, signal
        os.closerange(3, 4096)
        print("ready", flush=True)
        signal.pause()
    """
    program = programs.start(code)
    wait_for(lambda: programs.answers(program.pid))


@pytest.mark.parametrize(
    "ending",
    [
        "pass",
        "sys.exit(3)",
        "1 / 0",
        "threading.Thread(target=sys.exit).start()",
        "threading.Thread(target=int, args=('x',)).start()",
        "signal.raise_signal(signal.SIGINT)",
    ],
)
def test_exit_removes_the_files(programs: Programs, ending: str) -> None:
    """However the interpreter comes to its end, the agent's files end with it."""
    code = f"""
        import os, signal, sys, threading
        print(sorted(os.listdir(os.environ["RANKDBG_DIR"])), os.getpid(), flush=True)
        {ending}
    """
    finished = programs.run(code)
    assert finished.stdout.count(".sock") == finished.stdout.count(".json'") == 1
    assert os.listdir(programs.directory) == []


@pytest.mark.parametrize("flags", ["", "-X dev"])
def test_exit_while_it_is_asked(programs: Programs, flags: str) -> None:
    """A program that ends in the middle of questions ends as ever."""
    for _ in range(5):
        programs.end_while_asked(*flags.split())
    assert os.listdir(programs.directory) == []


def test_short_programs(programs: Programs) -> None:
    """Programs that end at once, also as forked children, end without a crash."""
    code = """
        import os, sys
        for _ in range(20):
            if os.fork() == 0:
                sys.exit()
            assert os.wait()[1] == 0
    """
    for _ in range(2):
        finished = programs.run("-X", "dev", code)
        assert (finished.returncode, finished.stderr) == (0, "")


def test_function_before_exec(programs: Programs) -> None:
    """subprocess with a preexec_fn, which forks as os.fork() does, works as ever."""
    code = """
        import os, subprocess
        command = ["ls", "/proc/self/fd"]
        print(subprocess.run(command, preexec_fn=os.setsid, capture_output=True))
    """
    outcomes = [programs.run(code, agent=agent) for agent in (True, False)]
    assert outcomes[0].stdout == outcomes[1].stdout
    assert outcomes[0].stderr == outcomes[1].stderr == ""


def test_exit_of_a_child_leaves_the_parents_files(programs: Programs) -> None:
    """A forked child that ends through the interpreter removes its own files only."""
    code = """
        import os, signal, sys
        if os.fork() == 0:
            sys.exit()
        os.wait()
        print("ready", flush=True)
        signal.pause()
    """
    program = programs.start(code)
    names = sorted(os.listdir(programs.directory))
    assert names == [f"{program.pid}.json", f"{program.pid}.sock"]
    assert programs.answers(program.pid)


def test_killed_process_is_cleaned_up(programs: Programs) -> None:
    """Files that SIGKILL has left are known to be stale, and the next roster removes them."""
    program = programs.start("import time; print('ready', flush=True); time.sleep(60)")
    program.kill()
    program.wait()
    assert programs.roster().keys() & {program.pid} == set()
    assert os.listdir(programs.directory) == []


def test_reused_pid_is_stale(programs: Programs) -> None:
    """A card whose start time is not that of the process with its pid is nobody's card."""
    program = programs.start("import time; print('ready', flush=True); time.sleep(60)")
    other = subprocess.Popen(["sleep", "60"])
    try:
        card = json.loads(programs.card(program.pid).read_text())
        card.update(pid=other.pid, start=card["start"] - 1)
        programs.card(other.pid).write_text(json.dumps(card))
        row = programs.roster().get(other.pid)
        assert row is None or row["state"] == "gone"
        program.kill()
        program.wait()
        programs.roster()
        assert os.listdir(programs.directory) == []
    finally:
        other.kill()
        other.wait()


def test_stale_files_of_the_same_pid_are_replaced(programs: Programs) -> None:
    """A new process gets its agent although a dead one with its pid has left files there."""
    dead = programs.start("import time; print('ready', flush=True); time.sleep(60)")
    dead.kill()
    dead.wait()
    here, python = programs.directory, programs.python
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    script = f"""
        for ending in sock json; do mv {here}/{dead.pid}.$ending {here}/$$.$ending; done
        exec {python} -c '{code}'
    """
    programs.python = "/bin/sh"
    program = programs.start(script)
    assert program.said == str(program.pid)
    # Other tests' rosters look in here too, and may have seen the dead process's card.
    wait_for(lambda: programs.answers(program.pid))
    wait_for(programs.card(program.pid).exists)
    assert json.loads(programs.card(program.pid).read_text())["pid"] == program.pid


def test_removed_files_come_back(programs: Programs) -> None:
    """An agent whose files were removed, as cleaners of /tmp do, makes them anew."""
    program = programs.start("import time; print('ready', flush=True); time.sleep(60)")
    programs.directory.rename(programs.scratch / "away")  # in one step: it makes them at once
    wait_for(lambda: programs.card(program.pid).exists() and programs.answers(program.pid))
    assert programs.ask(program.pid, "card")["pid"] == program.pid
