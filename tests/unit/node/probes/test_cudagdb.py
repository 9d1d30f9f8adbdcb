"""What cuda-gdb 13.0 prints -> kernels and threads; and that nothing ends it on its way."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from rankdbg.dumps.gdb_text import is_debuggers, parse, parse_kernels
from rankdbg.dumps.native_frames import readable
from rankdbg.node.probes import ProbeFailed, attaching, cudagdb
from rankdbg.types import RunningKernel
from waiting import wait_for

# An H200, torch 2.11, a host that waits in torch.cuda.synchronize(); shortened.
SPINNING = """\
[New LWP 1020]
[Thread debugging using libthread_db enabled]
[Detaching after fork from child process 1208]

Thread 1 "python3" stopped.
[Switching focus to CUDA kernel 0, grid 2, block (0,0,0), thread (0,0,0), device 0, sm 124, warp 1]
0x00007f520f7a0f90 in at::cuda::(anonymous namespace)::spin_kernel(long)<<<(1,1,1),(1,1,1)>>> ()
  Kernel Parent Dev Grid Status                             SMs Mask GridDim BlockDim Invocation
*      0      -   0    2 Active 0x0010000000000000000000000000000000 (1,1,1)  (1,1,1) \
at::cuda::(anonymous namespace)::spin_kernel()

Thread 7 (Thread 0x7f51cc8a76c0 (LWP 1207) "python3"):
#0  0x00007f550492a2d2 in epoll_wait () from /lib/x86_64-linux-gnu/libc.so.6
#1  0x00007f51c7a5e796 in ?? () from /usr/local/nvidia/lib64/libcudadebugger.so.1

Thread 2 (Thread 0x7f54214296c0 (LWP 1020) "cuda00001400006"):
#0  0x00007f550491b79d in poll () from /lib/x86_64-linux-gnu/libc.so.6
#1  0x00007f54d7acdf27 in ?? () from /usr/local/nvidia/lib64/libcuda.so.1

Thread 1 (Thread 0x7f5504b03140 (LWP 1002) "python3"):
#0  0x00007f54d7c14833 in ?? () from /usr/local/nvidia/lib64/libcuda.so.1
#12 0x00007f54d7b53b95 in cuLaunchKernel () from /usr/local/nvidia/lib64/libcuda.so.1
#13 0x00007f550381376d in ?? () from /opt/torch/nvidia/cu13/lib/libcudart.so.13
#14 0x00007f5503874643 in cudaLaunchKernel () from /opt/torch/nvidia/cu13/lib/libcudart.so.13
#15 0x00007f54504a5bf7 in ?? () from /opt/torch/lib/libtorch_cuda.so
#16 0x0000000000000000 in ?? ()
[Inferior 1 (process 1002) detached]
"""

HEAD = "  Kernel Parent Dev Grid Status  SMs Mask   GridDim  BlockDim Invocation       \n"


def kernels(row: str) -> list[RunningKernel]:
    return list(parse_kernels(HEAD + row))


def test_kernel_by_name_place_and_size() -> None:
    """One row of the table, with the number of processors in place of their mask."""
    assert list(parse_kernels(SPINNING)) == [
        RunningKernel(
            "at::cuda::spin_kernel",
            "at::cuda::(anonymous namespace)::spin_kernel()",
            device=0,
            grid=(1, 1, 1),
            block=(1, 1, 1),
            sms=1,
            state="active",
            launch="2 0x0010000000000000000000000000000000 sm 124, warp 1",
        )
    ]


# Triton 3.6 on the same machine; kernels of CUDA with -lineinfo look the same.
WITH_LINES = """\
[Switching focus to CUDA kernel 0, grid 4, block (0,0,0), thread (0,0,0), device 0, sm 124, warp 3, lane 0]
0x00007f90937b2df0 in waits_for_flag_kernel<<<(2,1,1),(128,1,1)>>> () at /job/my kernels.py:6
6	        v = tl.atomic_add(x, 0.0)
  Kernel Parent Dev Grid Status                             SMs Mask GridDim  BlockDim Invocation
*      0      -   0    4 Active 0x0050000000000000000000000000000000 (2,1,1) (128,1,1) waits_for_flag_kernel()
       1      -   0    5 Active 0x0040000000000000000000000000000000 (1,1,1) (128,1,1) other()
