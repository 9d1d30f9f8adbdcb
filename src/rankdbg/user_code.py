"""Which frames are the user's own code, and which are a library's.

By the file's path alone, so that a stack means the same whether the agent gave it,
py-spy read it from outside, or a snapshot holds it. The agent imports this module.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_PACKAGES = ("/site-packages/", "/dist-packages/")
_STANDARD = ("/lib/python3", "/lib64/python3")
_LIBRARY_PARTS = (*_PACKAGES, *_STANDARD, "/rankdbg/agent/")


def is_user_code(file: str) -> bool:
    return not file.startswith("<frozen") and not any(part in file for part in _LIBRARY_PARTS)


def is_standard_library(file: str) -> bool:
    packaged = any(part in file for part in _PACKAGES)
    return not packaged and any(part in file for part in _STANDARD)


def is_agent(file: str) -> bool:
    return "/rankdbg/agent/" in file


def innermost_user_frame(files: Iterable[str]) -> int:
    """The place in a stack (innermost first) of the first frame of user code, else 0.

    Code without a file (`<string>`, and what dataclasses or torch.fx generate) is the user's
    if the user's code runs it, or if the whole program is such code (python -c).
    """
    stack = list(files)
    generated: int | None = None  # where a run of frames without a file begins
    for index, file in enumerate(stack):
        if not is_user_code(file):
            generated = None
        elif not file.startswith("<") or file == stack[-1]:
            return index if generated is None else generated
        elif generated is None:
            generated = index
    return 0
