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


def check_answer(message: Message, answer: Any) -> None:
    """A node's whole answer, as saved. Raises BadField. Unknown questions are not checked."""
    question = ASKED.get(name_in(message))
    if question is None:
        decode(object, answer)
    elif issubclass(question, RankQuestion):
        for index, entry in enumerate(decode(answers.OfRanks, answer).answers):
            decode(answer_type(question), entry.value, f".answers[{index}].value")
    else:
        decode(answer_type(question), answer)
