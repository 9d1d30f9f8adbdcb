"""Accelerators of AMD and Ascend: errors of several lines are one failure, unknown codes are shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from log_texts import KNOWN
from rankdbg.logs.scan import Scanner
from rankdbg.verdicts.failures.log_lines import CLOCK
from rankdbg.verdicts.failures.root_causes import Diagnosis, diagnose
from rankdbg.verdicts.rules.log_rules import load_rules

RULES = load_rules()
SCANNER = Scanner(RULES.patterns(), CLOCK)
TIME = "2026-11-04-20:59:12.101.733"
ERR = "[ERROR] 2026-11-04-20:59:12 (PID:5120, Device:4, RankID:12)"
TRACEBACK = (
    'Traceback (most recent call last):\n  File "train.py", line 5, in <module>\n    main()\n'
)


def diagnosis(folder: Path, text: str) -> Diagnosis:
    log = folder / "job.log"
    log.write_text(text + "\n")
    return diagnose([SCANNER.scan(str(log))], RULES)


def modes(folder: Path, text: str) -> list[str]:
    return [failure.mode for failure in diagnosis(folder, text).failures]


@pytest.mark.parametrize("family", ["EA", "EB", "EE", "EF", "EG", "EH", "EK", "EL", "EM", "EO",
                                    "EP", "ER", "EU", "EZ", "E1", "E2", "E3", "E4", "E5", "E6",
                                    "E7", "E8", "E9"])  # fmt: skip
@pytest.mark.parametrize(
    "form",
    [
        "{code}: [PID: 5120] {time} text",
        "{code}[PID: 5120] {time} ({code}):  text",
        "[PID: 5120] {time} Some_Title({code}): text",
        "RuntimeError: CANN error: Some_Title({code}): text",
    ],
)
def test_a_code_that_is_in_no_list(tmp_path: Path, family: str, form: str) -> None:
    """It is named by its family, and shown as it is."""
    line = form.format(code=f"{family}0777", time=TIME)
    (failure,) = diagnosis(tmp_path, line).failures
    assert (failure.mode, failure.first.text) == ("ascend_error", line)


@pytest.mark.parametrize("code", ["EE9999", "EZ9999", "EH9999", "EL9999", "E19999", "E39999"])
@pytest.mark.parametrize("words", ["Inner Error!", "Internal error!"])
def test_headings_of_inner_errors(tmp_path: Path, code: str, words: str) -> None:
    assert modes(tmp_path, f"{code}: {words}") == ["ascend_error"]


@pytest.mark.parametrize("code", ["EI0001", "EI0099", "EI9999", "EJ0002", "EJ0042"])
def test_codes_of_collectives(tmp_path: Path, code: str) -> None:
    for line in (f"{code}: text", f"{code}: {TIME} text", f"[PID: 1] {TIME} Title({code}): text"):
        assert modes(tmp_path, line) == ["ascend_hccl_error"]


@pytest.mark.parametrize(
    ("mode", "lines"),
    [
        (
            "ascend_hccl_timeout",
            [
                "RuntimeError: InnerRunOpApi:build/OpParamMaker.cpp:281 OPS function error: "
                "HcclAllreduce, error code is 6",
                f"{ERR} ERR01100 OPS call acl api failed.",
                f"EI0006: [PID: 5120] {TIME} Getting socket times out. Reason: the remote is stuck",
            ],
        ),
        (
            "ascend_hccl_timeout",
            [
                "RuntimeError: ACL stream synchronize failed.",
                "EI9999: Inner Error!",
                f"EI9999: {TIME}  The error from device(chipId:3, dieId:0), serial number is 9, "
                "hccl fftsplus task timeout occurred during task execution, stream_id:5",
            ],
        ),
        (
            "ascend_error",
            [
                "RuntimeError: synchronize:build/NPUStream.cpp:361 NPU function error: "
                "AclrtSynchronizeStreamWithTimeout(stream()), error code is 507035",
                f"{ERR} ERR00100 PTA call acl api failed",
                "[Error]: The vector core execution is abnormal.",
                "EZ9999: Inner Error!",
                f"EZ9999[PID: 5120] {TIME} (EZ9999):  The error from device(chipId:1, dieId:0), "
                "serial number is 466, there is an exception of aivec error, core id is 14",
                "       Kernel task happen error, retCode=0x31, [vector core exception].",
            ],
        ),
        (
            "cuda_oom",
            [
                "torch.OutOfMemoryError: malloc:build/NPUCachingAllocator.cpp:90 NPU function "
                "error: aclrtMallocAlign32, error code is 207001",
                f"{ERR} ERR00100 PTA call acl api failed",
                f"EL0004: [PID: 5120] {TIME} Failed to allocate memory requested by RUNTIME module.",
            ],
        ),
        ("ascend_force_stop", ["RuntimeError: FORCE STOP.", f"{ERR} ERR00100 PTA call acl api failed"]),
        (
            "ascend_hardware",
            [
                "RuntimeError: synchronize:build/NPUStream.cpp:361 NPU function error: HCCS LINK "
                "ERROR, error code is 507057",
                f"{ERR} ERR00100 PTA call acl api failed",
            ],
        ),
    ],
)  # fmt: skip
def test_an_error_of_several_lines_is_one_failure(
    tmp_path: Path, mode: str, lines: list[str]
) -> None:
    """The wrappers of torch_npu around the code of CANN say less than the code."""
    assert modes(tmp_path, TRACEBACK + "\n".join(lines)) == [mode]


def test_an_error_of_the_program_on_an_npu(tmp_path: Path) -> None:
    """torch_npu adds ERR99999 to every exception that is not its own."""
    text = f"{TRACEBACK}ValueError: batch 7 is empty\n{ERR} ERR99999 UNKNOWN applicaiton exception"
    found = diagnosis(tmp_path, text)
    assert [failure.mode for failure in found.failures] == ["python_error"]
    assert "batch 7 is empty" in found.failures[0].first.text


def test_the_rank_of_torch_npu(tmp_path: Path) -> None:
    """Its own line names the rank within the job; that of HCCL counts within a group."""
    (failure,) = diagnosis(tmp_path, f"{ERR} ERR00100 PTA call acl api failed").failures
    assert failure.ranks == (12,)
    (failure,) = diagnosis(tmp_path, f"{ERR.replace('12', '-1')} ERR00100 PTA x").failures
    assert failure.ranks == ()
    waits = "The Notify register has not received the Notify record from remote rank: [24]"
    line = (
        f"EI0002: [PID: 5120] {TIME} The wait execution of the Notify register times out. {waits}"
    )
    (failure,) = diagnosis(tmp_path, line).failures
    assert failure.ranks == ()


def test_a_fault_of_memory_before_a_hang(tmp_path: Path) -> None:
    """The kernel's lines of one GPU: the error is the cause, the reset follows from it."""
    lines = [
        "[ 912.1] amdgpu 0000:9b:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!",
        "[ 912.2] amdgpu 0000:9b:00.0: amdgpu: GPU reset begin!. Source:  3",
        "[ 920.1] amdgpu 0000:9b:00.0: amdgpu: GPU reset(1) succeeded!",
    ]
    assert modes(tmp_path, "\n".join(lines)) == ["amdgpu_uncorrectable"]


