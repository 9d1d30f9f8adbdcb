"""What gdb and cuda-gdb print: `thread apply all backtrace`, `bt`, `py-bt`, `info cuda kernels`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rankdbg.dumps.dumped_threads import DEEPEST, DumpedThread, parse_threads
from rankdbg.dumps.native_frames import NativeFrame, is_evaluation, plain_name
from rankdbg.types import RunningKernel

THREAD = re.compile(
    r'Thread (\d{1,9}) \(.*?(?:LWP |process |Thread \S+ )(\d{1,18})\)?(?: "(.*)")?\):$'
)
FRAME = re.compile(r"#(\d{1,9})\s+(?:0x[0-9a-f]+ in )?(.*)$")
_SOURCE = re.compile(r" at (\S+):(\d{1,9})$")
_LIBRARY = re.compile(r" from (\S+)$")
# With the extension of Python, gdb shows what an evaluation runs:
# _PyEval_EvalFrameDefault (f=Frame 0x5, for file train.py, line 12, in step (n=3), throwflag=0)
_EVALUATED = re.compile(r"for file (.*?), line (\d{1,9}), in (\S+) \(")
PYTHON_HEAD = "Traceback (most recent call first):"
PYTHON_FRAME = re.compile(r'\s+File "(.*)", line (\d{1,9}), in (.*)$')
# How a line goes on that a terminal's width has broken.
_CONTINUES = re.compile(r"\s{4}(at|from) \S")


def parse(text: str) -> Iterator[DumpedThread]:
    """What `thread apply all backtrace` prints."""
    return parse_threads(
        text, THREAD, lambda head: GdbThreadReader(int(head[2]), head[3] or "thread")
    )


class GdbThreadReader:
    """The lines after the head of one thread."""

    def __init__(self, number: int, name: str) -> None:
        self.number = number
        self.name = name
        self._native: list[str] = []
        self._python: list[NativeFrame] = []

    @property
    def has_native(self) -> bool:
        return bool(self._native)

    @property
    def has_python(self) -> bool:
        return bool(self._python)

    def read(self, line: str) -> bool:
        """Whether the line is a part of it."""
        if frame := FRAME.match(line):
            if len(self._native) < DEEPEST:
                self._native.append(frame[2].rstrip())
        elif frame := PYTHON_FRAME.match(line):
            if len(self._python) < DEEPEST:
                self._python.append(NativeFrame(frame[3], frame[1], int(frame[2]), python=True))
        elif self._native and _CONTINUES.match(line):
            self._native[-1] += f" {line.strip()}"
        else:
            return not line or line[0].isspace() or line == PYTHON_HEAD
        return True

    def result(self) -> DumpedThread:
        frames = [parse_frame(text) for text in self._native]
        if self._python:
            frames = with_lines(frames, self._python)
        return DumpedThread(self.number, self.name, "", frames)


def with_lines(frames: list[NativeFrame], lines: list[NativeFrame]) -> list[NativeFrame]:
    """Lines of Python in place of the interpreter's frames that execute them."""
    executing = (i for i, frame in enumerate(frames) if is_evaluation(frame) or frame.python)
    return [*frames[: next(executing, len(frames))], *lines]


def parse_frame(text: str) -> NativeFrame:
    """`c10d::Work::wait(long) () from /…/libtorch_cpu.so`, `take_gil (ts=0x5) at ceval.c:12`."""
    if (line := _EVALUATED.search(text)) and text.startswith(("_PyEval", "PyEval")):
        return NativeFrame(line[3], line[1], int(line[2]), python=True)
    file, number, library = "", 0, ""
    if source := _SOURCE.search(text):
        text, file, number = text[: source.start()], source[1], int(source[2])
    elif loaded := _LIBRARY.search(text):
        text, library = text[: loaded.start()], loaded[1]
    # The arguments' values come last, after the function's own brackets.
    function = _before_last_brackets(text)
    return NativeFrame(function or "???", file, number, library)


def _before_last_brackets(text: str) -> str:
    depth = 0
    for index in range(len(text) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(text[index], 0)
        if text[index] == "(" and depth == 0:
            return text[:index].rstrip()
    return text.strip()


# --- kernels ------------------------------------------------------------------------------

# *      0      -   0    2 Active 0x00100000 (132,1,1) (256,1,1) at::cuda::spin_kernel()
_KERNEL = re.compile(
    r"\*?\s+(?P<number>\d{1,9})\s+(?:-|\d+)\s+(?P<device>\d{1,9})\s+(?P<launch>-?\d{1,19})\s+(?P<state>\w+)\s+"
    r"(?P<mask>0x[0-9a-f]{1,64})\s+"
    r"(?P<grid>\([\d,]{1,99}\))\s+(?P<block>\([\d,]{1,99}\))\s+(?P<invocation>.*\S)\s*$"
)


# [Switching focus to CUDA kernel 0, grid 4, block (0,0,0), thread (0,0,0), device 0, sm 124, warp 3, lane 0]
# 0x00007f90937b2dc0 in waits_for_flag<<<(2,1,1),(128,1,1)>>> () at /job/kernels.py:6
_FOCUS = re.compile(
    r"^\[Switching focus to CUDA kernel (?P<number>\d{1,9}), .*, (?P<at>sm \d+, warp \d+)(?:, lane \d+)?\]\n"
    r"(?:0x\S+ in .*\) at (?P<file>\S.*):(?P<line>\d{1,9})$)?",
    re.MULTILINE,
)


def parse_kernels(text: str) -> Iterator[RunningKernel]:
    """The table that `info cuda kernels` prints; nothing if no kernel runs. `launch` is the same
    text while the same launch of a kernel runs: a graph of CUDA launches its kernels under the same
    number again, but on other processors."""
    focus = _FOCUS.search(text)
    for line in text.splitlines():
        if row := _KERNEL.match(line):
            looked_into = focus if focus and focus["number"] == row["number"] else None
            at = looked_into["at"] if looked_into else ""
            yield RunningKernel(
                plain_name(row["invocation"]),
                symbol=row["invocation"],
                device=int(row["device"]),
                grid=_sizes(row["grid"]),
                block=_sizes(row["block"]),
                sms=int(row["mask"], 16).bit_count(),
                state=row["state"].lower(),
                launch=f"{row['launch']} {row['mask']} {at}".strip(),
                file=(looked_into["file"] or "") if looked_into else "",
                line=int(looked_into["line"] or 0) if looked_into else 0,
            )


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.strip("()").split(",") if number)


def is_debuggers(thread: DumpedThread) -> bool:
    """A thread that is there, or where it is, because of cuda-gdb."""
    return any("/libcudadebugger.so" in frame.library for frame in thread.frames)
