"""Which kernels run on the GPUs for a process, with cuda-gdb, and which call of CUDA its threads
are in. The frames of Python are py-spy's.

Measured (docs/gpu-notes.md): reading the symbols of all libraries of torch, cuda-gdb takes 8 s
and stops process and kernels for as long. Without most of them it takes 0.6 s and stops them
for 0.1 s at a time; where cuBLAS's kernels are loaded, which it reads too, 3.5 s. Kernels and
CUDA calls are still named; use pystack for C++ frames between those and Python.

It begins by calling functions in the process: killing it at that time kills the process.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from rankdbg.dumps.dumped_threads import DumpedThread
from rankdbg.dumps.gdb_text import is_debuggers, parse, parse_kernels
from rankdbg.dumps.native_frames import NativeFrame
from rankdbg.node.machine import gpus
from rankdbg.node.probes import ProbeFailed, attaching, failure
from rankdbg.node.probes.gdb import DEEPEST, OPTIONS, with_python
from rankdbg.node.probes.named_threads import ask_pyspy, threads

TOOLKITS = "/usr/local/cuda*/bin/cuda-gdb"
WITHOUT_SYMBOLS = ("-iex", "set auto-solib-add off", "-iex", "set width 0")
SMALL_LIBRARIES = ("libc10", "libtorch_python", "libnccl")
# If it has not ended by itself then, it never will, and the process is better off without it.
UNTOUCHED_SECONDS = 60.0


@cache
def executable() -> str | None:
    """On PATH, in the toolkit that CUDA_HOME names, or in the newest of the usual place."""
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    named = [f"{home}/bin/cuda-gdb"] if home else []
    places = [shutil.which("cuda-gdb"), *named, *sorted(glob.glob(TOOLKITS), reverse=True)]
    return next((place for place in places if place and os.access(place, os.X_OK)), None)


def available(pid: int) -> str | None:
    if executable() is None:
        return f"cuda-gdb not found (searched PATH, CUDA_HOME and {TOOLKITS})"
    if gpus.opened(pid) == set():
        return f"process {pid} has no GPU open"
    return attaching.refusal(pid)


def probe(pid: int, *, seconds: float, all_threads: bool, with_locals: bool) -> dict[str, Any]:
    known = ask_pyspy(pid, seconds, with_locals)
    said = [f"sharedlibrary {library}" for library in SMALL_LIBRARIES]
    said += ["info cuda kernels", f"thread apply all backtrace {DEEPEST}"]
    lines = [word for line in said for word in ("-ex", line)]
    words = [str(executable()), *OPTIONS, *WITHOUT_SYMBOLS, *lines, "-p", str(pid)]
    ran = attaching.run(words, pid, seconds, untouched=UNTOUCHED_SECONDS)
    if signal := parse_ending(ran.output):
        raise ProbeFailed(f"process {pid} ended with {signal} while cuda-gdb was reading it")
    program = os.path.realpath(f"/proc/{pid}/exe")
    dumped = [trusted(thread, program) for thread in parse(ran.output) if not is_debuggers(thread)]
    if not dumped:
        raise failure("cuda-gdb", ran.complaint, pid)
    with_python(dumped, known)
    seen = threads(dumped, pid, all_threads=all_threads, known=known, with_locals=with_locals)
    return {**seen, "kernels": [asdict(kernel) for kernel in parse_kernels(ran.output)]}


# --- what cuda-gdb prints -----------------------------------------------------------------


def parse_ending(text: str) -> str:
    """The signal that has ended the process under cuda-gdb, or ``."""
    ended = re.search(r"^Program terminated with signal (\w+)", text, re.MULTILINE)
    return ended[1] if ended else ""


def trusted(thread: DumpedThread, program: str) -> DumpedThread:
    """Without the frames beyond a library whose symbols were not read: the address in it is
    right, but what has called it was guessed. Those of the program itself get its name; it is a
    Python, often without symbols."""
    frames = thread.frames
    end = next((i + 1 for i, frame in enumerate(frames) if _is_blind(frame)), len(frames))
    named = [f if f.file or f.library else f._replace(library=program) for f in frames[:end]]
    told = [f for f in named if (f.function, f.library) != ("??", program)]
    return DumpedThread(thread.number, thread.name, thread.status, told)


def _is_blind(frame: NativeFrame) -> bool:
    return frame.function == "??" and not _is_read(Path(frame.library).name)


def _is_read(library: str) -> bool:
    """The program itself, and what cuda-gdb must read to debug CUDA and threads at all."""
    return not library or library.startswith(_READ)


_READ = ("libcuda.so", "libcudart.so", "libc.so", "libpthread.so", "ld-linux", *SMALL_LIBRARIES)
