"""Stack dumps in any text: of several tools, damaged, and none at all."""

from __future__ import annotations

import random

import pytest

from dump_texts import ALL, FAULT, GDB, PYSPY
from rankdbg.dumps.finding import find_processes
from rankdbg.dumps.native_frames import NativeFrame
from rankdbg.dumps.pyspy_text import whole_path


def test_all_tools_in_one_text() -> None:
    """Each dump with its tool, pid and threads."""
    found = find_processes(ALL.splitlines())
    assert [(p.tool, p.pid, len(p.threads)) for p in found] == [
        ("py-spy", 4711, 3),
        ("gdb", 4712, 2),
        ("pystack", 4730, 2),
        ("faulthandler", None, 1),
        ("cuda-gdb", 4740, 1),
    ]
    assert found[0].title == "python train.py --rank 3"
    assert found[3].cause == "a timeout of faulthandler"
    assert found[4].kernels[0].name == "ncclDevKernel_AllReduce"


def test_what_pyspy_prints() -> None:
    """Short names of libraries are made whole, values of several lines are passed over."""
    main, pump, unnamed = find_processes(PYSPY.splitlines())[0].threads
    torch = "/opt/py/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
    assert main.frames == [
        NativeFrame("wait", "/opt/py/lib/python3.11/threading.py", 320, python=True),
        NativeFrame("all_reduce", torch, 2700, python=True),
        NativeFrame("step", "train.py", 12, python=True),
        NativeFrame("<module>", "train.py", 20, python=True),
    ]
    assert main.locals[1] == {"tensor": "<Tensor at 0x7f>", "text": '"a'}
    assert (pump.name, pump.active, pump.status) == ("pump (1)", True, "Has the GIL")
    assert (unnamed.name, unnamed.frames) == ("", [])


def test_what_gdb_prints() -> None:
    """Lines that a terminal has broken, and lines of Python that its extension shows."""
    loop, main = find_processes(GDB.splitlines())[0].threads
    assert loop.frames[1] == NativeFrame("gloo::Loop::run()", "", 0, "/x/libtorch_cpu.so")
    assert main.frames[1] == NativeFrame("step", "train.py", 12, python=True)


def test_bt_and_py_bt_of_one_process_are_one_dump() -> None:
    """Lines of Python take the place of the interpreter's frames; again, it is a second dump."""
    native = "#0  0x1 in poll ()\n#1  0x2 in _PyEval_EvalFrameDefault ()\n#2  0x3 in main ()\n"
    python = 'Traceback (most recent call first):\n  File "train.py", line 12, in step\n'
    head = 'Thread 1 (Thread 0x7e (LWP 12) "python"):\n'
    both = head + native + head + python
    (dump,) = find_processes(both.splitlines())
    assert [frame.function for frame in dump.threads[0].frames] == ["poll", "step"]
    assert len(find_processes((both + both).splitlines())) == 2
    assert len(find_processes((native + native).splitlines())) == 2


def test_lines_between_dumps_say_whose_they_are() -> None:
    """Rank, pid and host, for the next dump alone."""
    text = f"== rank 5, pid 12, host gpu-3 ==\n{FAULT}\nINFO rank 9 starts\n{FAULT}"
    first, second = find_processes(text.splitlines())
    assert (first.said.rank, first.said.pid, first.said.host) == (5, 12, "gpu-3")
    assert second.said.rank is None


def test_lines_of_several_ranks_may_alternate() -> None:
    """Each has a prefix: srun's, torchrun's or Ray's."""
    lines = FAULT.splitlines()
    for prefixes in (("3: ", "4: "), ("[rank3]:", "[rank4]:"), ("(W pid=3) ", "(W pid=4) ")):
        mixed = [prefix + line for line in lines for prefix in prefixes]
        found = find_processes(mixed)
        assert [len(dump.threads[0].frames) for dump in found] == [2, 2]
        assert [dump.label or dump.said.pid for dump in found] == [3, 4]


def test_quoted_coloured_and_indented_text() -> None:
    """As it stands in an issue, or in what a terminal has recorded."""
    plain = [len(t.frames) for p in find_processes(ALL.splitlines()) for t in p.threads]
    for change in (
        lambda line: f"    {line}",
        lambda line: f"> {line}",
        lambda line: f"{line}\r",
        lambda line: f"\x1b[32m{line}\x1b[0m",
    ):
        found = find_processes([change(line) for line in ALL.splitlines()])
        assert [len(t.frames) for p in found for t in p.threads] == plain


def test_short_names_of_files() -> None:
    """A user's file stays, also in a package; a program may have the name of a module."""
    assert whole_path("train.py", "/lib") == "train.py"
    assert whole_path("mine/train.py", "/lib") == "mine/train.py"
    assert whole_path("/x/queue.py", "/lib") == "/x/queue.py"
    assert whole_path("queue.py", "") == "/usr/lib/python3/queue.py"
    text = PYSPY.replace("train.py", "code.py")
    frames = find_processes(text.splitlines())[0].threads[0].frames
    assert frames[-1].file == "code.py" and frames[-2].file == "code.py"


@pytest.mark.slow
@pytest.mark.slow
def test_noise_of_100_megabytes() -> None:
    """A log with dumps in its middle."""
    noise = "2026-11-17 10:00:00 INFO step 12 loss 2.31 lr 0.001 grad norm (0.5) rank 3 " + "x" * 40
    generator = random.Random(1)

    def lines():  # type: ignore[no-untyped-def]
        for number in range(800_000):
            if number == 400_000:
                yield from ALL.splitlines()
            yield noise if generator.random() < 0.9 else noise[: number % 100]

    assert len(find_processes(lines())) == 5
