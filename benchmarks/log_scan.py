"""Reading logs for all rules, beside `LC_ALL=C grep -F -f` with the same literals.

The logs are what jobs write: steps of several stacks, NCCL's chatter, progress bars,
tracebacks, and here and there a failure. Processor time, since the budget is for a core; grep
only looks for the literals, and counts lines. Of a compressed log its contents count; grep is
given them by `gzip -dc`, and both are measured with the unpacking.
"""

from __future__ import annotations

import argparse
import gzip
import os
import random
import resource
import tempfile
from collections.abc import Callable
from pathlib import Path

from _measuring import begin, command, processor_time, seconds, table

from rankdbg.logs.scan import Scanner
from rankdbg.verdicts.failures.log_lines import CLOCK
from rankdbg.verdicts.rules.log_rules import load_rules

ROUNDS = 3
ORDINARY = [
    " [2026-03-01 10:{m:02}:{s:02}.123] iteration {n:8d}/  100000 | consumed samples: {n:12d} | "
    "elapsed time per iteration (ms): 412.3 | learning rate: 1.5E-04 | global batch size: 512 | "
    "lm loss: 2.31E+00 | loss scale: 1.0 | grad norm: 0.412 |",
    "[rank{r}]:[titan] 2026-03-01 10:{m:02}:{s:02},123 - root - INFO - step: {n}  loss:  2.31  "
    "grad_norm:  0.41  memory: 61.2GiB(77.1%)  tps: 6,012  tflops: 312.11  mfu: 31.2%",
    "node-{r}:4711:4790 [{r}] NCCL INFO Channel {s:02}/0 : {r}[{r}] -> 1[1] via P2P/CUMEM/read",
    "INFO 03-01 10:{m:02}:{s:02} [loggers.py:116] Engine 000: Avg prompt throughput: 812.1 "
    "tokens/s, Avg generation throughput: 2310.4 tokens/s, Running: 64 reqs, Waiting: 0 reqs",
    "[2026-03-01 10:{m:02}:{s:02} TP{r}] Decode batch. #running-req: 12, #token: 9071, "
    "token usage: 0.41, cuda graph: True, gen throughput (token/s): 812.11, #queue-req: 0",
    "(WorkerDict pid=4711, ip=10.0.0.{r}) 2026-03-01 10:{m:02}:{s:02},123 DEBUG rollout of batch "
    "{n} took 3.21 s, reward 0.412, kl 0.0012, entropy 1.231, response length 812.2",
    "Epoch 1:  12%|#2        | {n}/100000 [10:{m:02}<1:12:{s:02},  2.31it/s, v_num=3]\r",
    '10.0.0.{r} - - [01/Mar/2026:10:{m:02}:{s:02}] "GET /health HTTP/1.1" 200 12 {n}',
]
TRACEBACK = [
    "Traceback (most recent call last):\n"
    '  File "/opt/venv/lib/python3.12/site-packages/torch/nn/modules/module.py", line 1751, in '
    "_wrapped_call_impl\n    return self._call_impl(*args, **kwargs)\n"
    '  File "/job/model.py", line {m}, in forward\n    return self.head(x)[{s}]\n'
    "KeyError: 'sample {n}'",
    *ORDINARY[:2],
]
WORDS = ["the", "of", "model", "rank", "layer", "token", "cache", "device", "a", "to", "{n}", "{s}"]
FAILURES = [
    "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3",
    "[rank1]:[E301 10:42:28.8 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=4486, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
    "Timeout(ms)=600000) ran for 600013 milliseconds before timing out.",
]


def write_log(path: Path, megabytes: int, lines: list[str]) -> None:
    numbers = random.Random(1)
    written = n = failures = 0
    with path.open("w") as file:
        while written < megabytes * 1_000_000:
            n += 1
            line = numbers.choice(lines)
            text = line.format(n=n, r=n % 8, m=n // 60 % 60, s=n % 60)
            written += file.write(text if text.endswith("\r") else text + "\n")
            if written // 5_000_000 > failures:
                failures += 1
                written += file.write(numbers.choice(FAILURES) + "\n")


def own_time() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200)
    megabytes = parser.parse_args().megabytes
    begin("log scan with all rules", "over 300 MB/s a core, never slower than grep -F")
    rules = load_rules()
    scanner = Scanner(rules.patterns(), CLOCK)
    literals = scanner.patterns.literals()
    print(f"{len(rules.patterns())} rules, {len(literals)} literals, {megabytes} MB")
    rows = [["", "rankdbg", "grep -F", "ratio"]]
    with tempfile.TemporaryDirectory() as directory:
        log, wanted = Path(directory, "job.log"), Path(directory, "literals")
        wanted.write_bytes(b"\n".join(literals) + b"\n")
        grep = command("grep", "-a", "-c", "-F", "-f", wanted, log, LC_ALL="C")
        for name, lines in {
            "no rule knows a line": ORDINARY[2:3] + ORDINARY[5:],
            "what jobs write": ORDINARY,
            "steps of Megatron-LM only": ORDINARY[:1],
            "steps of torchtitan only": ORDINARY[1:2],
            "tracebacks and steps": TRACEBACK,
            "words": [" ".join(random.Random(n).choices(WORDS, k=20)) for n in range(50)],
            "lines of 100 kB": [" ".join(ORDINARY[5:6] * 600)],
        }.items():
            write_log(log, megabytes, lines)
            rows.append([name, *compared(scanner, log, grep, os.path.getsize(log))])
        write_log(log, megabytes // 4, ORDINARY)
        size = os.path.getsize(log)
        packed = log.with_suffix(".gz")
        packed.write_bytes(gzip.compress(log.read_bytes(), 6))
        script = f"gzip -dc {packed} | grep -a -c -F -f {wanted}"
        unpack = command("sh", "-c", script, LC_ALL="C")
        rows.append(["what jobs write, gzipped", *compared(scanner, packed, unpack, size)])
    table(rows)


def compared(scanner: Scanner, log: Path, grep: Callable[[], object], size: int) -> list[str]:
    ours, theirs = [], []
    for _ in range(ROUNDS):  # in turns: a load from elsewhere hits both
        ours.append(seconds(lambda: scanner.scan(str(log)), own_time))
        theirs.append(seconds(grep, processor_time))
    speeds = [size / min(taken) / 1e6 for taken in (ours, theirs)]
    return [*(f"{speed:.0f} MB/s" for speed in speeds), f"{speeds[0] / speeds[1]:.1f} x"]


if __name__ == "__main__":
    main()
