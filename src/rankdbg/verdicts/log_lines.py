"""Whose line it is and when it was written: file names, prefixes, clocks of many makes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from rankdbg.logs.patterns import FileScan, Hit

_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_DAY = r"(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?)"
# One alternative for each make of clock; `read_stamp` takes them apart again.
CLOCK = "|".join(
    [
        _DAY,
        r"\b[EWIFD]\d{3,4} \d\d:\d\d:\d\d(?:\.\d+)?",  # glog, c10: E0325 20:57:27.62, E419 …
        r"\b\d\d-\d\d \d\d:\d\d:\d\d",  # vLLM: 11-18 18:07:28
        rf"\b(?:{'|'.join(_MONTHS)}) +\d{{1,2}} \d\d:\d\d:\d\d(?: \d{{4}})?",  # syslog, dmesg -T
        r"\b\d\d/\d\d/\d{4} \d\d:\d\d:\d\d",
        r"\b\d\d/\d\d/\d\d \d\d:\d\d:\d\d",
    ]
)

_RANK_IN_LINE = [
    # torch's and torchrun's prefixes: [rank3]:, [default3]:, [trainer0|3]:
    re.compile(r"^\s*\[(?:[A-Za-z_]\w*?\|)?(?:[A-Za-z_]+)(\d+)\]:"),
    re.compile(r"\[rank ?(\d+)\]", re.IGNORECASE),
    re.compile(r"\[PG .{0,60}\bRank (\d+)\]"),
    re.compile(r"\((?:VllmWorker )?rank=(\d+)\b"),
    re.compile(r"\b[Rr]ank[ =:](\d+)\s?[\]:]"),
    re.compile(r"\(Worker(?:_PP\d+)?_TP(\d+)(?:_EP\d+)? pid="),
    re.compile(r"^\S{0,40}\[?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:,\d+)? TP(\d+)\]"),
]
_LABEL = re.compile(r"^\s{0,6}(\d{1,5}): ")  # srun --label
_ACTOR = re.compile(r"\(([A-Za-z_][\w.<>]*)[^()]{0,40}? pid=(\d+)(?:, ip=([\w.:]+))?\)")
_RAY_FILE = re.compile(r"worker-[0-9a-f]+-[0-9a-f]+-(\d+)\.(?:out|err)")
_RANK_IN_NAME = [
    re.compile(r"(?:^|[/_.\-])rank[_\-.=]?(\d+)(?=[/_.\-]|$)", re.IGNORECASE),
    re.compile(r"(?:^|[/_.\-])(?:task|proc)[_\-.=]?(\d+)(?=[/_.\-]|$)", re.IGNORECASE),
    # torchrun --log-dir: RUN_ID_x/attempt_0/3/stderr.log
    re.compile(r"/attempt_\d+/(\d+)/(?:stdout|stderr)(?:\.log)?"),
    # Slurm's -o out-%t, out.%t: nothing but a small number before the suffix
    re.compile(
        r"(?:out|err|log|output|stdout|stderr)[-_.](\d{1,4})(?:\.(?:out|err|log|txt))?(?:\.gz)?$"
    ),
]
_HOST_IN_NAME = re.compile(
    r"(?:^|[/_.\-])((?:node|host|gpu|worker|nid|ip)[-_]?\d[\w\-]*)", re.IGNORECASE
)


@dataclass(frozen=True)
class Origin:
    """Who wrote a line, as far as it can be told."""

    rank: int | None = None
    pid: int | None = None
    actor: str = ""
    address: str = ""


class Origins:
    """Origins of the lines of some files: what one line says is remembered for its process."""

    def __init__(self, scans: Iterable[FileScan]) -> None:
        self._labelled: dict[str, bool] = {}
        self._rank_of_pid: dict[tuple[str, int], int] = {}
        scans = list(scans)
        for scan in scans:
            self._labelled[scan.path] = _is_labelled(scan.beginning)
        for scan in scans:
            for hit in scan.hits:
                origin = self._of_line(scan.path, hit)
                if origin.rank is not None and origin.pid is not None:
                    self._rank_of_pid.setdefault((origin.address, origin.pid), origin.rank)

    def of(self, path: str, hit: Hit) -> Origin:
        origin = self._of_line(path, hit)
        if origin.rank is None and origin.pid is not None:
            rank = self._rank_of_pid.get((origin.address, origin.pid))
            return Origin(rank, origin.pid, origin.actor, origin.address)
        return origin

    def _of_line(self, path: str, hit: Hit) -> Origin:
        actor = _ACTOR.search(hit.head)
        name, pid, address = (actor[1], int(actor[2]), actor[3] or "") if actor else ("", None, "")
        if pid is None and (file := _RAY_FILE.search(path)):
            pid = int(file[1])
        return Origin(self._rank(path, hit), pid, name, address)

    def _rank(self, path: str, hit: Hit) -> int | None:
        for text in dict.fromkeys((hit.head, hit.text[:400])):
            if self._labelled.get(path) and (label := _LABEL.match(text)):
                return int(label[1])
            for pattern in _RANK_IN_LINE:
                if found := pattern.search(text):
                    return int(found[1])
        return rank_of_file(path)


def _is_labelled(beginning: str) -> bool:
    """Whether srun put a task's number before every line."""
    lines = [line for line in beginning.splitlines()[:-1] or beginning.splitlines() if line.strip()]
    labelled = sum(1 for line in lines if _LABEL.match(line))
    return labelled >= 3 and labelled >= 0.9 * len(lines)


