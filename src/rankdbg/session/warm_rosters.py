"""The last rosters of a session that asks often: a node in which nothing has changed says only
that, and what was read from its answer is used again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rankdbg.errors import RankdbgError
from rankdbg.session.roster import Roster
from rankdbg.wire.answers import ProcessList
from rankdbg.wire.node_questions import ListProcesses

Answers = list[tuple[str, ProcessList | RankdbgError]]
AskEach = Callable[[Mapping[str, ListProcesses]], Iterable[tuple[str, ProcessList | RankdbgError]]]


class WarmRosters:
    def __init__(self) -> None:
        self._answers: dict[tuple[str, str], ProcessList] = {}  # by node and question
        self._read: dict[str, tuple[Answers, Roster]] = {}  # by question

    def ask(self, ask_each: AskEach, nodes: Sequence[str], question: ListProcesses) -> Answers:
        """The whole answer of each node, or an error instead."""
        key = _key(question)
        last = {node: self._answers.get((node, key)) for node in nodes}
        questions = {node: _with_version(question, last[node]) for node in nodes}
        answers: Answers = []
        for node, answer in ask_each(questions):
            before = last[node]
            if isinstance(answer, ProcessList):
                if answer.unchanged and before is not None:
                    answer = before
                elif question.warm:
                    self._answers[node, key] = answer
            answers.append((node, answer))
        return answers

    def read_before(self, answers: Answers) -> Roster | None:
        """What was read from these very answers, to whichever question: a snapshot has one answer."""
        return next(
            (roster for before, roster in self._read.values() if _same(before, answers)), None
        )

    def keep(self, question: ListProcesses, answers: Answers, roster: Roster) -> None:
        if not any(isinstance(a, RankdbgError) for _, a in answers):
            self._read[_key(question)] = answers, roster


def _same(before: Answers, answers: Answers) -> bool:
    return len(before) == len(answers) and all(
        old[0] == new[0] and old[1] is new[1] for old, new in zip(before, answers, strict=True)
    )


def _key(question: ListProcesses) -> str:
    return repr(question.message())


def _with_version(question: ListProcesses, last: ProcessList | None) -> ListProcesses:
    if last is None or not last.version:
        return question
    return ListProcesses(**vars(question), seen=last.version)


def is_unchanged(answer: Any) -> bool:
    """An answer that says nothing by itself."""
    return isinstance(answer, dict) and bool(answer.get("unchanged"))
