"""Every error that a user can meet: what happened, why, and the next command to run."""

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
        """For a place in brackets."""
        hint = [f"hint: {self.hint}"] if self.hint else []
        return "; ".join([self.what, *self.why, *hint])

    def __str__(self) -> str:
        lines = [self.what, *(f"  {line}" for line in self.why)]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class BadInput(RankdbgError):
    """An option or an argument that cannot be used."""


class PlacedError(BadInput):
    """A fault at a known place in a text the user wrote, shown with a caret under it."""

    def __init__(
        self, what: str, text: str, start: int, end: int, *why: str, hint: str = ""
    ) -> None:
        caret = " " * start + "^" * max(1, end - start)
        super().__init__(what, text, caret, *why, hint=hint)
        self.text = text
        self.start = start
        self.end = end


class SelectionError(PlacedError):
    """A selection that is not well formed, or that names what is not there."""


class ExpressionError(PlacedError):
    """An expression for `ask` that is not Python."""


class MeshError(PlacedError):
    """A mesh such as pp=2,dp=2 that is not well formed."""


class NoJob(RankdbgError):
    """Nothing to look at."""


class ChooseJob(RankdbgError):
    """Several jobs, and the command needs one."""


class UnknownTarget(BadInput):
    """A target that names no cluster."""


class CannotLook(RankdbgError):
    """No process can be looked into from outside, because that is not permitted."""


class NodeFailed(RankdbgError):
    """A node process that did not start, ended, or does not speak the protocol."""


class WireError(RankdbgError):
    """A message that is too large, cut short, or not a message at all."""


class VersionError(RankdbgError):
    """Two sides whose versions do not understand each other."""


class SnapshotError(RankdbgError):
    """A snapshot that cannot be written or opened."""


class NoLogs(RankdbgError):
    """No log to read where the user said."""


class DiskFull(RankdbgError):
    """The directory that files are collected into cannot take any more."""


class RuleError(BadInput):
    """A rule file that cannot be read, or a rule in it that cannot be used."""


NO_PTRACE = "ptrace is not permitted"


def shortened(text: str, most: int = 72) -> str:
    """What a user wrote, for a message that fits on the screen."""
    return text if len(text) <= most else text[: most - 1] + "…"
