"""Evaluating an expression where a thread is, without stopping it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents import PATIENCE, Programs, threads_of, wait_for
from rankdbg import wire

HERE = Path(__file__).parents[1] / "programs"

Ask = Callable[..., Any]


@pytest.fixture
def program(programs: Programs) -> Any:
    return programs.start(HERE / "agent_has_frames.py", stdin=subprocess.PIPE)


@pytest.fixture
def ask(programs: Programs, program: Any) -> Iterator[Ask]:
    """Ask the program; in the end it must not have noticed."""

    def evaluate(expression: str, **arguments: Any) -> Any:
        return programs.evaluate(program.pid, expression, **arguments)

    yield evaluate
    assert programs.answers(program.pid)
    assert program.communicate("\n", timeout=PATIENCE) == ("inner\n", "")
    assert program.returncode == 0


def test_innermost_user_frame(ask: Ask) -> None:
    """Locals and globals of the innermost frame of user code are there."""
    assert ask("name, rate, LIMIT")["text"] == "('inner', 0.1, 7)"


def test_comprehension_sees_locals(ask: Ask) -> None:
    """A comprehension, a lambda and a generator see the frame's variables."""
    assert ask("[w * rate for w in weights if w < LIMIT][-1]")["number"] == pytest.approx(0.6)
    assert ask("(lambda: len(weights))()")["text"] == "10"
    assert ask("sum(w for w in weights)")["text"] == "45"


def test_blanks_around(ask: Ask) -> None:
    """Blanks before and behind the expression do not matter."""
    assert ask("  name\n")["text"] == "'inner'"


def test_assignment_changes_nothing(ask: Ask) -> None:
    """An assignment expression leaves the program's variables alone."""
    assert ask("(name := 'changed')")["text"] == "'changed'"
    assert ask("[LIMIT := 1 for _ in [0]]")["text"] == "[1]"
    assert ask("name, LIMIT")["text"] == "('inner', 7)"


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("missing", "NameError: name 'missing' is not defined"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("sys.exit(3)", "SystemExit: 3"),
        ("(_ for _ in ()).throw(KeyboardInterrupt)", "KeyboardInterrupt"),
        ("(_ for _ in ()).throw(GeneratorExit)", "GeneratorExit"),
        ("quits", "SystemExit: from repr"),
        ("(lambda f: f(f))(lambda f: f(f))", "RecursionError: maximum recursion depth exceeded"),
        ("1 +", "SyntaxError: invalid syntax (<rankdbg ask>, line 1)"),
    ],
)
def test_exceptions(ask: Ask, expression: str, text: str) -> None:
    """Whatever is raised is the answer, and ends nothing."""
    answer = ask(expression)
    assert answer["kind"] == "error"
    assert answer["text"].startswith(text)


def test_frames(ask: Ask) -> None:
    """A frame is chosen by number, 0 the innermost, or by the name of its function."""
    assert ask("name", frame=0)["text"] == "'inner'"
    assert ask("name", frame=1)["text"] == "'outer'"
    assert ask("name", frame="outer")["text"] == "'outer'"
    assert ask("LIMIT", frame="<module>")["text"] == "7"
    assert ask("1", frame=9)["text"] == "LookupError: no frame 9; the stack has frames 0 to 2"
    assert "no frame of function 'x'" in ask("1", frame="x")["text"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="frames have no qualified names")
def test_qualified_name(ask: Ask) -> None:
    """A method's frame is found by its qualified name, where Python knows it (3.11)."""
    assert ask("name", frame="Trainer.outer")["text"] == "'outer'"


def test_threads(ask: Ask) -> None:
    """A thread is chosen by its name; of the agent's own there is no mention."""
    assert ask("name", thread="pump-1")["text"] == "'pump'"
    assert ask("name", thread="main")["text"] == "'inner'"
    assert ask("name", thread="MainThread")["text"] == "'inner'"
    answer = ask("name", thread="nobody")["text"]
    assert answer.startswith(
        "LookupError: no thread 'nobody'; the threads are: MainThread, Thread-1"
    )
    assert answer.count(",") == 2


def test_endless_loop(programs: Programs, ask: Ask, program: Any) -> None:
    """An endless loop in Python ends in time, and so does its thread."""
    begun = time.monotonic()
    programs.interrupt(program.pid)
    assert time.monotonic() - begun < PATIENCE


