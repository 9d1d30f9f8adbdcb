"""What a log point of an editor prints. An error in it is printed once, not each time that the line
is executed.

Imported together with debug_adapter.
"""

from __future__ import annotations

import os
from typing import Any

from rankdbg.agent import describe
from rankdbg.agent.editor import breakpoint_conditions


def text(point: Any, frame: Any) -> str:
    """Of a log point at which a thread is; nothing is printed for an empty one."""
    try:
        return str(eval(point.expression, frame.f_globals, frame.f_locals))
    except Exception as error:
        place = frame.f_code.co_filename, point.line
        if breakpoint_conditions.was_reported(error, (*place, point.expression)):
            return ""
        where = f"{os.path.basename(place[0])}:{place[1]}"
        return f"{where}: this log message failed: {describe.exception_text(error)}"
