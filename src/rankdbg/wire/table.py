"""The whole table of questions, and the types of their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rankdbg.wire import answers, nan_answers, node_answers, ray_tables, replica_answers
from rankdbg.wire.decoding import decode
from rankdbg.wire.node_questions import ASKED
from rankdbg.wire.questions import Question, RankQuestion, name_in

if TYPE_CHECKING:
    from rankdbg.wire import Message

_MODULES = {
    "answers": answers,
    "nan_answers": nan_answers,
    "node_answers": node_answers,
    "ray_tables": ray_tables,
    "replica_answers": replica_answers,
}


def answer_type(question: type[Question[Any]]) -> Any:
    """About the node or, of a question about ranks, about one rank. Any is object."""
    (name,) = question.__orig_bases__[0].__args__  # type: ignore[attr-defined]
    if name == "Any":
        return object
    module, _, kind = name.rpartition(".")
    return getattr(_MODULES[module], kind)


class CheckedAnswer(dict[str, Any]):
    """A node's whole answer, and what was decoded from it: those of 10,000 ranks are decoded once."""

    def __init__(self, answer: Message, decoded: Any) -> None:
        super().__init__(answer)
        self.decoded = decoded


def check_answer(message: Message, answer: Message) -> CheckedAnswer:
    """A node's whole answer, as saved. Raises BadField. Unknown questions are not checked."""
    return CheckedAnswer(answer, _decode_answer(message, answer))


def _decode_answer(message: Message, answer: Message) -> Any:
    question = ASKED.get(name_in(message))
    if question is None:
        return decode(object, answer)
    if not issubclass(question, RankQuestion):
        return decode(answer_type(question), answer)
    of_ranks = decode(answers.OfRanks, answer)
    kind = answer_type(question)
    relayed = tuple(
        answers.Relayed(entry.process, decode(kind, entry.value, f".answers[{index}].value"))
        for index, entry in enumerate(of_ranks.answers)
    )
    return answers.OfRanks(relayed, of_ranks.silent)
