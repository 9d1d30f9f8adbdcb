"""Lines -> messages: a traceback is one message, and so is a line with its indented lines."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rankdbg.logs.prefixes import Line, take_apart, without_progress

LONGEST_LINE = 4000  # characters; the rest of a longer one is not shown
CUT = f" … (cut after {LONGEST_LINE} characters)"
_MOST_LINES = 1000  # of one message
_BLANK = " \t\n\r\0"  # a file that was truncated while it was written has a hole of zeros
_TRACEBACK = re.compile(r"Traceback \(most recent call last\)|\s*\+ Exception Group Traceback")
_BETWEEN = re.compile(r"During handling of the above exception|The above exception was the direct")
# What Ray's workers write for Ray itself.
_MARKS = re.compile(r"^:(?:job_id|actor_name|task_name):")
_FAULT = re.compile(r"\b(?:ERROR|CRITICAL|FATAL|EXCEPTION)\b")


# What a line says about its writer; None if it says nothing.
Writer = tuple[object, ...]


class Message:
    """A line, and those that belong to it."""

    __slots__ = (
        "head", "in_traceback", "lines", "number", "raw", "stamp", "stamped_by", "traced"
    )  # fmt: skip

    def __init__(
        self, head: Line, raw: str, number: int, stamp: str, stamped_by: Writer | None
    ) -> None:
        self.head = head
        self.number = number  # of its first line, from 0
        self.stamp = stamp  # its clock, or that of the line that it follows
        self.stamped_by = stamped_by  # who has written the line with that clock
        self.raw = [raw]
        self.lines = [head.text]
        self.in_traceback = self.traced = bool(_TRACEBACK.match(head.text))

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def is_dated(self) -> bool:
        """Whether its clock is of its writer, and not of another rank that writes the same file."""
        return self.is_dated_by(self.stamped_by)

    def is_dated_by(self, writer: Writer | None) -> bool:
        return writer == _writer(self.head)

    def add(self, text: str, raw: str) -> None:
        self.lines.append(text)
        self.raw.append(raw)

    def takes(self, text: str) -> bool:
        """Whether a line without a timestamp belongs to this message."""
        if len(self.lines) >= _MOST_LINES:
            return False
        if text.startswith(("  ", "\t", "^")) or text in ("}", "]", ")", "},", "],", "),"):
            return True
        if self.in_traceback:  # the exception itself
            self.in_traceback = False
            return True
        if self.traced and _TRACEBACK.match(text) and _BETWEEN.match(self.lines[-1]):
            self.in_traceback = True
            return True
        return self.traced and bool(_BETWEEN.match(text))


def messages(lines: Iterable[str], labelled: bool, stamp: str = "") -> list[Message]:
    """In the order of their first lines; lines of several ranks in one file may alternate.
    `stamp` is the last timestamp before these lines."""
    made: list[Message] = []
    last_of: dict[Writer, Message] = {}
    stamped_by: Writer | None = None
    for number, raw in enumerate(lines):
        for piece in without_progress(raw):
            shown = piece[:LONGEST_LINE]
            if not shown.strip(_BLANK) or _MARKS.match(shown):
                continue
            piece = shown if len(shown) == len(piece) else shown + CUT
            line = take_apart(piece, labelled)
            speaker = _writer(line)
            before = last_of.get(speaker) if speaker else (made[-1] if made else None)
            if before is not None and not line.stamp and before.takes(line.text):
                before.add(line.text, piece)
                continue
            if before is not None and not speaker and _is_cause_of(before, line):
                line = before.head._replace(stamp="", text=line.text, repeated=0)
            if line.stamp:
                stamp, stamped_by = line.stamp, speaker
            made.append(Message(line, piece, number, stamp, stamped_by))
            if speaker:
                last_of[speaker] = made[-1]
    return made


def _writer(line: Line) -> Writer | None:
    return line[1:5] if line.attributed else None


def _is_cause_of(before: Message, line: Line) -> bool:
    """`logging.exception` puts its prefix before the first line alone."""
    return bool(_TRACEBACK.match(line.text) and _FAULT.search(before.head.text))


def begins(data: bytes) -> int:
    """The place of the first line in a part of a file with which a message surely begins."""
    place = data.find(b"\n") + 1
    fallback = 0
    for raw in data[place : place + (1 << 16)].split(b"\n")[:-1]:
        line = take_apart(raw[:LONGEST_LINE].decode("utf-8", "replace"))
        if line.stamp:
            return place
        if not fallback and line.text and not line.text[0].isspace():
            fallback = place
        place += len(raw) + 1
    return fallback
