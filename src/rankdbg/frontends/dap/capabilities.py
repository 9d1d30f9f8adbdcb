"""The capabilities for editors, sent before the rank is known."""

from __future__ import annotations

from typing import Any

_FILTERS = [
    {"filter": "raised", "label": "Raised Exceptions", "default": False},
    {"filter": "uncaught", "label": "Uncaught Exceptions", "default": True},
    {"filter": "userUnhandled", "label": "User Uncaught Exceptions", "default": False},
]

# As debugpy has it, but for what would end a rank. The parent says the same: which of the two
# it is, is known at attach only.
CAPABILITIES: dict[str, Any] = {
    "supportsConfigurationDoneRequest": True,
    "supportsConditionalBreakpoints": True,
    "supportsHitConditionalBreakpoints": True,
    "supportsEvaluateForHovers": True,
    "supportsSetVariable": True,
    "supportsGotoTargetsRequest": True,
    "supportsCompletionsRequest": True,
    "supportsModulesRequest": True,
    "supportsExceptionOptions": True,
    "supportsValueFormattingOptions": True,
    "supportsExceptionInfoRequest": True,
    "supportsDelayedStackTraceLoading": True,
    "supportsLogPoints": True,
    "supportsSetExpression": True,
    "supportsClipboardContext": True,
    "supportsFunctionBreakpoints": True,
    "supportsStepInTargetsRequest": True,
    "supportTerminateDebuggee": False,
    "supportsTerminateRequest": False,
    "exceptionBreakpointFilters": _FILTERS,
}
