"""Logs of jobs: lines of frameworks, kernels, launchers and schedulers, and records of JSON."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tempfile
from functools import cache
from pathlib import Path
from random import Random

from fuzzing import Target, short_form, shown_by
from log_texts import KNOWN
from mutations import HOSTILE, changed_json, damaged, mixed_lines

RECORDED = Path(__file__).parents[1] / "fixtures/crash_logs"
RECORDS = [
    {
        "ts": 1772359200.5,
        "level": "ERROR",
        "rank": 3,
        "message": "CUDA out of memory",
        "node": "n1",
    },
    {"asctime": "2026-03-01 10:00:00,123", "levelname": "INFO", "msg": "step 7 loss 2.3"},
    {"log": "step 8\n", "stream": "stdout", "time": "2026-03-01T10:00:00.123456789Z"},
    {"value": 0.25, "log_type_name": "loss", "iteration": 3, "rank": 0},
    {
        "severity": "ERROR",
        "timestamp": {"seconds": 1772359200, "nanos": 5},
        "textPayload": "killed",
    },
]
STAMPS = (
    *(
        "2026-03-01 10:00:00 ",
        "2026-03-01T10:00:00.123456Z ",
        "[rank3]: ",
        "3: ",
        "I0301 10:00:00.5 ",
    ),
    *(
        "Mar  1 10:00:00 node-3 kernel: ",
        "(Trainer pid=3, ip=10.0.0.1) ",
        "[default3]:",
        "0: [rank0]",
    ),
    *(
        "9999-99-99 99:99:99 ",
        "0000-00-00T00:00:00 ",
        "[1772359200.5] ",
        "INFO 03-01 10:00:00 ",
        "\x1b[31m",
    ),
    *("2026-03-01 10:00:00,999999999999 ", "W0399 25:61:61.9 ", "-1 ", "1e999 ", "٣", HOSTILE),
)
WORDS = (
    *STAMPS,
    *(
        "step 7 loss nan",
        "loss inf",
        "Traceback (most recent call last):",
        "RuntimeError: x",
        "rank",
    ),
    *('  File "x.py", line 3, in step', "Killed", "OutOfMemoryError", "epoch 9999999999999999999"),
    *(
        "| 99% 9/9 [00:00<?, ?it/s]",
        "\r",
        "\b\b\b",
        "srun: error: node-3: task 3: Killed",
        "(",
        "%",
    ),
    *(
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
        "exitcode: -9 (pid: 1)",
    ),
)
VERBS = (
    *(
        ["doctor"],
        ["doctor", "--json"],
        ["doctor", "--full"],
        ["logs"],
        ["logs", "--json"],
        ["phases"],
    ),
    *(
        ["phases", "--json"],
        ["logs", "--diff"],
        ["logs", "--tail", "3"],
        ["logs", "--grep", "step"],
    ),
)
PACKED = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@cache
def recorded() -> list[str]:
    """The starts of all recorded logs, and lines of every known failure."""
    files = sorted(path for path in RECORDED.rglob("*") if path.suffix in (".log", ".out", ".err"))
    starts = [path.read_bytes()[:20_000].decode("utf-8", "replace") for path in files]
    return [*starts, *("\n".join(line for _, line in KNOWN[n::20]) for n in range(20))]


def logs(random: Random) -> bytes:
    """A first line with the verb and the kind of file; then the log, packed or not."""
    parts = []
    for _ in range(random.randint(1, 3)):
        if random.random() < 0.2:
            parts += [changed_json(random, RECORDS, 2) for _ in range(random.randint(1, 8))]
        else:
            stamp = random.choice(STAMPS).encode("utf-8", "surrogatepass")
            lines = mixed_lines(random, [random.choice(recorded())], WORDS, 20).split(b"\n")
            parts += [stamp + line for line in lines] if random.random() < 0.3 else lines
    verb, kind = random.randrange(len(VERBS)), random.choice(["", "", "", "", *PACKED])
    content = PACKED[kind](b"\n".join(parts))
    if kind and random.random() < 0.5:
        content = damaged(random, content)
    return f"{verb} {kind}\n".encode() + content


def check(data: bytes) -> None:
    head, _, content = data.partition(b"\n")
    verb, _, kind = head.decode().partition(" ")
    with tempfile.TemporaryDirectory() as folder:
        half = len(content) // 2 if not kind else 0
        for number, part in enumerate((content[:half], content[half:])):
            Path(folder, f"rank_{number}.log{kind}").write_bytes(part)
        shown_by(*VERBS[int(verb)], folder)


TARGETS = [Target("logs", logs, check, 30)]
(test_logs,) = map(short_form, TARGETS)
