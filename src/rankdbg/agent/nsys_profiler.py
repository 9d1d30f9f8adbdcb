"""nsys, which has started this rank and waits: told to capture now, and for how long."""

from __future__ import annotations

import os

from rankdbg.agent import capture, nsys_report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def begin(path: str, with_stack: bool) -> Callable[[], dict[str, Any]] | str:
    """How to end it; or why it cannot begin."""
    why = capture.begin_now()
    if why:
        return why

    def finish() -> dict[str, Any]:
        report, why = capture.end_now()
        if why:
            return {"why": why}
        os.symlink(report, path + os.path.splitext(report)[1])
        told = nsys_report.advice(report) or f"its report stays there too: {report}"
        return {"notes": [told]}

    return finish
