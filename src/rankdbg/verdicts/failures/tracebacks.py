"""Python tracebacks in logs: where one ends, and what the error was in a chain of several."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from rankdbg.logs.patterns import Hit

_START = "Traceback (most recent call last)"
_CHAIN = re.compile(
    r"(During handling of the above exception|The above exception was the direct cause)"
)
_ERROR = re.compile(r"^(?P<name>[A-Za-z_][\w.]*(?:\([\w.]+\))?)(?::\s|$|:$)(?P<text>.*)")
_NAMES = re.compile(
    r"(Error|Exception|Exit|Interrupt|Iteration|Warning|Failure|Fault|Timeout|Died|OOM)\b|(?:^|\.)[A-Z]\w+$"
)
_PASSED_ON = re.compile(r"(ray\.exceptions\.)?RayTaskError\(")
# What Ray's driver puts before each line of an actor: (Trainer pid=320, ip=10.0.0.2)
_SPEAKER = re.compile(r"^\s*\([^()]{1,120}\bpid=\d+[^()]{0,80}\) ?")
# What srun and torchrun put before each line of a rank: `12: `, `[rank12]: `, `[default3]:`
_LABEL = re.compile(r"^ {0,5}(?:\d{1,6}: ?(?!\d))?(?:\[(?:rank|default) ?\d{1,6}\]: ?)?")
# Traceback (most recent call last): (RANK 3)
_OF_RANK = re.compile(r"\(RANK (\d{1,6})\)\s*$")
_OF_PROCESS = re.compile(r"-- Process (\d{1,6}) terminated with the following error:\s*$")
# How programs say that they go on after an error.
GOES_ON = re.compile(
    r"(?i)\b(informational|non-?fatal|ignor(ed|ing)|not critical|will (retry|be retried|be downloaded)"
    r"|falling back|fall back|continuing (without|anyway)|retrying|retry loop|handled|recovered"
    r"|skipp(ed|ing))\b"
)
_LAST_TRY = re.compile(r"(?i)\b(?:try|attempt|retry)\W{1,3}(\d+) ?(?:/|of) ?\1\b")
_CALM_LEVEL = re.compile(r"\b(WARN(ING)?|INFO|DEBUG|NOTICE|warn(ing)?|info|debug)\b")
_LOUD_LEVEL = re.compile(r"\b(ERROR|CRITICAL|FATAL|error|critical|fatal)\b")


@dataclass(frozen=True)
class Traceback:
    first: int  # line numbers
    last: int
    errors: tuple[str, ...]  # of a chain, the cause first
    where: str  # File "train.py", line 8, in step: the innermost frame of the first
    code: frozenset[int] = frozenset()  # its lines that are quoted from programs

    @property
    def error(self) -> str:
        return self.errors[0]

    @property
    def text(self) -> str:
        return self.error + (f"   ({self.where})" if self.where else "")


def read_traceback(hit: Hit) -> Traceback | None:
    """The whole of it, chains included, from the line that starts it. None if it is cut short."""
    if record := _of_record(hit.text):
        return _read(hit._replace(text=_START, after=record), "")
    return _read(hit, hit.text[: hit.text.index(_START)])


def label_of(line: str) -> str:
    """The rank that a launcher puts before a line, as it writes it; `` if it does not."""
    found = _LABEL.match(line)
    return found[0].strip() if found else ""


def rank_told(hit: Hit) -> int | None:
    """The rank that has raised it, where another process prints it: torch's distributed checkpoints
    say it on the first line, torch.multiprocessing.spawn on the line before."""
    label = label_of(hit.text)
    own = [line for line in hit.before if label_of(line) == label]
    found = _OF_RANK.search(hit.text) or (_OF_PROCESS.search(own[-1]) if own else None)
    return int(found[1]) if found else None


def is_ignored(hit: Hit) -> bool:
    """Whether Python says that it goes on after the exception: in a destructor, or at its exit."""
    label = label_of(hit.text)
    own = [line for line in hit.before if label_of(line) == label]
    return any("Exception ignored" in line for line in (*own[-2:], hit.text))


def own_lines_after(hit: Hit, traceback: Traceback) -> tuple[str, ...]:
    """What the same process wrote after it."""
    label = label_of(hit.text)
    lines = hit.after[traceback.last - hit.line :]
    return tuple(line for line in lines if label_of(line) == label)


def calm_line(hit: Hit) -> str:
    """The line just above, with which a logger says that the program goes on in spite of the error
    below it; empty if there is none."""
    label = label_of(hit.text)
    own = [line for line in hit.before if label_of(line) == label]
    above = own[-1] if own else ""
    is_warning = _CALM_LEVEL.search(above) and not _LOUD_LEVEL.search(above)
    if not is_warning or not GOES_ON.search(above) or _LAST_TRY.search(above):
        return ""
    return above.strip()


def was_logged(hit: Hit, traceback: Traceback) -> bool:
    """Whether the line before says the same error with a clock: a logger wrote both at once."""
    label = label_of(hit.text)
    own = [line for line in hit.before if label_of(line) == label]
    if not own or not hit.stamp or hit.stamp not in own[-1]:
        return False
    name, _, text = traceback.errors[-1].partition(":")
    said = text.strip()[:40]
    return name.rpartition(".")[2] in own[-1] or (len(said) > 10 and said in own[-1])


def _of_record(line: str) -> tuple[str, ...]:
    """The lines of a traceback in a record of a structured log, where it is one text."""
    if not line.lstrip().startswith("{"):
        return ()
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):  # truncated or torn; or malicious
        return ()
    texts = fields.values() if isinstance(fields, dict) else ()
    for text in texts:
        if isinstance(text, str) and _START in text:
            return tuple(text[text.index(_START) :].splitlines()[1:])
    return ()


def read_raised(hit: Hit) -> Traceback | None:
    """The frames and the error that follow a line which announces them in other words, as Ray's
    `error raised in its creation task` does. None if no error follows."""
    speaker = _SPEAKER.match(hit.text)
    return _read(hit, speaker[0] if speaker else "")


def _read(hit: Hit, prefix: str) -> Traceback | None:
    errors: list[str] = []
    code: set[int] = set()
    where, last, inside, passed_on, frame = "", hit.line, True, False, 0
    label = label_of(prefix)
    for number, raw in enumerate(hit.after, hit.line + 1):
        if label and label_of(raw) not in ("", label):
            continue  # ranks that write to one file write their lines between each other's
        line = _without(prefix, raw)
        if not line.strip():
            continue
        if line.startswith((" ", "\t", "|", "+")) and inside:
            is_frame = line.lstrip(" \t|+").startswith("File ")
            if (not errors or passed_on) and line.lstrip().startswith("File "):
                where = line.strip()
            if is_frame:
                frame = number
            elif frame and number > frame:
                code.add(number)
                frame = 0
            continue
        if _START in line:
            inside, last = True, number
        elif _CHAIN.search(line):
            inside, last = False, number
        elif inside and (match := _ERROR.match(line)) and _NAMES.search(match["name"]):
            # What a task of Ray has raised follows, with frames of its own.
            inside, last = bool(_PASSED_ON.match(match["name"])), number
            if passed_on:
                errors.pop()
            errors.append(line.strip())
            passed_on = inside
        elif not inside:
            break
    return Traceback(hit.line, last, tuple(errors), where, frozenset(code)) if errors else None


def _without(prefix: str, line: str) -> str:
    """The line without what its logger put before it: the same text, or the same form of it."""
    if prefix and line.startswith(prefix):
        return line[len(prefix) :]
    if not prefix.strip():
        return line.removeprefix(prefix)
    form = re.sub(r"\d+", r"\\d+", re.escape(prefix))
    match = re.match(form, line)
    return line[match.end() :] if match else line
