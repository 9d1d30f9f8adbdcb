"""The table of questions: each is answered by one function, and its answer can be decoded."""

from __future__ import annotations

import dataclasses
import types
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankdbg import wire
from rankdbg.agent import questions as agent
from rankdbg.errors import RankdbgError
from rankdbg.node.service import Service
from rankdbg.session import asking
from rankdbg.types import Answer, ProcessKey, Rank, Silence
from rankdbg.wire import answers
from rankdbg.wire.decoding import BadField, decode, field_types
from rankdbg.wire.node_questions import ASKED, BY_NODE, ListProcesses
from rankdbg.wire.questions import (
    BY_AGENT,
    AgentQuestion,
    BadQuestion,
    Evaluate,
    ListStops,
    Question,
    RankQuestion,
    read_question,
)
from rankdbg.wire.table import answer_type, check_answer

ALL = [*BY_AGENT.values(), *BY_NODE.values()]
TYPES = [*{kind: 0 for q in ALL if (kind := answer_type(q)) is not object}]


few = settings(max_examples=5, deadline=None)


def name(question: type[Question[Any]]) -> str:
    return f"{question.by}: {question.wire_name}"


def test_each_question_is_answered_by_one_function() -> None:
    """What the table says, and nothing else: by the agent, or by the node. A node may also have a
    function for what it passes on to agents."""
    assert {*agent.ANSWERS} == {*BY_AGENT.values()}
    own = {*Service.QUESTIONS}
    assert {*BY_NODE.values()} <= own
    assert all(issubclass(q, RankQuestion) and q.by == "agent" for q in own - {*BY_NODE.values()})


@pytest.mark.parametrize("question", ALL, ids=name)
def test_the_columns_of_the_table(question: type[Question[Any]]) -> None:
    """Have known values; and what an agent does is not repeated unless that is harmless."""
    assert question.by in ("agent", "node") and question.timed_by in ("agent", "node")
    assert question.saved in ("last", "in order", "fitting")
    changes = ("command", "pause", "break set", "break clear", "evaluate", "source give")
    assert not (question.repeatable and question.wire_name in changes)
    assert question.by == "agent" or not question.repeatable


@pytest.mark.parametrize("question", ALL, ids=name)
@few
@given(data=st.data())
def test_questions_survive_the_wire(question: type[Question[Any]], data: st.DataObject) -> None:
    """Whatever their fields are."""
    fields = {key: data.draw(values_of(kind)) for key, kind in field_types(question).items()}
    asked = question(**fields)
    table = BY_AGENT if issubclass(question, AgentQuestion) else ASKED
    read = read_question(wire.decode(wire.encode(asked.message())), table)
    assert type(read) is question
    defaults = {key: getattr(question, key, None) for key in fields}
    given_fields = {key: defaults[key] if v is None else v for key, v in fields.items()}
    assert {key: getattr(read, key) for key in fields} == given_fields


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
@few
@given(data=st.data())
def test_answers_survive_the_wire(kind: Any, data: st.DataObject) -> None:
    """Whatever an agent or a node says, the session has the same."""
    said = data.draw(values_of(kind))
    sent = wire.decode(wire.encode(dataclasses.asdict(said)))
    assert decode(kind, sent) == said


def test_hostile_answers_name_the_rank_and_the_field() -> None:
    """One rank's rubbish is its silence; the others are heard."""
    ranks = {key: Rank(key, "job", number) for number, key in enumerate(keys(2))}
    good = {"process": [100, 1], "value": {"stops": []}}
    bad = {
        "process": [101, 1],
        "value": {"stops": [{"state": "stopped", "where": ["f", "x.py", "9"]}]},
    }
    found = decode(answers.OfRanks, {"answers": [good, bad], "silent": []})
    first, second = asking._outcomes("node", ListStops(), found, ranks).values()
    assert isinstance(first, Answer) and first.value == answers.StopReports(())
    assert isinstance(second, Silence) and second.rank.number == 1
    assert second.reason == (
        "invalid answer of its agent: stops[0].where[2] must be a whole number"
    )


def test_a_hostile_node_is_named_with_the_field() -> None:
    """In one sentence."""
    answer = {"processes": [{"pid": 1}]}
    with pytest.raises(RankdbgError) as caught:
        asking._decoded("node-7", ListProcesses(), answer)
    assert str(caught.value) == (
        "invalid answer of node-7 to the question 'roster': "
        "processes[0] must be an object with 'start'"
    )


def test_a_saved_answer_is_checked_as_a_whole() -> None:
    """Also what each rank has said."""
    saved = {"answers": [{"process": [1, 2], "value": {"kind": "text"}}], "silent": []}
    with pytest.raises(BadField, match=r"answers\[0\].value must be an object with 'text'"):
        check_answer({"ask": "evaluate"}, saved)
    check_answer({"ask": "a question of tomorrow"}, {"any": "thing"})


def test_a_checked_answer_is_not_decoded_again() -> None:
    """Neither as a whole nor what each rank has said."""
    saved = {"answers": [{"process": [100, 1], "value": {"stops": []}}], "silent": []}
    checked = check_answer(ListStops().message(), saved)
    assert checked == saved
    found = asking._decoded_by(answers.OfRanks, "node", ListStops(), checked)
    assert found is checked.decoded
    ranks = {key: Rank(key, "job", 0) for key in keys(1)}
    (outcome,) = asking._outcomes("node", ListStops(), found, ranks).values()
    assert isinstance(outcome, Answer) and outcome.value is found.answers[0].value


def test_bad_questions() -> None:
    """Are refused in a sentence; null stands for the default, and more fields are ignored."""
    with pytest.raises(BadQuestion, match="unknown question 'break blow'"):
        read_question({"ask": "break", "do": "blow"}, BY_AGENT)
    with pytest.raises(BadQuestion, match="invalid question 'evaluate': expression must be a str"):
        read_question({"ask": "evaluate", "expression": 7}, BY_AGENT)
    asked = read_question({"ask": "command", "line": None, "next": None, "new": 1}, BY_AGENT)
    assert asked.message() == {"ask": "command"}
    assert Evaluate(expression="x").message() == {"ask": "evaluate", "expression": "x"}


# --- values of any type ---------------------------------------------------------------------


def keys(count: int) -> list[ProcessKey]:
    return [ProcessKey("node", 100 + number, 1) for number in range(count)]


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """As the types of wire/decoding.py."""
    plain = {
        str: st.text(max_size=8),
        int: st.integers(-(2**62), 2**62),
        float: st.floats(allow_nan=False, allow_infinity=False),
        bool: st.booleans(),
        object: st.none() | st.integers(0, 9) | st.text(max_size=3),
        types.NoneType: st.none(),
    }
    if kind in plain:
        return plain[kind]
    inner = [values_of(part) for part in getattr(kind, "__args__", ()) if part is not ...]
    origin = getattr(kind, "__origin__", None)
    if isinstance(kind, types.UnionType):
        return st.one_of(inner)
    if origin is dict:
        return st.dictionaries(st.text(max_size=4), inner[1], max_size=2)
    if origin is list:
        return st.lists(inner[0], max_size=2)
    if origin is tuple:
        some = st.lists(inner[0], max_size=2).map(tuple)
        return some if kind.__args__[-1] is ... else st.tuples(*inner)
    if hasattr(kind, "_make"):
        return st.tuples(*map(values_of, field_types(kind).values())).map(kind._make)
    if kind is answers.Child:  # which has children
        return st.builds(answers.Child, pid=st.integers(1, 9), name=st.text(max_size=4))
    return st.builds(kind, **{key: values_of(each) for key, each in field_types(kind).items()})
