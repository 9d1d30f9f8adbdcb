"""Stack dumps of other tools in any text, as `rankdbg stacks FILE` and `rankdbg why FILE` read them."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from random import Random

from dump_texts import ALL, CUDA, FAULT, GDB, PYSPY, PYSTACK
from fuzzing import Target, short_form, shown_by
from mutations import HOSTILE, changed_json, mixed_lines
from rankdbg.dumps.finding import find_processes

TEXTS = (PYSPY, GDB, PYSTACK, FAULT, CUDA, ALL)
WORDS = (
    *(
        "Process 4711: python train.py",
        "Python v3.11",
        'Thread 4711 (idle): "MainThread"',
        "#0",
        "#1",
    ),
    *("Thread 1 (Thread 0x7f (LWP 4713)", 'File "x.py", line 9, in f', "Traceback", "[New LWP 1]"),
    *(
        "== rank 5, pid 12, host gpu-3 ==",
        "3: ",
        "[rank3]:",
        "(W pid=3) ",
        "    ",
        "Locals:",
        HOSTILE,
    ),
    *(
        "Kernel Parent Dev Grid Status",
        "_PyEval_EvalFrameDefault",
        "line",
        "rank",
        "pid",
        "[{",
        "\ufeff",
    ),
)
PYSPY_JSON = [
    [
        {
            **{
                "pid": 4711,
                "thread_id": 139_652,
                "thread_name": "MainThread",
                "os_thread_id": 4711,
            },
            **{"active": True, "owns_gil": False, "process_info": {"command_line": "python x.py"}},
            "frames": [
                {"name": "step", "filename": "/job/x.py", "short_filename": "x.py", "line": 3}
                | {"module": None, "locals": [{"name": "n", "repr": "1", "arg": True}]}
            ],
        }
    ]
]


def texts(random: Random) -> bytes:
    if random.random() < 0.2:
        return changed_json(random, PYSPY_JSON)
    return mixed_lines(random, TEXTS, WORDS)


def check_verbs(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "dump.txt")
        file.write_bytes(data)
        words = ("--threads", "all", "--locals") if len(data) % 2 else ("--json",)
        shown_by("stacks", file, *words)
        shown_by("why", file)


def check_finding(data: bytes) -> None:
    """No dump without frames."""
    for dump in find_processes(data.decode("utf-8", "replace").split("\n")):
        assert any(thread.frames for thread in dump.threads)
        json.dumps(dump.label)


TARGETS = [
    Target("stacks", texts, check_verbs, 40),
    Target("dump-texts", texts, check_finding, 200),
]
test_stacks, test_dump_texts = map(short_form, TARGETS)
