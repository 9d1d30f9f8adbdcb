"""Which hit conditions make sense."""

from __future__ import annotations

import pytest

from rankdbg.frontends.dap.hit_conditions import CheckedBreakpoints


@pytest.mark.parametrize(
    "condition", ["7", " 7 ", "==7", "== 7", ">= 7", ">7", "<= 7", "< 7", "% 10", "@HIT@ > n", ""]
)
def test_sensible(condition: str) -> None:
    given = {"breakpoints": [{"line": 1, "hitCondition": condition}, {"line": 2}]}
    assert CheckedBreakpoints(given).arguments == given


@pytest.mark.parametrize("condition", ["abc", "7 times", "= 7", "=> 7", "%0", "-1", "> n"])
def test_without_sense(condition: str) -> None:
    """The rank gets the others, and the answers are in the order of the request."""
    lines = [{"line": 1}, {"line": 2, "hitCondition": condition}, {"line": 3}]
    checked = CheckedBreakpoints({"source": {}, "breakpoints": lines})
    assert checked.arguments == {"source": {}, "breakpoints": [lines[0], lines[2]]}
    first, refused, last = checked.answers([{"id": 1, "verified": True}, {"id": 2}])
    assert (first["id"], refused["verified"], last["id"]) == (1, False, 2)
    assert repr(condition) in refused["message"]
