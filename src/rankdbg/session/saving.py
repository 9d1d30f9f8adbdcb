"""What a session leaves out of a snapshot: other jobs, and secrets."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from rankdbg import wire
from rankdbg.process import masking
from rankdbg.wire.decoding import BadField
from rankdbg.wire.table import check_answer

if TYPE_CHECKING:
    from rankdbg.clusters.snapshot.merged_parts import Asked


def for_snapshot(asked: Iterable[Asked], jobs: Collection[str]) -> list[Asked]:
    """Without invalid answers. `jobs`: only these belong in the snapshot; empty: all."""
    return [_to_save(*pair, jobs) for pair in asked if _is_valid(*pair)]


def _is_valid(question: wire.Message, answer: Any) -> bool:
    try:
        check_answer(question, answer)
    except BadField:
        return False
    return True


def _to_save(question: wire.Message, answer: Any, jobs: Collection[str]) -> Asked:
    if question["ask"] == "roster" and jobs:
        ours = [entry for entry in answer["processes"] if entry["job"] in jobs]
        return question, {**answer, "processes": ours, "notes": [], "other_users": []}
    if question["ask"] == "evaluate":
        return question, _without_secrets(str(question.get("expression")), answer)
    return question, answer


def _without_secrets(expression: str, answer: Any) -> Any:
    """Values are shown unmasked to the user; in a saved file secrets are masked."""
    answers = [
        {**entry, "value": _without_secret(expression, entry["value"])}
        for entry in answer.get("answers", ())
    ]
    return {**answer, "answers": answers}


def _without_secret(expression: str, value: dict[str, Any]) -> dict[str, Any]:
    text = str(value.get("text", ""))
    masked = masking.mask_value(expression, text)
    if masked == text:
        return value
    # Length, number and digest would reveal something too.
    return {"kind": "text", "text": masked, "length": len(masked), "type": value.get("type", "")}
