"""Frames of C as they are shown, and what pystack and gdb print."""

from __future__ import annotations

import pytest

from rankdbg.dumps import gdb_text, pystack_text
from rankdbg.dumps.dumped_threads import DumpedThread
from rankdbg.dumps.native_frames import NativeFrame, plain_name, readable
from rankdbg.logs.fault_dumps import find_dumps
from rankdbg.node.probes.named_threads import threads
from rankdbg.process.user_code import is_native, is_user_code

LIBC = "/usr/lib/libc.so.6"
PYTHON = "/usr/lib/libpython3.11.so.1.0"
TORCH = "/site-packages/torch/lib/libtorch_cpu.so"


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("take_gil", "take_gil"),
        (
            "c10d::Work::wait(std::chrono::duration<long, std::ratio<1l, 1000l> >)",
            "c10d::Work::wait",
        ),
        ("gloo::(anonymous namespace)::ring(std::function<void (long)>)", "gloo::ring"),
        ("void at::native::copy<int>(at::Tensor const&) const", "at::native::copy"),
        ("pthread_cond_wait@@GLIBC_2.17", "pthread_cond_wait"),
        ("foo.constprop.0", "foo"),
        (
            "at::parallel(long, std::function<void (long)> const&) [clone ._omp_fn.0]",
            "at::parallel",
        ),
        ("c10::Foo::operator()(int) const", "c10::Foo::operator"),
        ("c10::operator<<(std::ostream&, int)", "c10::operator"),
        ("odd(((", "odd((("),
        ("???", "???"),
    ],
)
def test_names_without_arguments(symbol: str, name: str) -> None:
    """What is not understood stays as it is."""
    assert plain_name(symbol) == name


def test_what_is_worth_reading() -> None:
    """Of libc what was called, of the interpreter nothing but what a line of Python is in, no
    glue, and not how the thread began; innermost first."""
    frames = [
        NativeFrame("__futex_abstimed_wait", "", 0, LIBC),
        NativeFrame("__GI___pthread_cond_wait", "./nptl/pthread_cond_wait.c", 618, LIBC),
        NativeFrame("c10d::Work::wait(long)", "", 0, TORCH),
        NativeFrame("pybind11::cpp_function::dispatcher(_object*)", "", 0, TORCH),
        NativeFrame("cfunction_call", "Objects/methodobject.c", 543, PYTHON),
        NativeFrame("all_reduce", "/site-packages/torch/d.py", 30, python=True),
        NativeFrame("method_vectorcall", "", 0, PYTHON),
        NativeFrame("list_sort", "", 0, PYTHON),
        NativeFrame("<module>", "train.py", 3, python=True),
        NativeFrame("pymain_run_python", "", 0, PYTHON),
        NativeFrame("__libc_start_main", "", 0, LIBC),
        NativeFrame("_start", "", 0, "/usr/bin/python3.11"),
    ]
    assert readable(frames) == [
        ["pthread_cond_wait", LIBC, 0],
        ["c10d::Work::wait", TORCH, 0],
        ["all_reduce", "/site-packages/torch/d.py", 30],
        ["<module>", "train.py", 3],
    ]
    inside = [NativeFrame("take_gil", "Python/ceval_gil.h", 5, PYTHON), *frames[8:]]
    assert readable(inside)[0] == ["take_gil", "Python/ceval_gil.h", 5]
    only_libc = [NativeFrame("__poll", "", 0, LIBC), NativeFrame("start_thread", "", 0, LIBC)]
    assert len(readable(only_libc)) == 1
    assert readable([]) == []


PYSTACK = """\
Traceback for thread 12 (odd (name)) [Has the GIL,Garbage collecting] (most recent call last):
    (Python) File "/x/train.py", line 3, in <module>
        step()
    (C) File "Modules/gc.c", line 7, in gc_collect_main (inlined) (/lib/libpython3.11.so.1.0)
    (C) File "???", line 0, in std::f(int (*)(long)) (/lib/libx.so)

Traceback for thread 13 [] (most recent call last):
    (C) File "/lib/liby.so", line 0, in ??? (/lib/liby.so)
"""


