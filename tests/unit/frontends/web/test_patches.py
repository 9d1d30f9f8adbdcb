"""patches.py: what is sent makes the new document of the old one, and little of it is sent."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rankdbg.frontends.html.job_document import document_later, document_of
from rankdbg.frontends.html.page_origin import PageOrigin
from rankdbg.frontends.web.patches import Change, changes
from simulated_jobs import moving_job, stuck_job

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=12,
)


def applied(document: Any, some: list[Change]) -> Any:
    """As page/src/changes.ts does it."""
    whole = {"": copy.deepcopy(document)}
    for way, value in some:
        container: Any = whole
        for name in ["", *way][:-1]:
            container = container[name]
        container[["", *way][-1]] = value
    return whole[""]


@given(VALUES, VALUES)
def test_changes_make_the_new_of_the_old(old: Any, new: Any) -> None:
    """Whatever the two documents are; True and 1 are the same to Python, and to a page."""
    assert applied(old, changes(old, new)) == new


def test_of_two_documents_of_a_job() -> None:
    """One that hangs, and the same as it recovers."""
    origin = PageOrigin("rankdbg web", "local", "2026-11-19T03:11:26+00:00")
    hangs = document_of(stuck_job({"pp": 1, "dp": 8, "tp": 2}, 5), origin)
    moves = document_of(moving_job({"pp": 1, "dp": 8, "tp": 2}), origin)
    assert applied(hangs, changes(hangs, moves)) == moves


def test_of_a_job_that_still_hangs_only_its_time_is_sent() -> None:
    """The sentence with the time, and the time of the data."""
    found = stuck_job({"pp": 1, "dp": 8, "tp": 2}, 5)
    first = document_of(found, PageOrigin("rankdbg web", "local", "2026-11-19T03:11:26+00:00"))
    later = document_later(first, found, "2026-11-19T03:11:31+00:00")
    assert changes(first, later) == [(["time"], "2026-11-19T03:11:31+00:00")]
