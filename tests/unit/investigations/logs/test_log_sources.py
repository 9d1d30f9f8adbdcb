"""investigations/logs/log_sources: whose logs are read."""

from __future__ import annotations

from typing import Any, cast

import pytest

from rankdbg.clusters.local import Local
from rankdbg.errors import NoJob
from rankdbg.investigations.logs.log_sources import job_logs
from rankdbg.logs.places import FoundLogs, LogFile
from rankdbg.session import Roster


class Ended:
    """A session where no job runs any more, and one has left a log."""

    cluster = Local()
    timeout = 1.0

    def apart(self, timeout: float) -> Any:
        return self

    def forget(self) -> None:
        pass

    def roster(self, where: bool, job: str | None) -> Roster:
        return Roster([])

    def __init__(self, **identities: str) -> None:
        self.identities = identities or {"train": "a"}

    def find_logs(self, paths: Any, ended: bool, job: str | None, left: bool) -> FoundLogs:
        return FoundLogs(
            [
                LogFile("node", f"/logs/{name}.log", job="train", identity=identity)
                for name, identity in self.identities.items()
            ]
        )


def test_the_last_one_where_none_is_named() -> None:
    """It has ended, and its logs tell why."""
    source = job_logs(cast(Any, Ended()))
    source.find()
    assert source.state is not None
    assert (source.state.job, [file.path for file in source.files]) == (
        "train",
        ["/logs/train.log"],
    )


def test_another_job_is_not_taken_for_the_one_that_is_named() -> None:
    """It is said that there is none of that name."""
    source = job_logs(cast(Any, Ended()), job="nosuch")
    with pytest.raises(NoJob, match="no job 'nosuch'"):
        source.find()
    assert source.files == []


def test_a_rotated_file_is_not_another_one() -> None:
    """Its rest is read under the name that it had; the same where it is found again later."""
    session = Ended()
    source = job_logs(cast(Any, session))
    source.find()
    session.identities = {"train": "b", "train_1": "a"}
    for _ in range(2):
        source.find()
        found = [(file.path, file.identity) for file in source.files]
        assert found == [("/logs/train.log", "b")]


def test_a_renamed_file_keeps_its_number() -> None:
    """Messages name their file by it."""
    session = Ended(other="o", train="a")
    source = job_logs(cast(Any, session))
    source.find()
    session.identities = {"renamed": "o", "train": "a"}
    source.find()
    assert [file.path for file in source.files] == ["/logs/renamed.log", "/logs/train.log"]