def test_a_gpu_that_cannot_be_reset(tmp_path: Path) -> None:
    lines = [
        "[ 912.2] amdgpu 0000:9b:00.0: amdgpu: GPU reset begin!. Source:  1",
        "[ 912.3] amdgpu 0000:9b:00.0: amdgpu: device lost from bus!",
        "[ 912.4] amdgpu 0000:9b:00.0: amdgpu: GPU reset end with ret = -19",
    ]
    assert modes(tmp_path, "\n".join(lines)) == ["amdgpu_lost"]


@pytest.mark.parametrize("mode", ["ascend_peer_lost", "ascend_roce_error"])
def test_the_host_that_hccl_blames(mode: str) -> None:
    text = next(text for known, text in KNOWN if known == mode)
    found = re.search(RULES.failures[mode].about, text)
    assert found is not None
    assert found["peer"] == "10.8.0.14"


@pytest.mark.parametrize(
    ("process", "pid"), [(", for process pt main pid 71 thread a pid 72", "71"),
                         (", for process  pid 71 thread  pid 72", "71"), ("", None)],
)  # fmt: skip
def test_the_process_of_a_page_fault(process: str, pid: str | None) -> None:
    """Its name may be empty, or have blanks. New kernels say it in the next line."""
    line = f"amdgpu 0000:9b:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:3{process})"
    found = re.search(RULES.failures["amdgpu_page_fault"].about, line)
    assert found is not None
    assert (found["bus"], found["pid"]) == ("0000:9b:00.0", pid)
