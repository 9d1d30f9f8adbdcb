"""Parses a log line: its timestamp, its writer, and its text.

Loggers, launchers and collectors each add a prefix to a line, independently:

    (Trainer pid=4711, ip=10.0.0.2) [rank3]:[W1115 10:41:07.62 Utils.hpp:164] Warning: …
    2026-11-15T10:41:07.9Z [pod/train-3/main] INFO 11-15 10:41:07 [core.py:12] …

Prefixes with the writer or the time are removed from the text, so that equal lines of several
ranks compare equal. Of several timestamps the first with a time zone counts, otherwise the first.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rankdbg.logs.clocks import CLOCK, CLOCK_OF_PREFIX
from rankdbg.logs.records import read_record

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
# As far into a line as prefixes are looked for.
_LONGEST_PREFIX = 400
_LEVEL = r"(?:DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL|EXCEPTION|TRACE)\b"

# Text between prefixes that is kept: levels, modules, punctuation.
_NEUTRAL = rf"""(?:
      \[?{_LEVEL}\]?:?
    | \[(?![Rr]ank|\w*\d\]:)[\w./\-]+(?::\d+)?(?::[\w<>]+)?\]
    | [\w./\-]+\.(?:py|cc|cpp|cu|h|hpp|rs|go):\d+(?=\])
    | [\w.]+(?=\s+(?:-\s+)?\[?{_LEVEL})
    | [\])\-|:,>]
    )"""
_WEEKDAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_CLOCK = CLOCK_OF_PREFIX.replace(" ", r"\ ")
_TOKEN = re.compile(
    rf"""\s*(?:
      [\[(<|]?(?:{_WEEKDAY}\ )?(?P<clock>{_CLOCK})[\])>|]?
    | (?P<who>
        \[(?:[A-Za-z_]\w*\|)?(?:[Rr]ank|RANK|(?<=\|))(?P<torch>\d+)\]:  # torch's own: [rank3]:
      | \[(?:[A-Za-z_]\w*\|)?[A-Za-z_]+(?P<teed>\d+)\]:  # torchrun --tee: [default3]:, the name of the role
      # mpirun --tag-output, and what SageMaker makes of it: [1,mpirank:3,algo-1]<stderr>:
      | \[(?:[\w.\-]+@)?\d+,(?:mpirank:)?(?P<mpi>\d+)(?:,[\w.\-]+)?\]<(?:stdout|stderr|stddiag)>:
      | \[[Rr]ank[ =]?(?P<bracket>\d+)\]:?
      | \[PG\ [^\]]{{0,80}}?\b[Rr]ank\ (?P<group>\d+)\]:?
      | [Rr]ank[ =:](?P<plain>\d+)\s?(?=[\]:|>])[:|>]?
      | \((?:VllmWorker\ )?rank=(?P<vllm>\d+)(?:\ pid=\d+)?\)
      | \((?P<actor>[A-Za-z_][\w.<>:]*)[^()]{{0,40}}?\ pid=(?P<pid>\d+)(?:,\ ip=(?P<ip>[\w.:]+))?\)
      | \(pid=(?P<task>\d+)(?:,\ ip=(?P<at>[\w.:]+))?\)
      | \((?P<daemon>raylet|autoscaler|gcs_server)[^()]{{0,60}}\)
      | \[pod/[\w.\-]+/[\w.\-]+\]
      | [\w.\-]+:(?P<nccl>\d+):\d+(?:\ \[\d+\])?(?=\ NCCL\ )
      | (?:(?:TP|PP|DP|EP|CP)\d+\ ?)+(?=\])  # SGLang, after its clock
      )
    | (?P<neutral>{_NEUTRAL}(?:\s*{_NEUTRAL})*)
    | (?P<opening>[\[(])
    | (?P<letter>[EWIFD])(?=\ \d+\ \d+\])  # the level in Ray's own logs
    )""",
    re.VERBOSE,
)
# After a clock: the pid and thread of glog, of Ray's own logs; the host and program of syslog.
_AFTER_GLOG = re.compile(r"\s+\d{1,8}(?=\s+[\w./\-]+:\d+\])")
_AFTER_RAY = re.compile(r"\s+\d{1,8}(?:\s+\d{1,8})?(?=\])")
_AFTER_SYSLOG = re.compile(r"\s+[\w.\-]+\s+[\w./\-]+\[\d+\]:|\s+[\w.\-]+(?=\s+[\w./\-]+:)")
# Punctuation that closes a prefix, where the message follows.
_AFTER_CLOCK = re.compile(r"\s*[\])>]?\s*[\-|:,>]{0,2}")
_AFTER_NAME = re.compile(r"\s*[\])]?")
_WORD = re.compile(r"\w")
_CLOCK_INSIDE = re.compile(CLOCK)
_TENSOR_RANK = re.compile(r"TP(\d+)")
_IN_ACTOR = re.compile(r"^Worker(?:_PP\d+)?_TP(\d+)")
_EMPTY = re.compile(r"\[[\s\-|:,]*\]|\([\s\-|:,]*\)|<\s*>")
_LEADING = re.compile(r"^[\s\-|:,>]+")
_ZONED = re.compile(r"(?:Z|UTC|GMT|\d[+-]\d\d:?\d\d| [+-]\d\d:?\d\d)$")
# A number before every line: srun --label; [0] of mpiexec -prepend-rank
_OF_LAUNCHER = re.compile(r"(srun|slurmstepd\S*): ")
_LABEL = re.compile(r"^\s{0,6}(?:(\d{1,5}):(?: |$)|\[(\d{1,5})\](?: |$))")
_REPEATED = re.compile(r"\s*\[repeated (\d+)x across (?:all processes|cluster)\].*$", re.DOTALL)
# A number from where it begins: one of 100,000 digits takes seconds from each of them.
_PROGRESS = re.compile(
    r"(?<!\d)(?:\d+%\||\d+(?:\.\d+)?\s?(?:it|s|B|kB|MB|GB|examples|tokens|batches)/(?:s|it)\b)"
)


class Line(NamedTuple):
    stamp: str = ""
    rank: int | None = None
    pid: int | None = None
    actor: str = ""
    address: str = ""
    text: str = ""
    repeated: int = 0  # equal lines of other workers that Ray has left out
    attributed: bool = False  # whether it names its writer
    teed: int | None = None  # the number on its node of the rank whose line torchrun --tee prints


def take_apart(line: str, labelled: bool = False) -> Line:
    """`labelled`: the launcher has put the number of a task before each line of this file."""
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    ranks: list[int] = []
    place = 0
    if labelled and (label := read_label(line)):
        rank, place = label
        ranks.append(rank)
    stamps, kept = [], []
    firm = 0, place, _AFTER_NAME  # up to here there is no doubt; what may still follow
    pid, actor, address, attributed = None, "", "", bool(ranks)
    flush, teed = False, None
    end = min(len(line), _LONGEST_PREFIX)
    while place < end and (token := _TOKEN.match(line, place, end)):
        kind = token.lastgroup
        if kind == "clock":
            stamp = token["clock"]
            stamps.append(stamp)
            kept.append(_brackets(token[0], stamp))
            place = _after_clock(line, token.end(), stamp)
            firm = len(kept), place, _AFTER_CLOCK
        elif kind == "who":
            attributed = True
            ranks += _numbers(token)
            if token["teed"]:
                teed = int(token["teed"])
            # Open MPI 4 and torchrun put no blank of their own between their tag and the line.
            flush = bool(token["teed"] or (token["mpi"] and "@" not in token["who"]))
            if token["pid"] or token["task"] or token["nccl"]:
                pid = int(token["pid"] or token["task"] or token["nccl"])
            actor = actor or token["actor"] or token["daemon"] or ""
            address = address or token["ip"] or token["at"] or ""
            place = token.end()
            firm = len(kept), place, _AFTER_NAME
        else:
            kept.append(token[0])
            place = token.end()
            if kind == "letter":
                place = _skipped(_AFTER_RAY, line, place)
            if _WORD.search(token[0]):
                firm = len(kept), place, _AFTER_NAME
    count, begin, allowed = firm
    if place > begin and not allowed.fullmatch(line, begin, place):
        # The message itself begins with a bracket or a dash.
        del kept[count:]
        place = begin
    if not stamps and not attributed:
        return _of_json(line) if line.startswith("{") else Line(text=line.rstrip())
    text = _joined("".join(kept), line[place:], flush)
    repeated = 0
    if "[repeated " in text and (found := _REPEATED.search(text)):
        repeated, text = int(found[1]), text[: found.start()]
    last = ranks[-1] if ranks else None
    return Line(_best(stamps), last, pid, actor, address, text, repeated, attributed, teed)


def _of_json(line: str) -> Line:
    """A record of a structured log; one that has no words is shown as it is, less its clock."""
    if record := read_record(line):
        attributed = record.rank is not None or record.pid is not None
        stamp, rank, pid, text = record
        return Line(stamp, rank, pid, text=text, attributed=attributed)
    found = _CLOCK_INSIDE.search(line, 0, _LONGEST_PREFIX)
    if found is None:
        return Line(text=line.rstrip())
    return Line(found[0], text=(line[: found.start()] + line[found.end() :]).rstrip())


def _numbers(token: re.Match[str]) -> list[int]:
    for name in ("torch", "teed", "mpi", "bracket", "group", "plain", "vllm"):
        if token[name]:
            return [int(token[name])]
    inside = _IN_ACTOR.match(token["actor"] or "") or _TENSOR_RANK.search(token["who"])
    return [int(inside[1])] if inside else []


def _brackets(token: str, stamp: str) -> str:
    """What stands around a clock; the level that glog writes as its first letter."""
    before, _, after = token.partition(stamp)
    before = re.sub(_WEEKDAY, "", before)
    return before + (stamp[0] if stamp[0] in "EWIFD" else "") + after


def _after_clock(line: str, place: int, stamp: str) -> int:
    if stamp[0] in "EWIFD":
        return _skipped(_AFTER_GLOG, line, place)
    if stamp[0].isalpha():
        return _skipped(_AFTER_SYSLOG, line, place)
    return place


def _skipped(pattern: re.Pattern[str], line: str, place: int) -> int:
    found = pattern.match(line, place)
    return found.end() if found else place


def _joined(kept: str, rest: str, flush: bool = False) -> str:
    """Prefixes that remain, tidied; then the message, with its own indentation. `flush`: what
    stands before the message is not set off by a blank."""
    while (shorter := _EMPTY.sub("", kept)) != kept:
        kept = shorter
    kept = " ".join(_LEADING.sub("", kept).split()).replace("[ ", "[").replace(" ]", "]")
    if kept:
        return f"{kept}{rest}".rstrip() if rest[:1] in ("", " ") else f"{kept} {rest}".rstrip()
    return (rest if flush else rest.removeprefix(" ")).rstrip()


def _best(stamps: list[str]) -> str:
    zoned = [stamp for stamp in stamps if _ZONED.search(stamp)]
    return (zoned or stamps or [""])[0]


def without_progress(line: str) -> list[str]:
    """What is left of a line that carriage returns have written over: what is no progress bar,
    and the last that could be seen."""
    if "\r" not in line:
        return [line]
    pieces = [piece for piece in line.split("\r") if piece.strip()]
    return [piece for piece in pieces[:-1] if not _PROGRESS.search(piece)] + pieces[-1:]


def read_label(line: str) -> tuple[int, int] | None:
    """The number of the task that a launcher has put before a line, and where that ends."""
    label = _LABEL.match(line)
    return (int(label[1] or label[2]), label.end()) if label else None


def is_labelled(beginning: str) -> bool:
    """Whether the launcher put a task's number before every line but its own."""
    whole = beginning.splitlines()[:-1] or beginning.splitlines()
    lines = [line for line in whole if line.strip() and not _OF_LAUNCHER.match(line)]
    labelled = sum(1 for line in lines if _LABEL.match(line))
    return labelled >= 3 and labelled >= 0.9 * len(lines)
