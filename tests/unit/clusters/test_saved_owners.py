"""A snapshot answers each question about owners or stacks with an answer that fits it."""

from __future__ import annotations

import pytest

from rankdbg.clusters.snapshot import SavedAnswers, SavedChannel
from rankdbg.errors import SnapshotError
from rankdbg.wire.node_questions import FindOwners, SampleStacks


def test_each_question_has_its_own_answer() -> None:
    """`why` asks about main threads, about threads, and about connections."""
    questions = [
        FindOwners(),
        FindOwners(threads=((7, 8),)),
        FindOwners(connections=(("a:1", "b:2"),)),
    ]
    saved = [(question.message(), number) for number, question in enumerate(questions)]
    channel = SavedChannel(SavedAnswers(saved))
    found = [channel.begin(question.message()).answer(1.0) for question in questions]
    assert found == [0, 1, 2]


def test_tasks() -> None:
    """Stacks that were saved with tasks also answer a question without them; not the other way."""
    with_tasks = SavedChannel(
        SavedAnswers([(SampleStacks(threads="all", tasks=True).message(), 1)])
    )
    assert with_tasks.begin(SampleStacks().message()).answer(1.0) == 1
    without = SavedChannel(SavedAnswers([(SampleStacks(threads="all").message(), 1)]))
    with pytest.raises(SnapshotError, match="no stacks of the main thread and tasks"):
        without.begin(SampleStacks(tasks=True).message())
