"""Which frames are the user's own code, and which are a library's.

By the path of the file alone, so that the result is the same for a stack from the agent, from
py-spy and from a snapshot. The agent imports this module.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_PACKAGES = ("/site-packages/", "/dist-packages/")
_STANDARD = ("/lib/python3", "/lib64/python3")
_LIBRARY_PARTS = (*_PACKAGES, *_STANDARD, "/rankdbg/agent/")
_PLUMBING = ("monarch", "rankdbg", "ray")
_NATIVE = (".so", ".c", ".cc", ".cpp", ".cxx", ".cu", ".h", ".hpp", ".tcc", ".S", ".rs", ".pyx")


def is_user_code(file: str) -> bool:
    if file.startswith("<frozen") or any(part in file for part in _LIBRARY_PARTS):
        return False
    return not is_native(file)


def shows_variables(function: str, file: str) -> bool:
    """Whether the variables of a frame are shown: those of user code, and of torch's function in
    which a rank connects to the master, which contain the address."""
    if function == "_create_c10d_store" and file.endswith("/torch/distributed/rendezvous.py"):
        return True
    return is_user_code(file)


def is_native(file: str) -> bool:
    """Whether it is a native library or its source. The user's line is the Python line that called
    it, even if the user has written both."""
    if file.endswith(".py"):
        return False
    name = file.rpartition("/")[2]
    interpreter = name.startswith("python") and name[6:].replace(".", "").isdigit()
    return interpreter or file.endswith(_NATIVE) or ".so." in name


def is_standard_library(file: str) -> bool:
    packaged = any(part in file for part in _PACKAGES)
    return not packaged and any(part in file for part in _STANDARD)


def short_name(file: str) -> str:
    """train.py for user code, torch/distributed/c10d.py for libraries, libtorch.so."""
    if is_native(file):
        return file.rpartition("/")[2]
    for part in _PACKAGES:
        if part in file:
            return file.rpartition(part)[2]
    if not is_user_code(file) and "/lib" in file and "/python3" in file:
        return file.rpartition("/python3")[2].partition("/")[2]
    return file.rpartition("/")[2]


def is_agent(file: str) -> bool:
    return "/rankdbg/agent/" in file


def plumbing(file: str) -> str:
    """`asyncio`, `ray`, `monarch` or `rankdbg` for frames of these between the user's functions;
    else ``."""
    if is_agent(file):
        return "rankdbg"
    if is_standard_library(file) and "/asyncio/" in file:
        return "asyncio"
    for part in _PACKAGES:
        package = file.rpartition(part)[2].partition("/")[0] if part in file else ""
        if package in _PLUMBING:
            return package
    return ""


def innermost_user_frame(files: Iterable[str]) -> int:
    """The index in a stack (innermost first) of the first frame of user code, else 0.

    Code without a file (`<string>`, code that dataclasses or torch.fx generate) counts as user
    code if user code calls it, or if the whole program is such code (python -c).
    """
    stack = list(files)
    generated: int | None = None  # the start of a run of frames without a file
    for index, file in enumerate(stack):
        if not is_user_code(file):
            generated = None
        elif not file.startswith("<") or file == stack[-1]:
            return index if generated is None else generated
        elif generated is None:
            generated = index
    return 0
