"""A driver of Spark and its Python workers: for whom it waits."""

from __future__ import annotations

from dataclasses import replace

from rankdbg.types import Frame, ProcessKey, Rank, Stack
from rankdbg.verdicts.hangs.evidence import Evidence, Seen
from rankdbg.verdicts.hangs.hang_rules import load_hang_rules
from rankdbg.verdicts.hangs.judgement import Verdict, judge
from rankdbg.wire.answers import Vitals

RULES = load_hang_rules()
PACKAGES = "/env/lib/python3.11/site-packages"
IN_JAVA = (
    Frame("SocketIO.readinto", "/usr/lib/python3.11/socket.py", 706),
    Frame("ClientServerConnection.send_command", f"{PACKAGES}/py4j/clientserver.py", 535),
    Frame("RDD.collect", f"{PACKAGES}/pyspark/core/rdd.py", 1699),
    Frame("<module>", "/job/etl.py", 10),
)
IN_WORKER = (
    Frame("main", f"{PACKAGES}/pyspark/worker.py", 4364),
    Frame("worker", f"{PACKAGES}/pyspark/daemon.py", 90),
)
IN_TASK = (Frame("parse", "/job/etl.py", 6), *IN_WORKER)
WAITS_FOR_A_TASK = (Frame("read_int", f"{PACKAGES}/pyspark/serializers.py", 600), *IN_WORKER)
IN_A_SOCKET = Vitals(at=0.0, state="S", call="recvfrom", age=100.0, switches=5)
ASLEEP = replace(IN_A_SOCKET, call="clock_nanosleep")


def seen(
    role: str, pid: int, frames: tuple[Frame, ...], before: Vitals, steps: int = 0, cpu: float = 0.0
) -> Seen:
    """Over nine seconds."""
    rank = Rank(ProcessKey("node-1", pid, 1), "etl", number=0, role=role)
    after = replace(before, at=9.0, cpu=9 * cpu, switches=before.switches + steps)
    return Seen(rank, [(Stack("MainThread", True, frames),)] * 12, before=before, after=after)


DRIVER = seen("driver", 10, IN_JAVA, IN_A_SOCKET)


def verdict_on(*workers: Seen) -> Verdict:
    return judge(Evidence([DRIVER, *workers]), RULES)


def test_worker_that_makes_no_progress() -> None:
    """It is the culprit, and the driver waits for it."""
    verdict = verdict_on(
        seen("worker", 11, IN_TASK, ASLEEP), seen("worker", 12, WAITS_FOR_A_TASK, IN_A_SOCKET)
    )
    (finding,) = verdict.findings
    assert [rank.pid for rank in finding.ranks] == [11]
    assert (verdict.state, finding.cause) == ("stuck", "sleeping")
    assert [sign.seen.rank.role for sign in verdict.waiting] == ["driver"]


def test_worker_at_work() -> None:
    """There is no culprit."""
    verdict = verdict_on(seen("worker", 11, IN_TASK, replace(IN_A_SOCKET, state="R"), cpu=0.9))
    assert (verdict.state, verdict.findings) == ("moving", ())


def test_java_alone() -> None:
    """No Python worker runs a task: Java may be at work, and no rank is accused."""
    assert verdict_on().state == "idle"
    assert verdict_on(seen("worker", 12, WAITS_FOR_A_TASK, IN_A_SOCKET)).state == "idle"