def test_what_pystack_prints() -> None:
    """Threads with their names and states; frames of both kinds, innermost first."""
    first, second = pystack_text.parse(PYSTACK)
    assert (first.number, first.name) == (12, "odd (name)")
    assert first.status == "Has the GIL,Garbage collecting"
    assert first.frames == [
        NativeFrame("std::f(int (*)(long))", "", 0, "/lib/libx.so"),
        NativeFrame("gc_collect_main", "Modules/gc.c", 7, "/lib/libpython3.11.so.1.0"),
        NativeFrame("<module>", "/x/train.py", 3, python=True),
    ]
    assert (second.number, second.name, second.status) == (13, "thread", "")
    assert second.frames == [NativeFrame("???", "", 0, "/lib/liby.so")]


GDB = """\
[New LWP 13]
Thread 2 (Thread 0xffff61 (LWP 13) "pt_gloo (1)"):
#0  0x00ff in epoll_pwait (epfd=35, set=0x0 <f(int)+4>) at ../sysdeps/epoll_pwait.c:40
#1  0x00fe in gloo::Loop::run() () from /x/libtorch_cpu.so
#2  0x00fd in ?? () from /lib/libstdc++.so.6

Thread 1 (LWP 12 "python"):
#0  take_gil (tstate=0x5) at Python/ceval_gil.h:5
"""


def test_what_gdb_prints() -> None:
    """Sources or libraries; arguments and addresses are left out."""
    first, second = gdb_text.parse(GDB)
    assert (first.number, first.name) == (13, "pt_gloo (1)")
    assert first.frames == [
        NativeFrame("epoll_pwait", "../sysdeps/epoll_pwait.c", 40),
        NativeFrame("gloo::Loop::run()", "", 0, "/x/libtorch_cpu.so"),
        NativeFrame("??", "", 0, "/lib/libstdc++.so.6"),
    ]
    assert (second.number, second.name) == (12, "python")
    assert second.frames == [NativeFrame("take_gil", "Python/ceval_gil.h", 5)]


def test_threads_that_run_nothing_are_left_out() -> None:
    """One that is just born, one that waits for the GIL before its first line; but not one of a
    library, nor one of which no frame could be read."""
    born, begins = ["clone3"], ["take_gil", "thread_run", "start_thread", "clone3"]
    library, unread = ["poll", "worker_loop", "start_thread", "clone3"], []
    dumped = [
        DumpedThread(100 + index, f"t{index}", "", [NativeFrame(name, LIBC, 0) for name in names])
        for index, names in enumerate((["main"], born, begins, library, unread))
    ]
    seen = threads(dumped, 100, all_threads=True)
    assert [thread["name"] for thread in seen["threads"]] == ["native thread", "t3", "t4"]
    assert seen["waits_for_gil"] == []


def test_native_files_are_nobodys_lines() -> None:
    """The user's line is the one of Python, whatever C it has called."""
    for file in (LIBC, PYTHON, "./nptl/x.c", "a.cu", "/usr/bin/python3.11", "_ext.cpython-311.so"):
        assert is_native(file), file
        assert not is_user_code(file), file
    for file in ("train.py", "/x/run", "<string>", "/home/a.so.b/train.py", "/x/python_job"):
        assert is_user_code(file), file


FAULT_314 = """\
Fatal Python error: Segmentation fault

Thread 0x00007f01 [worker] (most recent call first):
  File "a.py", line 3 in work

Current thread 0x00007f02 [python] (most recent call first):
  File "a.py", line ??? in <module>

Current thread's C stack trace (most recent call first):
  Binary file "/lib/libpython3.14.so", at _Py_DumpStack+0x48 [0x7f]
  Binary file "/lib/libctypes.so", at +0x26a1e [0x7f]

Extension modules: numpy (total: 1)
"""


def test_what_python_314_writes() -> None:
    """Names of threads, lines that are not known, and the stack of C."""
    (dump,) = find_dumps(FAULT_314.splitlines())
    assert dump.cause == "Segmentation fault"
    worker, current = dump.threads
    assert (worker.name, worker.current) == ("worker", False)
    assert worker.frames == [("work", "a.py", 3)]
    assert (current.name, current.current) == ("python", True)
    assert current.frames == [("<module>", "a.py", 0)]
    assert current.native == [
        ("_Py_DumpStack", "/lib/libpython3.14.so", 0),
        ("???", "/lib/libctypes.so", 0),
    ]
