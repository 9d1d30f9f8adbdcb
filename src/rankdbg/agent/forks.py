"""Python 3.12 and later warn when a process of several threads forks.

A program that has no thread but its own must not hear that warning because of the
agent's. So this one warning is kept back when such a program forks; a program that has
threads of its own is warned as ever.
"""

from __future__ import annotations

import os
import sys

from rankdbg.agent import threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _WarningOfThreads:
    """Stands where the warnings module has a regular expression. It goes out of the list
    with the first warning it meets: no hook comes late enough (3.13 warns after them)."""

    def match(self, text: str) -> bool:
        met = "multi-threaded, use of fork" in text
        if met:
            after()
        return met


_FILTER = ("ignore", _WarningOfThreads(), DeprecationWarning, None, 0)


def before() -> None:
    """The last thing before a fork, after the hooks of the program's own modules."""
    after()
    if len(os.listdir("/proc/self/task")) - threads.running() <= 1:
        _filters().insert(0, _FILTER)


def after() -> None:
    """In the child, and once the warning has been kept back."""
    filters = _filters()
    if _FILTER in filters:
        filters.remove(_FILTER)


def _filters() -> list[Any]:
    """Those that the interpreter looks at: of the warnings module, once it is loaded."""
    import _warnings

    filters: Any = getattr(sys.modules.get("warnings"), "filters", None)
    return filters if type(filters) is list else _warnings.filters
