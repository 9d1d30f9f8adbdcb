"""Patterns that are compiled when they are first used.

All of masking's take 25 ms to compile, which is half of what a node process needs to start in a
pod; most texts need few of them.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class LazyPattern:
    """Has the methods of the compiled pattern."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self.source, self.options = pattern, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self.source, self.options), name)
        setattr(self, name, found)  # so that the next access does not come here
        return found


def lazy(pattern: str, flags: int = 0) -> re.Pattern[str]:
    lazily: Any = LazyPattern(pattern, flags)
    return lazily  # type: ignore[no-any-return]
