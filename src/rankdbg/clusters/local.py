"""This machine. Not special: it is reached through a node process like any other."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rankdbg.clusters import NO_OPTIONS, Options
from rankdbg.clusters.channel import ProcessChannel, plain_opening
from rankdbg.errors import BadInput

# Isolated (-I): the folder from which the user calls rankdbg may hold a `json.py`, and
# PYTHONPATH anything. The package is this very one, wherever it is; what else lies beside
# it stays out of the way.
_START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); import rankdbg; del sys.path[0];"
    "from rankdbg.node.__main__ import main; main()"
)


class Local:
    target = "local"
    origin = ""

    def __init__(
        self,
        rest: str = "",
        options: Options = NO_OPTIONS,
        scope: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        if rest:
            raise BadInput(f"the target local takes nothing after it, not {rest!r}")
        self._scope = scope

    def nodes(self) -> list[str]:
        return [os.uname().nodename]

    def open(self, node: str) -> ProcessChannel:
        package = Path(__file__).resolve().parents[2]
        command = [sys.executable, "-I", "-c", _START, str(package), "rankdbg.node"]
        opening = plain_opening(node, self._scope)
        return ProcessChannel(node, command, opening, {**os.environ, "RANKDBG": "0"})
