"""The name of a job, by the command that starts it."""

from __future__ import annotations

import pytest

from rankdbg.frontends.cli.run import job_name


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "-u", "/src/train.py", "--lr", "1"], "train"),
        (["torchrun", "--nproc-per-node=8", "src/train.py"], "train"),
        (["python", "-m", "trainer.main"], "main"),
        (["vllm", "serve", "llama"], "vllm"),
        (["env", "NCCL_DEBUG=INFO", "vllm", "serve", "llama"], "vllm"),
        (["numactl", "--cpunodebind=0", "python", "-m", "trainer.main"], "main"),
        (["/usr/bin/nice", "-n", "5", "env", "A=b", "vllm", "serve"], "vllm"),
        (["timeout", "3h", "vllm", "serve"], "vllm"),
        (["sh", "-c", "cd /src && exec python train.py --lr 1"], "train"),
        (["bash", "-c", "ulimit -n 100000; ./launch.sh"], "launch"),
        (["/my runs/big train.sh", "of today.py"], "bigtrain"),
        (["torchrun", "--config=conf/small.py", "train.py"], "train"),
        (["env"], "env"),
        (["env", "A=b"], "env"),
    ],
)
def test_name_of_the_job(command: list[str], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what is started, not of what is put before it; and four digits."""
    monkeypatch.delenv("SLURM_STEP_ID", raising=False)
    assert job_name(command).rpartition("-")[0] == name
