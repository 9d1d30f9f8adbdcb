"""frontends/log_sources: whose logs are read."""

from __future__ import annotations

from typing import Any, cast

import pytest

from rankdbg.errors import NoJob
from rankdbg.frontends.log_sources import NodeLogs
from rankdbg.logs.places import FoundLogs, LogFile
from rankdbg.session import Roster


class Ended:
    """A session where no job runs any more, and one has left a log."""

    cluster = None

    def forget(self) -> None:
        pass

    def roster(self, where: bool) -> Roster:
        return Roster([])

    def find_logs(self, paths: Any, ended: bool) -> FoundLogs:
        return FoundLogs([LogFile("node", "/logs/train.log", job="train")])


def test_the_last_one_where_none_is_named() -> None:
    """It has ended, and its logs tell why."""
    source = NodeLogs(cast(Any, Ended()), ())
    source.find()
    assert (source.state.job, [file.path for file in source.files]) == (
        "train",
        ["/logs/train.log"],
    )


def test_another_job_is_not_taken_for_the_one_that_is_named() -> None:
    """It is said that there is none of that name."""
    source = NodeLogs(cast(Any, Ended()), (), "nosuch")
    with pytest.raises(NoJob, match="none called 'nosuch'"):
        source.find()
    assert source.files == []
