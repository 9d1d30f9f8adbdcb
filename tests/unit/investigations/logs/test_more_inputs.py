"""What schedulers, kernels and accelerators print -> the failure, its rank or host; or none."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from rankdbg.investigations.logs.log_diagnosis import LogDiagnosis
from rankdbg.investigations.logs.log_sources import given_logs
from rankdbg.verdicts.rules.log_rules import load_rules

RULES = load_rules()


def diagnose(path: Path) -> LogDiagnosis:
    source = given_logs([str(path)], RULES.patterns())
    return LogDiagnosis.of(source.scan(), RULES, None)


def failures(folder: Path, text: str, name: str = "log.txt") -> list[tuple[str, str]]:
    """The modes and roles of what failed."""
    (folder / name).write_text(text)
    return [(each.mode, each.role) for each in diagnose(folder / name).failures]


def xid(number: int) -> str:
    place = "[Tue Nov 17 04:10:02 2026] NVRM: Xid (PCI:0000:91:00)"
    return f"{place}: {number}, pid=4711, name=python, something\n"


@pytest.mark.parametrize(
    ("mode", "numbers"),
    [
        ("xid_79_off_bus", (79,)),
        ("xid_48_dbe", (48, 64, 95, 140, 171, 172)),
        ("xid_94_contained", (94,)),
        ("xid_63_row_remap", (63, 92, 156)),
        ("xid_74_nvlink", (74, 136, 144, 145, 149, 150, 155)),
        ("xid_gpu_halted", (46, 54, 61, 62, 110, 143, 151, 158, 167, 169)),
        ("xid_app_other", (8, 11, 25, 32, 39, 40, 41, 60, 68, 69, 70, 80, 85, 105, 126, 137, 142)),
        ("xid_informational", (37, 44, 66, 93, 107, 121, 141, 157, 160)),
        ("xid_13_app", (13,)),
        ("xid_31_mmu_fault", (31,)),
        ("xid_13_109_app", (109,)),
        ("xid_119_gsp_timeout", (119, 120)),
        ("xid_154_recovery_action", (154,)),
        ("xid_other", (999, 1, 159, 630, 794)),
    ],
)
def test_xid_by_severity(tmp_path: Path, mode: str, numbers: tuple[int, ...]) -> None:
    """Each number has one mode; one that nothing is known of is shown, not swallowed."""
    for number in numbers:
        assert [each for each, _ in failures(tmp_path, xid(number))] == [mode], number


def test_what_a_gpu_survives_is_no_cause_beside_what_it_does_not(tmp_path: Path) -> None:
    """63 and 154 say what the GPU has done about it; 79 is the cause."""
    found = failures(tmp_path, xid(63) + xid(79) + xid(154))
    assert [mode for mode, role in found if role == "root"] == ["xid_79_off_bus"]


@pytest.mark.parametrize(
    ("line", "mode"),
    [
        ("amdgpu 0000:c1:00.0: amdgpu: [gfxhub0] retry page fault (src_id:0 ring:0 vmid:8 "
         "pasid:32769, for process python pid 4711 thread python pid 4711)", "amdgpu_page_fault"),
        ("amdgpu 0000:c1:00.0: amdgpu: 2 uncorrectable hardware errors detected in umc block",
         "amdgpu_uncorrectable"),
        ("amdgpu 0000:c1:00.0: amdgpu: ring sdma0 timeout, signaled seq=1, emitted seq=2",
         "gpu_hang"),
        ("[rank3]: RuntimeError: HIP error: invalid argument", "hip_error"),
        ("[rank3]: torch.AcceleratorError: HIP error: an illegal memory access was encountered",
         "cuda_illegal_access"),
        ("EI0002: 2026-11-17-04:10:02.123.456 The wait execution of the Notify register times "
         "out.", "ascend_hccl_timeout"),
        ("EI0005: 2026-11-17-04:10:02.123.456 The arguments for collective communication are "
         "inconsistent between ranks", "ascend_hccl_error"),
        ("[rank3]: RuntimeError: [ERROR] 2026-11-17-04:10:02 (PID:4711, Device:3, RankID:3) "
         "ERR02200 DIST call hccl api failed.", "ascend_hccl_error"),
        ("EE9999: Inner Error! EE9999  [PID: 4711] rtStreamSynchronize failed", "ascend_error"),
        ("EZ9999: Inner Error! The error from device(2), aicore exception", "ascend_error"),
        ("4711|train|OUT_OF_MEMORY|0:125|01:10:00|gpu-c[01-08]", "cgroup_oom_slurm"),
        ("4711              train  NODE_FAIL      0:0    01:10:00   gpu-c[01-08]",
         "slurm_node_failed"),
        ("4713.0            torch    TIMEOUT      0:0   1-00:00:11", "slurm_time_limit"),
        ("4714              train     FAILED      1:0   00:10:11", "slurm_job_failed"),
        ("   JobState=NODE_FAIL Reason=NodeDown Dependency=(null)", "slurm_node_failed"),
        ("   JobState=TIMEOUT Reason=TimeLimit Dependency=(null)", "slurm_time_limit"),
        ("   State=DOWN*+DRAIN ThreadsPerCore=2 TmpDisk=0 Weight=1", "slurm_node_down"),
        ("Message:          The node was low on resource: pids. Threshold quantity: 10",
         "k8s_evicted"),
        ("      Reason:       OOMKilled", "k8s_oomkilled"),
        ("8m          Normal    NodeNotReady       node/gpu-c07   Node gpu-c07 status is now: "
         "NodeNotReady", "k8s_node_not_ready"),
        ("9m   Warning   FailedScheduling   pod/w-6   0/12 nodes are available: 12 Insufficient "
         "nvidia.com/gpu.", "k8s_pod_not_scheduled"),
        ("  Warning  FailedMount  2m  kubelet  MountVolume.SetUp failed for volume \"data\" : x",
         "k8s_volume_not_mounted"),
        ("  Warning  BackOff  2m  kubelet  Back-off restarting failed container main in pod w-3",
         "k8s_container_restarts"),
    ],
)  # fmt: skip
def test_one_line(tmp_path: Path, line: str, mode: str) -> None:
    """By family where single codes are not known."""
    assert [each for each, _ in failures(tmp_path, f"{line}\n")] == [mode]


@pytest.mark.parametrize(
    "line",
    [
        "4713.0            torch  COMPLETED      0:0   00:10:11",
        "4713              train     FAILED      0:0   00:10:11",
        "   State=MIXED ThreadsPerCore=2 TmpDisk=0 Weight=1",
        "   JobState=RUNNING Reason=None TimeLimit=2-00:00:00",
        "75m  Normal  Scheduled  pod/w-0  Successfully assigned train/w-0 to gpu-c01",
        "amdgpu 0000:c1:00.0: amdgpu: 0 uncorrectable hardware errors detected in umc block",
        "NVRM: Xid (PCI:0000:91:00): 154, GPU recovery action changed from 0x1 (GPU Reset) to 0x0 (None)",
        "E1117 04:10:02.123 4711 torch/distributed/run.py:12] step EE1 of EI7",
        "2026-11-17 INFO HCCL buffer size 200 MB, exec timeout 1800 s configured",
        "unit tests: 3 FAILED, 20 passed",
        "loading shard E10123.bin and EZ9999.json",
    ],
)
def test_lines_that_are_no_failure(tmp_path: Path, line: str) -> None:
    """What is in order, and what only looks like a code."""
    assert failures(tmp_path, f"{line}\n") == []


KERNEL = "NVRM: Xid (PCI:0000:91:00): 79, pid=4711, name=python, GPU has fallen off the bus."


@pytest.mark.parametrize(
    ("prefix", "has_time"),
    [
        ("[ 1234.567890] ", False),
        ("[Tue Nov 17 04:10:02 2026] ", True),
        ("2026-11-17T04:10:02,123456+00:00 ", True),
        ("2026-11-17T04:10:02+0000 gpu-c07 kernel: ", True),
        ("Nov 17 04:10:02 gpu-c07 kernel: ", True),
    ],
)
def test_clocks_of_kernels(tmp_path: Path, prefix: str, has_time: bool) -> None:
    """dmesg since boot, dmesg -T, dmesg --time-format=iso, and journalctl in two formats."""
    path = tmp_path / "dmesg.txt"
    path.write_text(f"{prefix}{KERNEL}\n")
    (failure,) = diagnose(path).failures
    assert failure.mode == "xid_79_off_bus"
    assert (failure.time is not None) == has_time


def test_lines_of_json(tmp_path: Path) -> None:
    """The rank of a record, and the traceback in one of its fields."""
    oom = {"asctime": "2026-11-15 10:41:07,123", "levelname": "ERROR", "rank": 3}
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps({**oom, "message": "torch.OutOfMemoryError: CUDA out of memory."}))
    (failure,) = diagnose(path).failures
    assert (failure.mode, failure.ranks) == ("cuda_oom", (3,))
    trace = (
        'Traceback (most recent call last):\n  File "x.py", line 3, in step\nmy.Damaged: shard 7'
    )
    path.write_text(json.dumps({**oom, "message": "failed", "exc_info": trace}) + "\n")
    (failure,) = diagnose(path).failures
    assert (failure.mode, failure.ranks) == ("python_error", (3,))
    assert failure.first.text.startswith("my.Damaged: shard 7")


def test_exception_that_no_rule_knows_is_a_cause(tmp_path: Path) -> None:
    """Whatever its name, and without any clock; but not if a rule explains it."""
    trace = 'Traceback (most recent call last):\n  File "x.py", line 3, in step\n    raise X\n'
    for error in ("my.pkg.ShardDamaged: shard 7", "ShardDamaged: shard 7", "StopTraining"):
        assert failures(tmp_path, f"{trace}{error}\n") == [("python_error", "root")]
    known = failures(tmp_path, f"{trace}torch.OutOfMemoryError: CUDA out of memory. Tried\n")
    assert known == [("cuda_oom", "root")]


def test_compressed_logs(tmp_path: Path) -> None:
    """gzip, and zstd by the package or the program."""
    with gzip.open(tmp_path / "log.gz", "wt") as file:
        file.write(xid(79))
    assert [each.mode for each in diagnose(tmp_path / "log.gz").failures] == ["xid_79_off_bus"]
    if shutil.which("zstd"):
        (tmp_path / "log").write_text(xid(79))
        subprocess.run(["zstd", "-q", "--rm", tmp_path / "log"], check=True)
        found = diagnose(tmp_path / "log.zst").failures
        assert [each.mode for each in found] == ["xid_79_off_bus"]


def test_lines_in_a_document_are_safe_and_short(tmp_path: Path) -> None:
    """As in the text: control characters are spelled out, and a long line is cut."""
    rest = f"CUDA out of memory. \x1b]52;c;x\x07 \u202e{'y' * 5000}"
    failures(tmp_path, f"torch.OutOfMemoryError: {rest}\nRuntimeError: CUDA error: {rest}\n")
    document = diagnose(tmp_path / "log.txt").as_json()
    lines = [line for failure in document["failures"] for line in failure["lines"]]
    lines += [event["line"] for event in document["events"]]
    assert lines
    assert all(r"\x1b]52;c;x\x07 \u202ey" in line and len(line) == 1000 for line in lines)
    assert all(line.isprintable() for line in lines)
