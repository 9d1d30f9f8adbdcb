"""What a process wrote without clocks is timed by the file into which it wrote with them."""

from __future__ import annotations

import pytest

from rankdbg.verdicts.failures.output_pairs import other_stream


@pytest.mark.parametrize(
    ("path", "other"),
    [
        ("logs/worker-5f01-01000000-77.err", "logs/worker-5f01-01000000-77.out"),
        ("logs/sft-88-5.err", "logs/sft-88-5.out"),
        ("run/attempt_0/3/stderr.log", "run/attempt_0/3/stdout.log"),
        ("run/attempt_0/3/stdout.log", "run/attempt_0/3/stderr.log"),
        ("logs/sampler.err.log", "logs/sampler.out.log"),
        ("sampler_stderr.txt", "sampler_stdout.txt"),
        ("job.e4711", "job.o4711"),
    ],
)
def test_other_stream(path: str, other: str) -> None:
    """The two files of one process are called alike."""
    assert other_stream(path, {path, other}) == other


@pytest.mark.parametrize("path", ["logs/router.log", "timeout.log", "err.d/node-1.log"])
def test_no_other_stream(path: str) -> None:
    """A name in which a stream is only part of a word, or a folder, has no other."""
    assert other_stream(path, {path, "logs/rerrer.log", "timeerr.log"}) == ""
