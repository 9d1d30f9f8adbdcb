"""Tools that this node lacks and the client offers: sent when needed.

A question that needs one raises MissingTool. The client then sends the tool and repeats the
question; so the megabytes of py-spy are not sent to pods whose ranks all have agents.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

# In the environment, for child processes.
_OFFERED = "RANKDBG_OFFERED"
_LANDED = "RANKDBG_LANDED"


class MissingTool(Exception):
    """This tool is needed to answer the question."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def offer(kinds: Iterable[str]) -> None:
    os.environ[_OFFERED] = " ".join(kinds)


def need(kind: str) -> None:
    """Raises MissingTool if the client can send it."""
    if kind in os.environ.get(_OFFERED, "").split():
        raise MissingTool(kind)


def take(kind: str, content: str) -> None:
    """Unpack a tool. It is not requested again, even if there is no space for it."""
    import base64
    import importlib
    import io
    import tempfile
    import zipfile

    offer(each for each in os.environ.get(_OFFERED, "").split() if each != kind)
    try:
        directory = os.environ.get(_LANDED) or tempfile.mkdtemp(prefix="rankdbg-node-")
        os.environ[_LANDED] = directory
        with zipfile.ZipFile(io.BytesIO(base64.b64decode(content))) as packed:
            packed.extractall(directory)
            for name in packed.namelist():
                if name.startswith("bin/"):
                    os.chmod(os.path.join(directory, name), 0o700)
    except OSError:
        return
    if directory not in sys.path:
        sys.path.append(directory)
    importlib.invalidate_caches()
