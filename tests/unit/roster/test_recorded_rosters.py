"""Rosters of real launchers, decided from what was recorded of them (support/recorded_rosters.py)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from recorded_rosters import FIXTURES, decided, recorded, summaries

RECORDED = [pytest.param(document, id=name) for name, document in recorded()]


@pytest.mark.parametrize("document", RECORDED)
def test_recorded_roster(document: dict[str, Any]) -> None:
    """Which jobs, ranks, numbers, roles, launchers and helpers, as when it was recorded."""
    found = summaries(decided(document)).values()
    assert sorted(found, key=str) == document["expected"]


@pytest.mark.parametrize("document", RECORDED)
def test_order_of_processes_does_not_matter(document: dict[str, Any]) -> None:
    """Nodes list processes in any order."""
    turned = {**document, "processes": document["processes"][::-1]}
    assert sorted(summaries(decided(turned)).values(), key=str) == document["expected"]


def test_nothing_of_the_machine_is_recorded() -> None:
    """Neither its paths nor variables that nothing reads."""
    for path in FIXTURES.glob("*.json"):
        text = path.read_text()
        assert not re.search(r"/(work|home|root|tmp|opt)/", text), path
        assert "PATH" not in text, path
