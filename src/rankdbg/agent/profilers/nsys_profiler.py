"""nsys profiles on request, in a rank that was started under a waiting nsys."""

from __future__ import annotations

import os

from rankdbg.agent.nsys import capture, nsys_report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def begin(path: str, with_stack: bool) -> Callable[[], dict[str, Any]] | str:
    """Returns the function that ends it, or the reason why it cannot start."""
    why = capture.begin_now()
    if why:
        return why

    def finish() -> dict[str, Any]:
        report, why = capture.end_now()
        if why:
            return {"why": why}
        os.symlink(report, path + os.path.splitext(report)[1])
        note = nsys_report.advice(report) or f"its report also stays at {report}"
        return {"notes": [note]}

    return finish
