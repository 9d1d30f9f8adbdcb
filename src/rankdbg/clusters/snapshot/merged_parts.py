"""Merge the answers saved by single processes into those of their node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Asked = tuple[dict[str, Any], Any]  # a question and its answer


def merge(parts: Sequence[Iterable[Asked]]) -> list[Asked]:
    """Each part has one question of each kind; equal kinds are merged."""
    by_kind: dict[str, list[Asked]] = {}
    for part in parts:
        for question, answer in part:
            by_kind.setdefault(str(question.get("ask")), []).append((question, answer))
    return [
        (pairs[0][0], _MERGE.get(kind, _relayed)([answer for _, answer in pairs]))
        for kind, pairs in by_kind.items()
    ]


def _roster(answers: list[Any]) -> Any:
    processes = sorted(_all(answers, "processes"), key=lambda entry: entry["start"])
    taken = {entry["number"] for entry in processes}
    free = (number for number in range(len(taken) + len(processes)) if number not in taken)
    numbered = [
        {**entry, "number": next(free)}
        if entry["kind"] == "rank" and entry["number"] is None
        else entry
        for entry in processes
    ]
    return {**answers[0], "processes": numbered}


def _stacks(answers: list[Any]) -> Any:
    distinct: list[Any] = []
    processes = []
    for answer in answers:
        for entry in answer["processes"]:
            samples = [len(distinct) + index for index in entry["samples"]]
            processes.append({**entry, "samples": samples})
        distinct += answer["distinct"]
    return {"distinct": distinct, "processes": processes, "silent": _all(answers, "silent")}


def _relayed(answers: list[Any]) -> Any:
    return {"answers": _all(answers, "answers"), "silent": _all(answers, "silent")}


def _all(answers: list[Any], name: str) -> list[Any]:
    return [entry for answer in answers for entry in answer[name]]


_MERGE = {"roster": _roster, "stacks": _stacks}