def rank_of_file(path: str) -> int | None:
    found = [match for pattern in _RANK_IN_NAME for match in pattern.finditer(path)]
    return int(found[0][1]) if found else None


def read_stamp(stamp: str, year: int) -> float | None:
    """Seconds of a wall clock; only differences mean anything, and years may be missing."""
    numbers = [int(number) for number in re.findall(r"\d+", re.split(r"[.,]", stamp)[0])]
    fraction = re.search(r"[.,](\d+)$", stamp)
    date = _date(stamp, numbers, year)
    if date is None:
        return None
    clock = re.search(r"(\d\d):(\d\d):(\d\d)", stamp)
    hour, minute, second = map(int, clock.groups()) if clock else (0, 0, 0)
    try:
        moment = datetime(*date, hour, minute, min(second, 59))
    except ValueError:
        return None
    return moment.timestamp() + (float(f"0.{fraction[1]}") if fraction else 0.0)


def _date(stamp: str, numbers: list[int], year: int) -> tuple[int, int, int] | None:
    """Year, month and day, by the make of the clock."""
    if re.match(r"\d{4}-", stamp):
        return numbers[0], numbers[1], numbers[2]
    if re.match(r"[EWIFD]\d", stamp):  # month and day in one number
        return year, numbers[0] // 100, numbers[0] % 100
    if stamp[:3] in _MONTHS:
        told = numbers[4] if len(numbers) > 4 else year
        return told, _MONTHS.index(stamp[:3]) + 1, numbers[0]
    if re.match(r"\d\d/\d\d/\d{4}", stamp):
        return numbers[2], numbers[0], numbers[1]
    if re.match(r"\d\d/\d\d/\d\d", stamp):
        return 2000 + numbers[0], numbers[1], numbers[2]
    if re.match(r"\d\d-\d\d ", stamp):
        return year, numbers[0], numbers[1]
    return None


def year_of(scans: Iterable[FileScan]) -> int:
    """The year of clocks that do not say it: what others say, else when the files were written."""
    years: list[int] = []
    modified = 0.0
    for scan in scans:
        modified = max(modified, scan.modified)
        years += [int(hit.stamp[:4]) for hit in scan.hits if re.match(r"\d{4}-", hit.stamp)]
    return max(years) if years else datetime.fromtimestamp(modified or 0).year
