"""A driver of Spark that waits for Java, while Python workers of the job run its tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rankdbg.verdicts.hangs.hang_rules import Sign

IN_SPARK = "waits-for-spark"
_WORKER = "/pyspark/worker.py"


def settle(signs: Sequence[Sign]) -> list[Sign]:
    """The driver waits for these workers then, as ranks wait for each other: unless one of them is at
    work, which may take any time. Without a task, Java alone is at work, or nothing is."""
    if not any(sign.rule.cause == IN_SPARK for sign in signs):
        return [*signs]
    tasks = [sign for sign in signs if _runs_task(sign)]
    if not tasks or any(_works(sign) for sign in tasks):
        return [*signs]
    return [
        replace(sign, rule=replace(sign.rule, role="collective"))
        if sign.rule.cause == IN_SPARK
        else sign
        for sign in signs
    ]


def _runs_task(sign: Sign) -> bool:
    """One that waits for a task is idle."""
    stacks = [stack for sample in sign.seen.samples for stack in sample if stack.main]
    in_spark = any(frame.file.endswith(_WORKER) for stack in stacks for frame in stack.frames)
    return in_spark and sign.rule.role != "idle"


def _works(sign: Sign) -> bool:
    return sign.rule.role == "working" or sign.seen.stirred or sign.seen.works
