"""job_verdicts.py: of much evidence the strongest is shown, and first."""

from __future__ import annotations

from rankdbg.investigations.hangs.job_verdicts import MOST_EVIDENCE, JobVerdict
from rankdbg.verdicts.hangs.accusations import Accusation
from rankdbg.verdicts.hangs.evidence import Evidence
from rankdbg.verdicts.hangs.judgement import Verdict
from rankdbg.verdicts.waits.wait_links import Link, Party

ENTERED = "all_reduce entered by 3 of 4 ranks"


def link(number: int) -> Link:
    proofs = f"thread {number} is inside `with lock`", f"thread {number} is in fetch data.py:41"
    return Link(Party("thread", "", "one"), "waits for", Party("thread", "", "other"), proofs)


def proofs(links: int) -> list[str]:
    chain = tuple(map(link, range(links)))
    finding = Accusation("waits-for-lock", (), (), "", "", "", 0, behind=chain)
    return JobVerdict(Verdict("stuck", (finding,), reasons=(ENTERED,)), Evidence([]), []).proofs(
        finding
    )


def test_what_holds_a_lock_comes_before_where_threads_are() -> None:
    assert proofs(2) == [
        "thread 0 is inside `with lock`",
        "thread 1 is inside `with lock`",
        "thread 0 is in fetch data.py:41",
        "thread 1 is in fetch data.py:41",
        ENTERED,
    ]


def test_threads_do_not_displace_what_recorders_tell() -> None:
    found = proofs(20)
    assert len(found) == MOST_EVIDENCE
    assert found[-1] == ENTERED
