"""This machine, reached through a node process like any other."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rankdbg.clusters import NO_OPTIONS, Cluster, Options
from rankdbg.clusters.transport.channel import CONNECT_SECONDS, ProcessChannel, plain_opening
from rankdbg.errors import BadInput

# Isolated (-I): the current folder may contain a `json.py`, and PYTHONPATH anything. The
# node process imports this same package, and nothing else from the folder that it is in.
_START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); import rankdbg; del sys.path[0];"
    "from rankdbg.node.__main__ import main; main()"
)


class Local(Cluster):
    target = "local"

    def __init__(
        self,
        rest: str = "",
        options: Options = NO_OPTIONS,
        scope: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        if rest:
            raise BadInput(f"invalid target local:{rest}: local takes no argument")
        self._scope = scope
        self._connect_seconds = options.tolerance(CONNECT_SECONDS)

    def nodes(self) -> list[str]:
        return [os.uname().nodename]

    def open(self, node: str) -> ProcessChannel:
        package = Path(__file__).resolve().parents[2]
        command = [sys.executable, "-I", "-c", _START, str(package), "rankdbg.node"]
        opening = plain_opening(node, self._scope)
        return ProcessChannel(
            node,
            command,
            opening,
            {**os.environ, "RANKDBG": "0"},
            connect_seconds=self._connect_seconds,
        )

    def command_prefix(self, node: str) -> str:
        return ""
