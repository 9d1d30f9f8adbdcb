"""What the debugger does with a request of the editor.

Imported together with debug_adapter.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from rankdbg.agent.editor import thread_events


def begin(debugger: Any) -> None:
    """Refuse a request that raises in the debugger: it would end the session without an answer
    (debugpy 1.8.22). And wake the threads that a request has told to continue."""
    reader: Any = getattr(debugger, "reader", None)
    execute = getattr(reader, "process_net_command_json", None)
    if execute is None:  # another version of debugpy
        return

    def execute_or_refuse(debugger: Any, request: Any, *about: Any) -> None:
        try:
            execute(debugger, request, *about)
        except Exception as error:
            _refuse(debugger, json.loads(request), error)
        finally:
            thread_events.wake_all(debugger)

    reader.process_net_command_json = execute_or_refuse


def _refuse(debugger: Any, request: dict[str, Any], error: Exception) -> None:
    commands: Any = sys.modules["_pydevd_bundle.pydevd_net_command"]
    constants: Any = sys.modules["_pydevd_bundle.pydevd_comm_constants"]
    command = request.get("command")
    why = f"{type(error).__name__}: {error}".removesuffix(": ")
    response = {
        "type": "response",
        "request_seq": request.get("seq"),
        "command": command,
        "success": False,
        "message": f"debugpy failed at {command}: {why}",
    }
    debugger.writer.add_command(
        commands.NetCommand(constants.CMD_RETURN, 0, response, is_json=True)
    )