"""


def test_the_line_in_which_a_kernel_is() -> None:
    """Of the one that cuda-gdb has looked into."""
    first, second = parse_kernels(WITH_LINES)
    assert (first.file, first.line) == ("/job/my kernels.py", 6)
    assert (second.name, second.file) == ("other", "")


@pytest.mark.parametrize("other", ["grid 5, block", "sm 100,", "warp 2,"])
def test_another_launch_of_the_same_kernel(other: str) -> None:
    """By its number; those of a graph of CUDA have the same one again, on another processor."""
    what = other.split()[0]
    later = re.sub(rf"{what} \d+,( block)?", other, WITH_LINES, count=1)
    if what == "grid":
        later = later.replace("0    4 Active", "0    5 Active")
    assert later != WITH_LINES
    (before, beside), (after, still) = parse_kernels(WITH_LINES), parse_kernels(later)
    assert before.launch != after.launch
    assert beside.launch == still.launch


@pytest.mark.parametrize(
    ("row", "name", "grid", "sms"),
    [
        (
            "*      0      -   0    2 Active 0x0fffffffffffffffffffffffffffffffff (132,1,1) "
            "(256,1,1) waits_for_flag() \n",
            "waits_for_flag",
            (132, 1, 1),
            132,
        ),
        (
            "*      0      -   0    3 Active 0x0ff0000000000000000000000000005555 (8,2,1) "
            "(128,1,1) spin_until() \n",
            "spin_until",
            (8, 2, 1),
            16,
        ),
    ],
    ids=["cupy", "triton"],
)
def test_kernels_of_cupy_and_triton(row: str, name: str, grid: tuple[int, ...], sms: int) -> None:
    """As they were printed on an H200."""
    (kernel,) = kernels(row)
    assert (kernel.name, kernel.grid, kernel.sms) == (name, grid, sms)


def test_no_kernel_runs() -> None:
    """Nothing, and no error."""
    assert list(parse_kernels("No CUDA kernels.\n")) == []


def test_threads_of_the_debugger_are_left_out() -> None:
    """cuda-gdb starts some in the process."""
    ours = [thread.number for thread in parse(SPINNING) if not is_debuggers(thread)]
    assert ours == [1020, 1002]


def test_frames_beyond_an_unread_library_are_left_out() -> None:
    """The address in the library is right; what has called it was guessed."""
    main = next(thread for thread in parse(SPINNING) if thread.number == 1002)
    functions = [frame[0] for frame in readable(cudagdb.trusted(main, "/usr/bin/python3").frames)]
    assert functions == ["??", "cuLaunchKernel", "??", "cudaLaunchKernel", "??"]


def test_frames_of_the_interpreter_are_left_out() -> None:
    """gdb names no file for what is in the program itself: that is Python."""
    text = textwrap.dedent("""\
        Thread 1 (Thread 0x7f5504b03140 (LWP 1002) "python3"):
        #0  0x00007f9ab3c44675 in cudaDeviceSynchronize () from /opt/torch/lib/libcudart.so.13
        #1  0x00007f9a2c650dd5 in THCPModule_cudaSynchronize(_object*, _object*) () from /opt/libtorch_python.so
        #2  0x0000000000581d5a in ?? ()
        #3  0x00000000005499b5 in PyObject_Vectorcall ()
        #4  0x00000000005d710f in _PyEval_EvalFrameDefault ()
        """)
    (main,) = parse(text)
    frames = readable(cudagdb.trusted(main, "/usr/bin/python3.12").frames)
    functions = [frame[0] for frame in frames]
    assert functions == ["cudaDeviceSynchronize", "THCPModule_cudaSynchronize"]


def test_process_that_ended_under_cuda_gdb() -> None:
    """Said with the signal, and not as what cuda-gdb could not read."""
    text = "[New process 2047]\n\nProgram terminated with signal SIGABRT, Aborted.\n"
    assert cudagdb.parse_ending(text) == "SIGABRT"
    assert cudagdb.parse_ending(SPINNING) == ""


def test_process_without_a_gpu_is_not_attached_to() -> None:
    """Nor is anything where there is no cuda-gdb; the reason says where it was looked for."""
    reason = str(cudagdb.available(os.getpid()))
    assert "/usr/local/cuda*/bin" in reason or reason == f"process {os.getpid()} has no GPU open"


# --- nothing ends it ----------------------------------------------------------------------


@pytest.fixture
def target() -> Iterator[int]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process.pid
        process.kill()


def slow_probe(done: Path) -> list[str]:
    """Says much, as a debugger does, and then that it has come to its end."""
    script = 'for i in 1 2 3; do echo "[New LWP $i]"; sleep 1; done; touch "$0"'
    return ["sh", "-c", script, str(done)]


@pytest.mark.slow
def test_probe_at_its_deadline_is_left_to_its_end(target: int, tmp_path: Path) -> None:
    """The caller has its answer in time, and the debugger comes to its end."""
    with pytest.raises(ProbeFailed, match="must not be killed and keeps running"):
        attaching.run(slow_probe(tmp_path / "done"), target, 0.2, untouched=30.0)
    assert not (tmp_path / "done").exists()
    wait_for((tmp_path / "done").exists, "the end of the probe")


@pytest.mark.slow
def test_probe_outlives_the_node(target: int, tmp_path: Path) -> None:
    """Also if the node is killed: neither the guard nor a closed pipe ends it."""
    program = textwrap.dedent(f"""
        from rankdbg.node.probes import attaching
        print(flush=True)
        attaching.run({slow_probe(tmp_path / "done")!r}, {target}, 20.0, untouched=30.0)
    """)
    words = [sys.executable, "-c", program]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as node:
        assert node.stdout is not None
        node.stdout.readline()
        wait_for(lambda: children_of(node.pid), "the guard")
        node.send_signal(signal.SIGKILL)
    wait_for((tmp_path / "done").exists, "the end of the probe")


def children_of(pid: int) -> str:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text()
