"""What a rank that holds others up has logged last: evidence beside its stack.

A rank that has caught an exception and gone on, that retries again and again, or that writes a
checkpoint, often says so in its last messages, while its stack shows a sleep or a read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from rankdbg.logs.kinds import normalised
from rankdbg.text.amounts import duration
from rankdbg.text.cutting import cut

# Messages, of which the last ones count.
MOST_MESSAGES = 50
# So many equal ones are a loop.
OFTEN = 3
LONGEST = 160
_EXCEPTION = re.compile(
    r"^\s*(?:.*?\s)?([A-Za-z_][\w.]*(?:Error|Exception|Timeout|TimeoutExpired))(?:: .*|$)"
)
_RETRY = re.compile(r"\b(?:re-?try(?:ing)?|retries|attempt|backing off|reconnect(?:ing)?)\b", re.I)
_SAVING = re.compile(r"\b(?:sav(?:e|ing)|writ(?:e|ing)|upload(?:ing)?)\b.*\bcheckpoint", re.I)
_CHECKPOINT = re.compile(r"\bcheckpoint.*\b(?:sav(?:e|ing)|writ(?:e|ing)|upload(?:ing)?)\b", re.I)
_DONE = re.compile(r"\b(?:saved|done|finished|complete(?:d)?|written)\b", re.I)


_OURS = re.compile(r"rankdbg: ")  # a debugger says nothing about what the program does


class LoggedMessage(NamedTuple):
    text: str
    age: float | None  # seconds ago


def evidence_in(
    who: str, messages: Sequence[LoggedMessage], held_at_exception: bool = False
) -> list[str]:
    """What the last messages of a rank show, oldest first; the last one in any case.
    `held_at_exception`: in the debugger, so that it has not gone on after the last one."""
    messages = [message for message in messages if not _OURS.match(message.text)][-MOST_MESSAGES:]
    if not messages:
        return []
    last = messages[-1]
    found = [] if held_at_exception else _exceptions(who, messages)
    found += _retries(who, messages)
    if _is_saving(last.text):
        found.append(f"{who} was writing a checkpoint when it logged last")
    return [*found, f"{who} logged last{_ago(last)}: {_shown(last.text)}"]


def _exceptions(who: str, messages: Sequence[LoggedMessage]) -> list[str]:
    """The last one that it has logged, after which it went on."""
    for message in reversed(messages):
        for line in reversed(message.text.splitlines()):
            if _EXCEPTION.match(line):
                return [f"{who} logged an exception{_ago(message)} and went on: {_shown(line)}"]
    return []


def _retries(who: str, messages: Sequence[LoggedMessage]) -> list[str]:
    kinds: dict[str, list[LoggedMessage]] = {}
    for message in messages:
        if _RETRY.search(message.text):
            kinds.setdefault(normalised(message.text), []).append(message)
    most = max(kinds.values(), key=len, default=[])
    if len(most) < OFTEN:
        return []
    return [f"{who} retries: {len(most)} times in its last {len(messages)} messages"]


def _is_saving(text: str) -> bool:
    is_about = _SAVING.search(text) or _CHECKPOINT.search(text)
    return bool(is_about) and not _DONE.search(text)


def _ago(message: LoggedMessage) -> str:
    return "" if message.age is None else f", {duration(max(0.0, message.age))} ago"


def _shown(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return cut(" ".join(lines[-1].split()), LONGEST) if lines else ""
