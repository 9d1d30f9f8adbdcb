"""The requests that debugpy supports, and the types of their arguments.

To a request that it does not know debugpy says nothing (and prints a line into the program's own
output); one whose arguments are of another kind ends its session (1.8.22, both). So neither
reaches a rank. At what is left, agent/editor/debugger_requests.py answers for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import make_dataclass
from typing import Any

from rankdbg.frontends.dap.protocol import Message
from rankdbg.wire.decoding import BadField, decode


def _object(**fields: Any) -> type:
    """What may be null may be missing, too: editors do both."""
    optional = type(int | None)
    given = [(n, t, None) if isinstance(t, optional) else (n, t) for n, t in fields.items()]
    return make_dataclass("Arguments", given, kw_only=True)


def _list(item: type) -> Any:
    return list[item]  # type: ignore[valid-type]


_TEXT, _NUMBER = str | None, int | None
_ANY_OBJECT = dict[str, object]
_FILE = _object(path=str)
_SOURCE = _object(path=_TEXT, name=_TEXT, sourceReference=_NUMBER)
_CONDITIONS = {"condition": _TEXT, "hitCondition": _TEXT}
_BREAKPOINT = _object(line=int, logMessage=_TEXT, **_CONDITIONS)
_THREAD = _object(threadId=int)

REQUESTS: Mapping[str, type] = {
    "attach": _object(pathMappings=_list(_object(localRoot=_TEXT, remoteRoot=_TEXT)) | None),
    "completions": _object(text=str, column=int, frameId=_NUMBER),
    "configurationDone": _object(),
    "continue": _THREAD,
    "evaluate": _object(expression=str, frameId=_NUMBER, context=_TEXT, format=_ANY_OBJECT | None),
    "exceptionInfo": _THREAD,
    "goto": _object(threadId=int, targetId=int),
    "gotoTargets": _object(source=_SOURCE, line=int),
    "modules": _object(startModule=_NUMBER, moduleCount=_NUMBER),
    "next": _THREAD,
    "pause": _THREAD,
    "pydevdSystemInfo": _object(),
    "scopes": _object(frameId=int),
    "setBreakpoints": _object(
        source=_FILE, breakpoints=_list(_BREAKPOINT) | None, lines=list[int] | None
    ),
    "setDebuggerProperty": _object(),
    "setExceptionBreakpoints": _object(
        filters=list[str], exceptionOptions=list[_ANY_OBJECT] | None
    ),
    "setExpression": _object(expression=str, value=str, frameId=_NUMBER),
    "setFunctionBreakpoints": _object(breakpoints=_list(_object(name=str, **_CONDITIONS))),
    "setPydevdSourceMap": _object(source=_SOURCE, pydevdSourceMaps=list[_ANY_OBJECT] | None),
    "setVariable": _object(variablesReference=int, name=str, value=str),
    "source": _object(sourceReference=int, source=_SOURCE | None),
    "stackTrace": _object(threadId=int, startFrame=_NUMBER, levels=_NUMBER),
    "stepIn": _object(threadId=int, targetId=_NUMBER),
    "stepInTargets": _object(frameId=int),
    "stepOut": _THREAD,
    "threads": _object(),
    "variables": _object(
        variablesReference=int, start=_NUMBER, count=_NUMBER, format=_ANY_OBJECT | None
    ),
}


def fault(request: Message) -> str:
    """Why a rank must not get this request; nothing if it may."""
    command = str(request.get("command"))
    if command not in REQUESTS:
        return f"{command} is not supported"
    try:
        decode(REQUESTS[command], request.get("arguments") or {})
    except BadField as wrong:
        return f"invalid arguments for {command}: {wrong}"
    return ""
