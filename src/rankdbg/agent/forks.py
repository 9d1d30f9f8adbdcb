"""Suppresses a warning: Python 3.12 and later warn when a process with several threads forks.

A program with a single thread must not get that warning because of the agent's threads. So the
warning is suppressed when such a program forks. A program with threads of its own still gets it.
"""

from __future__ import annotations

import os
import sys

from rankdbg.agent import threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _ThreadsWarning:
    """Used in place of a regular expression in a filter of the warnings module. It removes the
    filter at the first match: no hook of a fork runs late enough (3.13 warns after them)."""

    def match(self, text: str) -> bool:
        matches = "multi-threaded, use of fork" in text
        if matches:
            after()
        return matches


_FILTER = ("ignore", _ThreadsWarning(), DeprecationWarning, None, 0)


def before() -> None:
    """Runs last before a fork, after the hooks of the program's own modules."""
    after()
    if len(os.listdir("/proc/self/task")) - threads.running() <= 1:
        _filters().insert(0, _FILTER)


def after() -> None:
    """In the child, and when the warning has been suppressed."""
    filters = _filters()
    if _FILTER in filters:
        filters.remove(_FILTER)


def _filters() -> list[Any]:
    """The filters that the interpreter uses: of the warnings module, once it is loaded."""
    import _warnings

    filters: Any = getattr(sys.modules.get("warnings"), "filters", None)
    return filters if type(filters) is list else _warnings.filters
