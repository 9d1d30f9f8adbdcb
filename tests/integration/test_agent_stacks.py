"""The stacks of a process, and the names that it gives itself."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from agents import PATIENCE, Programs, wait_for
from rankdbg import wire
from rankdbg.node.relay import NoAnswer


def stacks_with_locals(programs: Programs, pid: int, **more: Any) -> Any:
    """An agent that gets no processor for long leaves them out."""

    def whole() -> Any:
        answer = programs.ask(pid, "stacks", locals=True, **more)
        return answer if all("locals" in thread for thread in answer["threads"]) else None

    return wait_for(whole, "variables of all threads")


def test_hundred_threads(programs: Programs) -> None:
    """All threads by name, the main one first, the agent's own not among them."""
    code = """
        import threading
        started = threading.Barrier(101)
        def works(number):
            started.wait()
            threading.Event().wait()
        for number in range(100):
            threading.Thread(target=works, args=(number,), name=f"w{number:02}", daemon=True).start()
        started.wait()
        print("ready", flush=True)
        threading.Event().wait()
    """
    program = programs.start(code)
    threads = stacks_with_locals(programs, program.pid, threads="all")["threads"]
    assert [thread["name"] for thread in threads] == ["MainThread"] + [
        f"w{n:02}" for n in range(100)
    ]
    assert [thread["main"] for thread in threads] == [True] + [False] * 100
    places = {frame[0]: number for number, frame in enumerate(threads[43]["frames"])}
    assert threads[43]["locals"][places["works"]] == {"number": "42"}
    (main,) = programs.ask(program.pid, "stacks", threads="main")["threads"]
    assert main["frames"][-1][0] == "<module>"


def test_deep_recursion(programs: Programs) -> None:
    """Of 50,000 frames the two ends come, and how many lie between."""
    code = """
        import sys, threading
        sys.setrecursionlimit(100_000)
        def recurses(depth):
            if depth:
                recurses(depth - 1)
            else:
                print("ready", flush=True)
                sys.stdin.readline()
        recurses(50_000)
    """
    program = programs.start(code, stdin=subprocess.PIPE)
    plain = programs.ask(program.pid, "stacks", threads="all")
    for answer in (plain, stacks_with_locals(programs, program.pid)):
        assert len(wire.encode(answer)) < 1 << 20
        (thread,) = answer["threads"]
        assert len(thread["frames"]) == 1001
        assert thread["frames"][500][0] == "... 49002 frames left out ..."
        assert thread["frames"][-1][0] == "<module>"
    assert thread["locals"][0] == {"depth": "0"}
    assert thread["locals"][500] == {}
    assert len(thread["locals"]) == 1001
    assert programs.ask(program.pid, "card")["where"][0] == "recurses"
    assert programs.evaluate(program.pid, "depth", frame=40_000)["text"] == "40000"
    assert program.communicate("\n", timeout=PATIENCE) == ("", "")


def test_held_gil(programs: Programs) -> None:
    """A process that holds the GIL is silent, and answers as soon as it lets go."""
    code = """
        import ctypes, time
        print("ready", flush=True)
        ctypes.PyDLL(None).read(0, ctypes.create_string_buffer(1), 1)
        time.sleep(60)
    """
    program = programs.start(code, stdin=subprocess.PIPE)
    wait_for(lambda: programs.ask(program.pid, "ping", seconds=0.3) == NoAnswer("late"))
    program.stdin.write("\n")
    program.stdin.flush()
    assert programs.answers(program.pid)


def test_where_it_is(programs: Programs) -> None:
    """A card says where user code is, not where in the library it waits."""
    code = """
        import json, threading
        class Loud(json.JSONEncoder):
            def default(self, value):
                print("ready", flush=True)
                threading.Event().wait()
        json.dumps({1: object()}, cls=Loud)
    """
    program = programs.start(code)
    wait_for(lambda: programs.ask(program.pid, "card")["where"][1:] == ["<string>", 6])
    assert programs.ask(program.pid, "card")["where"][0] in ("Loud.default", "default")


def test_main_thread_is_the_first(programs: Programs) -> None:
    """The main thread is known although another thread has imported threading first."""
    code = """
        import _thread, sys
        def works():
            import threading
            print("ready", flush=True)
            threading.Event().wait()
        def main():
            _thread.start_new_thread(works, ())
            sys.stdin.readline()
        main()
    """
    program = programs.start(code, stdin=subprocess.PIPE)
    assert programs.ask(program.pid, "card")["where"][0] == "main"


def test_stacks_of_a_busy_program(programs: Programs) -> None:
    """A program that computes all the time is asked again and again without a hitch."""
    code = """
        def down(depth):
            return down(depth - 1) if depth else sum(range(50))
        print("ready", flush=True)
        while True:
            down(20)
    """
    program = programs.start(code)
    for _ in range(30):
        (thread,) = stacks_with_locals(programs, program.pid)["threads"]
        assert thread["frames"][-1][0] == "<module>"
        assert len(thread["frames"]) == len(thread["locals"])


