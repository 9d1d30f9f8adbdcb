"""One failure that a line of a log tells of, and one line that only looks alarming."""

from __future__ import annotations

from dataclasses import dataclass

from rankdbg.verdicts.failures.identities import UNKNOWN_PLACE, Identity
from rankdbg.verdicts.failures.log_lines import Origin
from rankdbg.verdicts.rules.log_rules import FailureRule

PYTHON_ERROR = "python_error"


@dataclass(frozen=True)
class Finding:
    rule: FailureRule
    path: str
    line: int
    text: str
    ranks: tuple[int, ...]
    origin: Origin
    time: float | None
    modified: float
    beside: tuple[str, ...] = ()  # lines of the same event that say it less exactly
    announced: str = ""  # the line itself, where `text` is the error that it announces
    host: str = ""  # of the process that it is about
    pid: int | None = None  # of that process, where the line names it
    peer: str = ""  # the host that it blames
    writer: Identity = UNKNOWN_PLACE
    began: float | None = None  # of what had been going on for a while when the line was written
    comparable: bool = True  # whether its time can be compared with that of other hosts' lines
    exact: bool = True  # whether the line has a clock of its own; else `time` is the one before it
    until: float | None = None  # of a line without a clock: the next clock in its file
    offset: int = 0
    after: tuple[str, ...] = ()  # lines just after it, of a traceback
    calm: str = ""  # the line above a traceback by which a program logs that it goes on
    uncaught: bool = False  # it is in a traceback, and nothing says that the program goes on
    zoned: bool = False  # whether its clock says its zone
    odd: bool = False  # its rank says something else than most others do
    named: bool = False  # the line itself says whom it is about

    @property
    def mode(self) -> str:
        return self.rule.mode

    @property
    def evidence(self) -> str:
        return f"{self.place}: {self.text.strip()}"

    @property
    def process(self) -> int | None:
        """The one that has failed: a launcher or a raylet writes about others."""
        return self.writer.pid if self.pid is None else self.pid

    @property
    def place(self) -> str:
        """What a cluster told has no lines."""
        return f"{self.path}:{self.line}" if self.line else self.path


@dataclass(frozen=True)
class HarmlessFinding:
    """A line that looks alarming and is not."""

    mode: str
    text: str
    cause: str
