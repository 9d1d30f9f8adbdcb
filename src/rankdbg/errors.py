"""The errors that users see: what happened, why, and the next command to run."""

from __future__ import annotations


class RankdbgError(Exception):
    """What the command line shows instead of a traceback.

    `why` are further lines; `hint` is what to do next.
    """

    exit_status = 2

    def __init__(self, what: str, *why: str, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.hint = hint

    def in_one_line(self) -> str:
        """The whole error on one line."""
        hint = [f"hint: {self.hint}"] if self.hint else []
        return "; ".join([self.what, *self.why, *hint])

    def __str__(self) -> str:
        lines = [self.what, *(f"  {line}" for line in self.why)]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class BadInput(RankdbgError):
    """An invalid option or argument."""


class PlacedError(BadInput):
    """An error at a known position of the user's text, shown with a caret under it."""

    def __init__(
        self, what: str, text: str, start: int, end: int, *why: str, hint: str = ""
    ) -> None:
        caret = " " * start + "^" * max(1, end - start)
        super().__init__(what, text, caret, *why, hint=hint)
        self.text = text
        self.start = start
        self.end = end


class SelectionError(PlacedError):
    """An invalid selection, or one that names something that does not exist."""


class ExpressionError(PlacedError):
    """An expression for `ask` that is not Python."""


class MeshError(PlacedError):
    """An invalid mesh; pp=2,dp=2 is a valid one."""


class NoJob(RankdbgError):
    """There is no job to look at."""


class ChooseJob(RankdbgError):
    """Several jobs, and the command needs one."""


class UnknownTarget(BadInput):
    """A target with an unknown cluster name."""


class CannotLook(RankdbgError):
    """Processes cannot be inspected from outside, because that is not permitted."""


class NodeFailed(RankdbgError):
    """A node process that did not start, ended, or does not speak the protocol."""


class WireError(RankdbgError):
    """A message that is too large, cut short, or not a message at all."""


class VersionError(RankdbgError):
    """Incompatible versions of rankdbg on two sides."""


class SnapshotError(RankdbgError):
    """A snapshot that cannot be written or opened."""


class DamagedSnapshot(SnapshotError):
    """One of its files cannot be used. No answer is given without that file."""


class NoLogs(RankdbgError):
    """No log was found in the given places."""


class DiskFull(RankdbgError):
    """No space left in the directory that files are collected into."""


class RuleError(BadInput):
    """A rule file that cannot be read, or an invalid rule in it."""


class OutputFailed(RankdbgError):
    """stdout is closed, its disk is full, or it fails otherwise."""

    exit_status = 74  # as EX_IOERR of sysexits.h; 70 is EX_SOFTWARE


NO_PTRACE = "ptrace is not permitted"


def shortened(text: str, most: int = 72) -> str:
    """A user's text, shortened for an error message."""
    return text if len(text) <= most else text[: most - 1] + "…"
