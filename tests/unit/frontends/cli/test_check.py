"""The table of `rankdbg check`."""

from __future__ import annotations

import pytest

from rankdbg.frontends.cli.check import _print
from rankdbg.investigations.nodes.node_checks import NodeChecks
from rankdbg.wire.node_answers import CheckFinding, CheckResult

LONG = "not installed; rankdbg sends its own when a question needs"


def test_long_lines_are_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    """At 80 columns, below the beginning of their text."""
    findings = {"agents": CheckFinding(True, "respond"), "pystack": CheckFinding(None, LONG)}
    _print(NodeChecks({node: CheckResult(findings) for node in ("a", "b")}))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "ok  agents   respond   (all 2 nodes)"
    assert lines[1] == f"-   pystack  {LONG}"
    assert lines[2] == f"{'':{len('-   pystack  ')}}(all 2 nodes)"