def test_sleep(ask: Ask) -> None:
    """An expression that cannot be interrupted ends in time as well, and is said to go on."""
    begun = time.monotonic()
    answer = ask("time.sleep(600)", timeout=0.2)
    assert answer["interrupted"] is False
    assert time.monotonic() - begun < PATIENCE
    assert ask("name")["text"] == "'inner'"


def test_slow_repr(ask: Ask) -> None:
    """A value whose repr() takes too long is late as well."""
    assert "late" in ask("slow", timeout=0.2)


def test_others_are_answered_meanwhile(programs: Programs, ask: Ask, program: Any) -> None:
    """While one expression sleeps, other clients are answered and the program goes on."""
    with programs.connect(program.pid) as connection:
        question = {"id": 1, "ask": "evaluate", "expression": "time.sleep(60)", "timeout": 60}
        connection.sendall(wire.encode(wire.hello()) + wire.encode(question))
        before = ask("calls")["number"]
        assert ask("name")["text"] == "'inner'"
        wait_for(lambda: ask("calls")["number"] > before + 10)


def test_locals_with_slow_repr(programs: Programs, ask: Ask, program: Any) -> None:
    """Stacks with locals come in time although a repr() of the program's takes for ever."""
    begun = time.monotonic()
    answer = programs.ask(program.pid, "stacks", locals=True)
    assert time.monotonic() - begun < PATIENCE
    (thread,) = answer["threads"]
    assert [frame[0].rpartition(".")[2] for frame in thread["frames"]] == [
        "inner",
        "outer",
        "<module>",
    ]


@pytest.mark.parametrize("question", ["evaluate", "locals", "error", "late"])
def test_variables_are_let_go(programs: Programs, question: str) -> None:
    """What the agent has looked at is freed as soon as the program lets it go, also while
    the function goes on."""
    code = """
        import gc, sys, time, weakref
        gc.disable()
        class Large: pass
        def trains():
            large = Large()
            seen = weakref.ref(large)
            print("ready", flush=True)
            sys.stdin.readline()
            large = None
            print(seen() is None, flush=True)
        trains()
    """
    program = programs.start(code, stdin=subprocess.PIPE)
    if question == "locals":

        def shown() -> Any:
            """Left out by an agent that gets no processor in time."""
            (thread,) = programs.ask(program.pid, "stacks", locals=True)["threads"]
            return thread.get("locals")

        assert "Large" in wait_for(shown)[0]["large"]
    else:
        expression = {"error": "large.missing", "late": "[0 for _ in iter(int, 1)]"}
        programs.evaluate(program.pid, expression.get(question, "large"), timeout=0.2)
    assert programs.answers(program.pid)
    wait_for(lambda: threads_of(program.pid) == 2)
    assert program.communicate("\n", timeout=PATIENCE) == ("True\n", "")


def test_programs_own_locals(programs: Programs) -> None:
    """What locals() gave to the program itself is left alone."""
    code = """
        import sys
        def keeps():
            value = 1
            kept = locals()
            print("ready", flush=True)
            sys.stdin.readline()
            print(kept["value"], value, flush=True)
        keeps()
    """
    program = programs.start(code, stdin=subprocess.PIPE)
    assert programs.evaluate(program.pid, "value")["text"] == "1"
    programs.ask(program.pid, "stacks", locals=True)
    assert program.communicate("\n", timeout=PATIENCE) == ("1 1\n", "")


@pytest.mark.parametrize("lines", [True, False])
def test_traced_program(programs: Programs, lines: bool) -> None:
    """The variables of a program under a tracer, as debuggers are, stay as they are."""
    code = """
        import sys, threading
        class Tracer:
            def trace(self, frame, event, argument):
                sum(range(3000))
                return self.trace if self.lines else None
        tracer = Tracer()
        tracer.lines = sys.argv[1:] != []
        def adds(first, second):
            third = first + second
            return third
        ended = []
        def ends():
            sys.stdin.readline()
            ended.append(1)
        threading.Thread(target=ends, daemon=True).start()
        print("ready", flush=True)
        sys.settrace(tracer.trace)
        while not ended:
            assert adds(1, 2) == 3
    """
    program = programs.start(code.replace("sys.argv[1:] != []", str(lines)), stdin=subprocess.PIPE)
    deadline = time.monotonic() + 1.5
    while time.monotonic() < deadline:
        programs.ask(program.pid, "stacks", locals=True)
        programs.evaluate(program.pid, "first + second", frame="adds")
    assert program.communicate("\n", timeout=PATIENCE) == ("", "")
    assert program.returncode == 0