# --- init and set_mesh ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ("init(rank=-1)", "invalid rank: expected a whole number, 0 or more, not -1"),
        ("init(rank='3')", "invalid rank: expected a whole number, 0 or more, not '3'"),
        ("init(rank=True)", "invalid rank: expected a whole number, 0 or more, not True"),
        ("init(rank=1.0)", "invalid rank: expected a whole number, 0 or more, not 1.0"),
        ("init(world=0)", "invalid world: expected a whole number, 1 or more, not 0"),
        ("init(rank=4, world=4)", "invalid rank 4: expected less than the world size, 4"),
        ("init(mesh='dp=4')", "invalid mesh 'dp=4': expected a mapping such as {'dp': 4, 'tp': 2}"),
        ("init(mesh=[2, 2])", "invalid mesh [2, 2]: expected a mapping such as {'dp': 4, 'tp': 2}"),
        (
            "init(mesh={'a b': 2})",
            "invalid dimension 'a b' of the mesh: expected a name such as 'tp'",
        ),
        ("init(mesh={3: 2})", "invalid dimension 3 of the mesh: expected a name such as 'tp'"),
        (
            "set_mesh({'dp': 0})",
            "invalid size 'dp' of the mesh: expected a whole number, 1 or more",
        ),
        ("init(role=3)", "invalid role: expected a short text, not 3"),
        ("init(role='')", "invalid role: expected a short text, not ''"),
        ("init(job='a b')", "job 'a b' must not contain spaces"),
    ],
)
def test_wrong_arguments(call: str, sentence: str) -> None:
    """A wrong argument of init() is a ValueError that says what is right; nothing is kept."""
    import rankdbg
    from rankdbg.agent import card

    with pytest.raises(ValueError) as caught:
        eval(f"rankdbg.{call}", {"rankdbg": rankdbg})
    assert sentence in str(caught.value)
    assert card.chosen == {}


def labels(programs: Programs, pid: int) -> Any:
    return programs.ask(pid, "card")["labels"]


def test_init(programs: Programs) -> None:
    """init() starts the agent without RANKDBG=1; a second one only gives new names."""
    code = """
        import rankdbg, sys
        rankdbg.init(rank=3, world=8, mesh={"dp": 4, "tp": 2}, role="trainer", job="run-1")
        print("ready", flush=True)
        sys.stdin.readline()
        rankdbg.init(role="rollout")
        print("again", flush=True)
        sys.stdin.readline()
        rankdbg.set_mesh({"pp": 8})
        print("again", flush=True)
        sys.stdin.readline()
    """
    program = programs.start(code, env={"RANKDBG": "0", "RANK": "5"}, stdin=subprocess.PIPE)
    named = {"rank": 3, "world": 8, "mesh": {"dp": 4, "tp": 2}, "role": "trainer", "job": "run-1"}
    assert labels(programs, program.pid).items() >= named.items()
    assert labels(programs, program.pid)["source"] == "init"
    for change in ({"role": "rollout"}, {"mesh": {"pp": 8}}):
        program.stdin.write("\n")
        program.stdin.flush()
        assert program.stdout.readline() == "again\n"
        named.update(change)
        # In the file too, before anybody has asked: it is what is left when a process hangs.
        written = json.loads(programs.card(program.pid).read_text())["labels"]
        assert written.items() >= named.items()
        assert labels(programs, program.pid).items() >= named.items()
    assert len(list(programs.directory.iterdir())) == 2


def test_numbers_of_other_libraries(programs: Programs) -> None:
    """numpy's whole numbers are welcome as a rank."""
    pytest.importorskip("numpy")
    code = "import numpy, rankdbg; rankdbg.init(rank=numpy.int64(2)); print('ready', flush=True); input()"
    program = programs.start(code, stdin=subprocess.PIPE)
    assert labels(programs, program.pid)["rank"] == 2


def test_init_where_no_agent_can_be(programs: Programs) -> None:
    """init() and set_mesh() in a program whose agent cannot start do not raise."""
    programs.directory.write_text("")
    code = "import rankdbg; rankdbg.init(rank=1); rankdbg.set_mesh({'dp': 2}); print('fine')"
    finished = programs.run(code, env={"RANKDBG": "0"})
    assert finished.stdout == "fine\n"
    assert all(line.startswith("rankdbg: no agent") for line in finished.stderr.splitlines())


def test_card_that_cannot_be_written(programs: Programs) -> None:
    """The agent answers with its card although the directory has gone, and set_mesh() works."""
    code = """
        import os, rankdbg, shutil, sys
        print("ready", flush=True)
        sys.stdin.readline()
        rankdbg.set_mesh({"dp": 2})
        print("set", flush=True)
        sys.stdin.readline()
    """
    program = programs.start(code, stdin=subprocess.PIPE)
    moved = programs.directory.with_name("moved")
    programs.directory.rename(moved)
    program.stdin.write("\n")
    program.stdin.flush()
    assert program.stdout.readline() == "set\n"
    programs.directory = moved
    assert labels(programs, program.pid)["mesh"] == {"dp": 2}
    assert program.communicate("\n", timeout=PATIENCE) == ("", "")


def test_environment_of_the_program(programs: Programs) -> None:
    """A rank that is set by the program itself shows in its card at once."""
    code = """
        import os, sys
        print("ready", flush=True)
        sys.stdin.readline()
        os.environ["RANK"] = "6"
        sys.stdin.readline()
    """
    program = programs.start(code, stdin=subprocess.PIPE)
    assert "rank" not in labels(programs, program.pid)
    program.stdin.write("\n")
    program.stdin.flush()
    wait_for(lambda: labels(programs, program.pid).get("rank") == 6)
    assert json.loads(programs.card(program.pid).read_text())["labels"]["rank"] == 6
