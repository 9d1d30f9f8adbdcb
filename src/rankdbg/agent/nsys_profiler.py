"""nsys, which has started this rank and waits: told to capture now, and for how long."""

from __future__ import annotations

import os

from rankdbg.agent import capture

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
        os.symlink(report, f"{path}.nsys-rep")
        return {"notes": [f"its report stays there too: {report}"]}

    return finish
