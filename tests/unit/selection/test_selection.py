"""Selections: what they mean, what is refused and where, and how ranks are written."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankdbg.errors import SelectionError
from rankdbg.selection import (
    actors_in,
    format_numbers,
    format_ranks,
    matches,
    mesh,
    parse,
    pick,
    take_threads,
)
from rankdbg.types import ProcessKey, Rank

MESH = {"pp": 4, "dp": 8, "tp": 4}
ROSTER = mesh.roster(MESH)


def make_rank(pid: int, number: int | None = None, host: str = "node-1", **labels: Any) -> Rank:
    return Rank(ProcessKey(host, pid, 0), job=labels.pop("job", "train"), number=number, **labels)


# Two meshes in one job, as in reinforcement learning, and a process without a number.
ROLES = [
    *(make_rank(100 + n, n, host="node-1", role="policy") for n in range(4)),
    *(make_rank(200 + n, n, host="node-2", role="critic", state="stopped") for n in range(2)),
    make_rank(300, host="node-2", role="my role", state="no agent"),
]


def numbers(text: str, roster: Sequence[Rank] = ROSTER) -> list[int | None]:
    return [rank.number for rank in pick(parse(text), roster)]


def pids(text: str) -> list[int]:
    return [rank.pid for rank in pick(parse(text), ROLES)]


def refusal(text: str, roster: Sequence[Rank] = ROSTER) -> SelectionError:
    with pytest.raises(SelectionError) as caught:
        pick(parse(text), roster)
    return caught.value


def marked(error: SelectionError) -> str:
    """The part of the text that the carets stand under."""
    return error.text[error.start : error.end]


# What selections mean


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ranks(3)", [3]),
        ("ranks(1,3,5)", [1, 3, 5]),
        ("ranks(1:10:2)", [1, 3, 5, 7, 9]),
        ("ranks(1:4)", [1, 2, 3]),
        ("ranks(:3)", [0, 1, 2]),
        ("ranks(126:)", [126, 127]),
        ("ranks(124::2)", [124, 126]),
        ("ranks(124::)", [124, 125, 126, 127]),
        ("ranks(:)", list(range(128))),
        ("ranks(::)", list(range(128))),
        (
            "ranks(pp=2, dp=(1,3), tp=2:8)",
            [
                number
                for number, (pp, dp, tp) in enumerate(
                    itertools.product(range(4), range(8), range(4))
                )
                if pp == 2 and dp in (1, 3) and tp in range(2, 8)
            ],
        ),
    ],
)
def test_seed_grammar(text: str, expected: list[int]) -> None:
    """What the seed's `cast` accepts means the same here."""
    assert numbers(text) == expected


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("3", "ranks(3)"),
        (":", "ranks(:)"),
        ("tp=0", "ranks(tp=0)"),
        ("0-6,9", "ranks(0,1,2,3,4,5,6,9)"),
        ("0-6,9", "ranks(0:7,9)"),
        ("tp=0-2", "ranks(tp=0:3)"),
        ("tp=(0,2-3)", "ranks(tp=(0,2:4))"),
        ("rank=0-3,tp=0", "ranks(tp=0,rank=(0:4))"),
        ("rank=5", "5"),
        ("5-5", "5"),
        ("007", "7"),
        ("2,1,1", "1,2"),
        ("dp=(3)", "dp=3"),
        ("all", "ranks(all)"),
        ("*", "ranks( * )"),
        ("all", ":"),
        ("  ranks (\tpp = 2 ,\n dp = ( 1 , 2 : 4 ) , rank = 64 - 80 )  ", "pp=2,dp=1:4,rank=64-80"),
    ],
)
def test_same_meaning(short: str, long: str) -> None:
    """`ranks( )`, white space, order and the way of writing a range change nothing."""
    assert numbers(short) == numbers(long)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("role=policy", [100, 101, 102, 103]),
        ("role=p*,rank=0-1", [100, 101]),
        ("role=(policy,my*)", [100, 101, 102, 103, 300]),
        ('role="my role"', [300]),
        ("role='my role'", [300]),
        ("role=my role", [300]),
        ("role=[!p]*", [200, 201, 300]),
        ("host=node-2", [200, 201, 300]),
        ("host=node-?,role=critic", [200, 201]),
        ("state=stopped", [200, 201]),
        ("state=no agent", [300]),
        ("state=(no agent, stopped)", [200, 201, 300]),
        ("job=train,pid=(101,300)", [101, 300]),
        ("pid=200:400", [200, 201, 300]),
    ],
)
def test_text_keys(text: str, expected: list[int]) -> None:
    """Roles, hosts, states and jobs are globs; pids are numbers."""
    assert pids(text) == expected


def test_shared_number() -> None:
    """A number that two processes have picks both, in the order of their hosts."""
    assert pids("1") == [101, 201]


def test_unnumbered() -> None:
    """A process without a number is in `all`, at the end, and never in a range."""
    assert pids("all") == [100, 200, 101, 201, 102, 103, 300]
    assert 300 not in pids(":")


def test_empty_role() -> None:
    """An empty text in quotes picks the processes that have no role."""
    roster = [make_rank(1, 0, role="policy"), make_rank(2, 1)]
    assert numbers('role=""', roster) == [1]


def test_colon_in_text() -> None:
    """Process titles with colons need no quotes."""
    roster = [make_rank(1, 0, role="sglang::scheduler"), make_rank(2, 1)]
    assert numbers("role=sglang::*,rank=:", roster) == [0]


def test_case() -> None:
    """Globs heed upper and lower case on every system."""
    assert refusal("role=Policy", ROLES).what == "no role Policy"


def test_range_beyond() -> None:
    """A range may reach beyond the ranks that exist, if it picks one."""
    assert numbers("126:1000") == [126, 127]
    assert numbers(f"127-{10**30}") == [127]
    assert numbers("tp=3:99,pp=0,dp=0") == [3]


def test_ragged_mesh() -> None:
    """A rank that lacks a dimension is not picked by it."""
    roster = [make_rank(1, 0, coordinates={"tp": 0}), make_rank(2, 1)]
    assert numbers("tp=:", roster) == [0]


def test_spans() -> None:
    """A selection remembers where its terms and values stand."""
    selection = parse("ranks(pp=2, dp=(1, 3:5))")
    (choice,) = selection.choices
    terms = [(term.key, selection.text[term.start : term.end]) for term in choice.terms]
    assert terms == [("pp", "pp=2"), ("dp", "dp=(1, 3:5)")]
    values = choice.terms[1].values
    assert [selection.text[value.start : value.end] for value in values] == ["1", "3:5"]


JOB = [
    make_rank(1, role="driver"),
    *(make_rank(10 + n, n, role="Rollout") for n in range(4)),
    *(make_rank(20 + n, n, role="Trainer", names={"actor": f"trainer_{n}"}) for n in range(2)),
    make_rank(30, role="Policy", names={"actors": "actor+ref_policy", "actor_id": "0a1b"}),
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("driver", [1]),
        ("Rollout", [10, 11, 12, 13]),
        ("Rollout 1", [11]),
        ("Rollout 0-1,3", [10, 11, 13]),
        ("Rollout, 3", [13]),
        ("role=Rollout,3", [13]),
        ("role=Rollout, 0:2, 3", [10, 11, 13]),
        ("3, role=Rollout", [13]),
        ("driver, Rollout 0-3, Trainer 0-1", [10, 20, 11, 21, 12, 13, 1]),
        ("ranks(driver, Trainer)", [20, 21, 1]),
        ("T* 1", [21]),
        ('"Rollout" 2', [12]),
        ("1, driver", [11, 21, 1]),
        ("Rollout, host=node-1, 3", [13]),
        ("actor=ref_policy", [30]),
        ("actor=trainer_*", [20, 21]),
        ("actor=0a1b", [30]),
        ("Rollout 1; pid=30", [11, 30]),
        ("ranks(tp=0; Rollout 1)", [11]),
    ],
)
def test_roles(text: str, expected: list[int]) -> None:
    """A role stands for its processes, with numbers for those; actors have names."""
    roster = [*JOB[:2], *JOB[2:]]
    if "tp" in text:
        roster = [make_rank(11, 1, role="Rollout", coordinates={"tp": 0})]
    assert [rank.pid for rank in pick(parse(text), roster)] == expected


def test_no_such_number_of_a_role() -> None:
    """What a role does not have is answered with what it has."""
    error = refusal("driver, Rollout 9", JOB)
    assert (error.what, marked(error)) == ("no rank 9", "9")
    assert error.why[2] == "Rollout has 0-3"
    assert refusal("policx", JOB).what == "no role policx"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("all", [2, 3, 4, 5]),
        ("1", [3, 5]),
        ("gen=last", [2, 3, 4, 5]),
        ("gen=1", [1, 2, 4, 5]),
        ("gen=2", [3]),
        ("gen=all", [1, 2, 3, 4, 5]),
        ("gen=1,1", [1, 5]),
        ("1,gen=(1,last)", [1, 3, 5]),
        ("step=1", [4, 5]),
        ("step=1,0", [4]),
        ("step=0-1", [2, 3, 4, 5]),
        ("step=batch,gen=all", [1]),
        ("het=0", [2]),
    ],
)
def test_generations_and_steps(text: str, expected: list[int]) -> None:
    """Without `gen` the last generation of each number is meant; steps and components of Slurm
    have numbers or names."""
    roster = [
        make_rank(1, 1, names={"step": "batch"}),
        make_rank(2, 0, names={"step": "0", "het": "0"}),
        make_rank(3, 1, names={"step": "0"}, generation=2),
        make_rank(4, 0, role="r", names={"step": "1"}),
        make_rank(5, 1, role="r", names={"step": "1"}),
    ]
    assert sorted(rank.pid for rank in pick(parse(text), roster)) == expected


def test_format_generation() -> None:
    """A process that was replaced is written with its generation."""
    roster = [make_rank(1, 0), make_rank(2, 1), make_rank(3, 1, generation=2)]
    assert format_ranks(roster[::2], roster) == "0-1"
    assert format_ranks(roster[1:], roster) == "1; 1, gen=1"


def test_threads() -> None:
    """`thread=` is no label of a rank, but the address of a stop."""
    assert refusal("thread=trainer", JOB).what.startswith("thread= is the address of a stop")
    ranks, threads = take_threads(parse("Trainer 1, thread=(a, b*)"))
    assert threads == ("a", "b*")
    assert [rank.pid for rank in pick(ranks, JOB)] == [21]
    assert actors_in(parse("actor=(x,y), host=a")) == ("x", "y")


def test_matches_alone() -> None:
    """A rank that does not know the others matches its role, its number and its actor."""
    rank = JOB[-2]
    for text in ("Trainer 1", "role=Trainer,1", "actor=trainer_1", "driver, Trainer", "gen=last"):
        assert matches(parse(text), rank)
    for text in ("Trainer 0", "driver", "actor=x", "gen=2", "step=0"):
        assert not matches(parse(text), rank)


def test_a_rank_without_a_number_is_in_no_range() -> None:
    """It is not looked for from one end of the range to the other, which may be endless."""
    begun = time.process_time()
    assert not matches(parse("0:40000000"), make_rank(1))
    assert matches(parse("0:40000000"), make_rank(1, 7))
    assert time.process_time() - begun < 0.2


# What is refused, and where the caret stands


@pytest.mark.parametrize(
    ("text", "what", "place", "start"),
    [
        ("", "empty selection", "", 0),
        ("   ", "empty selection", "   ", 0),
        ("ranks()", "empty selection", "()", 5),
        ("pp=1,tp=()", "empty selection", "()", 8),
        ("1,", "nothing after this comma", ",", 1),
        ("ranks(1, 2, )", "nothing after this comma", ",", 10),
        ("dp=(1,)", "nothing after this comma", ",", 5),
        ("1,,2", "nothing before this comma", ",", 2),
        (",1", "nothing before this comma", ",", 0),
        ("ranks(1", "unclosed parenthesis", "(", 5),
        ("ranks(dp=(1,3)", "unclosed parenthesis", "(", 5),
        ("ranks(dp=(1,3", "unclosed parenthesis", "(", 9),
        ('role="my role', "unclosed quote", '"', 5),
        ("ranks(1))", "unexpected text after the selection", ")", 8),
        ("ranks(1) n", "unexpected text after the selection", "n", 9),
        ("1)", "unexpected )", ")", 1),
        ("(1,3)", "unexpected (", "(", 0),
        ("rank(3)", "unexpected (", "(", 4),
        ("ranks((1))", "unexpected (", "(", 6),
        ("role=policy tp=0", "unexpected =", "=", 14),
        ("=3", "unexpected =", "=", 0),
        ("tp=", "tp= has no value", "tp=", 0),
        ("dp=1, tp= , pp=1", "tp= has no value", "tp=", 6),
        ("5:2", "the range 5:2 is empty", "5:2", 0),
        ("ranks(1, 5:5)", "the range 5:5 is empty", "5:5", 9),
        (":0", "the range :0 is empty", ":0", 0),
        ("tp=5-2", "the range 5-2 is empty", "5-2", 3),
        ("0:8:0", "the step must not be 0", "0", 4),
        ("-3", "a number cannot be negative", "-3", 0),
        ("tp=0:-1", "a number cannot be negative", "-1", 5),
        ("3--1", "a number cannot be negative", "-1", 2),
        ("tp=x", "x is not a number or a range", "x", 3),
        ("tp='0'", "0 is not a number or a range", "'0'", 3),
        ("1;", "nothing after this semicolon", ";", 1),
        (";1", "nothing before this semicolon", ";", 0),
        ("tp=(1;2)", "unexpected ;", ";", 5),
        ("gen=x", "x is not a generation", "x", 4),
        ("Rollout 5-2", "the range 5-2 is empty", "5-2", 8),
        ("1 2", "1 2 is not a number or a range", "1 2", 0),
        ("1-2-3", "1-2-3 is not a number or a range", "1-2-3", 0),
        ("٣", "٣ is not a number or a range", "٣", 0),
        ("3=4", "invalid name 3", "3", 0),
        ("all, tp=0", "all cannot be combined with other terms", "all", 0),
        ("3, *", "* cannot be combined with other terms", "*", 3),
        ("tp=0, dp=1, tp=1", "tp given twice", "tp", 12),
    ],
)
def test_malformed(text: str, what: str, place: str, start: int) -> None:
    """A selection that is not well formed is refused before there is a roster."""
    with pytest.raises(SelectionError) as caught:
        parse(text)
    error = caught.value
    assert (error.what, marked(error), error.start) == (what, place, start)


@pytest.mark.parametrize(
    ("text", "what", "place", "why"),
    [
        ("ranks(99,500)", "no rank 500", "500", "this job has 0-127"),
        (f"{10**30}", f"no rank {10**30}", f"{10**30}", "this job has 0-127"),
        ("ranks(200:300)", "no rank 200:300", "200:300", "this job has 0-127"),
        ("tp=(0,9)", "no tp 9", "9", "this job has 0-3"),
        ("tp=5-8", "no tp 5-8", "5-8", "this job has 0-3"),
        ("role=policy", "no role policy", "policy", "no process of this job has a role"),
        ("pp=1, rank=0", "no rank matches rank=0 and the terms before it", "rank=0", "32-63"),
    ],
)
def test_nothing_there(text: str, what: str, place: str, why: str) -> None:
    """What is not in the job is refused with what is there instead."""
    error = refusal(text)
    assert (error.what, marked(error)) == (what, place)
    assert error.why[2].endswith(why)


def test_no_such_role() -> None:
    """A glob that matches nothing is answered with the names that exist."""
    error = refusal("role=(critic, policx*)", ROLES)
    assert (error.what, marked(error)) == ("no role policx*", "policx*")
    assert error.why[2] == "this job has: critic, my role, policy"


def test_unknown_dimension() -> None:
    """An unknown dimension is shown as in SCREENS.md, with the nearest name."""
    assert str(refusal("ranks(pp=2, tp=0:4, dq=1)")) == (
        "no dimension dq\n"
        "  ranks(pp=2, tp=0:4, dq=1)\n"
        "                      ^^\n"
        "  this job has: pp (0-3), dp (0-7), tp (0-3)\n"
        "  hint: did you mean dp?"
    )
    assert refusal("TP=0").hint == "did you mean tp?"
    assert refusal("hots=1").hint == "did you mean host?"
    assert "role, host" in refusal("zzz=1").hint


def test_no_dimensions() -> None:
    """A job without a mesh says so."""
    assert refusal("tp=0", ROLES).why[2] == "this job has no dimensions"


def test_white_space_and_caret() -> None:
    """Tabs and line breaks do not move the caret away from its place."""
    lines = str(refusal("\tpp=1,\n\tdq=1")).splitlines()
    assert (lines[1].index("dq"), len(lines[1])) == (lines[2].index("^^"), len("   pp=1,  dq=1"))


def test_number_beside_dimension() -> None:
    """A bare number beside a dimension is refused with the two things it may mean."""
    error = refusal("ranks(3, tp=0)")
    assert (error.what, marked(error)) == ("3 cannot be mixed with tp=", "3")
    assert "rank=3" in error.hint
    error = refusal("pp=1, tp=0, 3")
    assert (error.what, marked(error)) == ("3 cannot be mixed with tp=", "3")
    assert "tp=(…,3)" in error.hint


def test_missing_before_combination() -> None:
    """That a name is unknown is said before that other terms do not go together."""
    assert refusal("pp=1, rank=0, dq=1").what == "no dimension dq"


def test_empty_roster() -> None:
    """Nothing can be picked out of no ranks, not even all."""
    for text in ("all", "3", "tp=0"):
        assert refusal(text, []).what == "there are no ranks to select from"


def test_no_numbers() -> None:
    """A number is refused where no process has one."""
    assert refusal("0", [make_rank(1)]).why[2] == "no process of this job has a rank"


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000,
        "ranks(" * 20_000,
        "tp=" * 30_000,
        "," * 100_000,
        "-" * 100_000,
        "- " * 50_000,
        ":" + " " * 100_000 + "x",
        "1" + " " * 100_000 + "-x",
        "9" * 100_000,
        f"0:{'9' * 100_000}",
        "'\"" * 50_000,
        "x" * 100_000 + "=1",
        "role=" + "[" * 100_000,
        "role=" + "*a" * 50_000,
        ",".join(f"k{n}=1" for n in range(12_000)),
    ],
    ids=lambda text: text[:8],
)
def test_long_and_wrong(text: str) -> None:
    """A hundred kilobytes of nonsense are refused at once."""
    refusal(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        ",".join(map(str, range(15_000))),
        ",".join(f"{n}-{n + 1}" for n in range(0, 16_000, 2)),
        ",".join([":"] * 50_000),
        ",".join(f"{n}:" for n in range(15_000)),
        ",".join(f"{n}::2" for n in range(12_000)),
        ",".join(f"::{n}" for n in range(1, 15_000)),
    ],
    ids=["numbers", "runs", "all", "overlapping", "even", "steps"],
)
def test_long_and_right(text: str) -> None:
    """A hundred kilobytes of overlapping ranges do not multiply with the ranks."""
    roster = [make_rank(n, n) for n in range(20_000)]
    assert pick(parse(text), roster)  # would else be stopped by the time limit of tests


@pytest.mark.slow
def test_many_ranks() -> None:
    """A hundred thousand ranks are picked and written."""
    roster = mesh.roster({"pp": 10, "dp": 1000, "tp": 10})
    picked = pick(parse("pp=(0,2-9), tp=0:10:2, rank=:"), roster)
    written = format_ranks(picked, roster)
    assert len(picked) == 45_000
    assert written.startswith("0,2,4,6,8,10,")


# How ranks are written


@pytest.mark.parametrize(
    ("given_numbers", "expected"),
    [
        ([], ""),
        ([5], "5"),
        ([1, 0], "0-1"),
        ([0, 2, 4], "0,2,4"),
        ([*range(7), *range(8, 1024)], "0-6,8-1023"),
        ([3, 3, 2, 2, 9], "2-3,9"),
    ],
)
def test_format_numbers(given_numbers: list[int], expected: str) -> None:
    """Runs are written with a dash, in order, each number once."""
    assert format_numbers(given_numbers) == expected


def by_pid(*wanted: int) -> list[Rank]:
    return [rank for rank in ROLES if rank.pid in wanted]


def test_a_client_is_called_by_its_pid() -> None:
    """It has neither role nor number, and an empty name says nothing."""
    roster = [make_rank(16), *(make_rank(30 + n, n, role="Trainer") for n in range(2))]
    assert format_ranks(roster[:1], roster) == "pid=16"
    assert format_ranks(roster[1:], roster) == "Trainer 0-1"


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ((), ""),
        ((102, 103), "policy 2-3"),
        ((100, 200), "critic 0, policy 0"),
        ((100, 101), "policy 0-1"),
        ((100, 102), "policy 0,2"),
        ((300,), '"my role"'),
        ((100, 201), "critic 1, policy 0"),
        ((100, 101, 102, 103, 200, 201, 300), 'critic 0-1, "my role", policy 0-3'),
    ],
)
def test_format_ranks(wanted: tuple[int, ...], expected: str) -> None:
    """Roles and numbers where there are several roles; and it picks the same."""
    text = format_ranks(by_pid(*wanted), ROLES)
    assert text == expected
    if text:
        assert sorted(pids(text)) == sorted(wanted)


def test_format_without_roster() -> None:
    """Without a roster numbers are taken to be enough, and pids where there are none."""
    assert format_ranks(by_pid(100, 101)) == "0-1"
    assert format_ranks(by_pid(300)) == "pid=300"


def test_format_same_pid() -> None:
    """Pods count their pids alike: the host tells them apart."""
    roster = [make_rank(7, host="pod-a"), make_rank(7, host="pod-b")]
    assert format_ranks(roster[:1], roster) == "host=pod-a,pid=7"


def test_format_several_choices() -> None:
    """What takes several choices is joined by semicolons and picks the same."""
    roster = [make_rank(pid, host=host) for host in ("pod-a", "pod-b") for pid in (7, 8)]
    text = format_ranks(roster[1:3], roster)
    assert text == "host=pod-a,pid=8; host=pod-b,pid=7"
    assert pick(parse(text), roster) == roster[1:3]
    roster = [make_rank(pid, n, host=h) for h, pid in (("a", 7), ("b", 8)) for n in (0,)]
    assert format_ranks(roster[:1], roster) == "host=a,0"


@pytest.mark.parametrize("role", ["a b", "f(x)", "a,b", "it's", "[x]", "a*", "?", "k=v", "", " a "])
def test_format_odd_role(role: str) -> None:
    """A role with marks of the grammar in it is quoted so that it reads back."""
    roster = [make_rank(1, 0, role=role), make_rank(2, 0, role="other"), make_rank(3, 1, role="xx")]
    text = format_ranks(roster[:1], roster)
    assert text.endswith(" 0")
    assert pick(parse(text), roster) == roster[:1]


# Properties


@given(st.sets(st.integers(0, 300), min_size=1), st.sets(st.integers(0, 300)))
@settings(deadline=None)
def test_round_trip(wanted: set[int], others: set[int]) -> None:
    """What is printed for a set of ranks picks that set again."""
    roster = [make_rank(n, n) for n in wanted | others]
    assert numbers(format_numbers(wanted), roster) == sorted(wanted)


ODD_ROLES = [
    "",
    "driver",
    "Rollout",
    "Roll*",
    "c d",
    "x 3",
    "3",
    "all",
    "y'\"z",
    "y'?z",
    "n;[1]",
    "\t",
]


@st.composite
def rosters(draw: st.DrawFn) -> list[Rank]:
    """Several roles, equal numbers or none, several hosts, steps, actors and generations."""
    rows = st.tuples(
        st.sampled_from(["a", "b*", "c d"]),
        st.integers(0, 3) | st.none(),
        st.sampled_from(ODD_ROLES),
        st.sampled_from([{}, {}, {"step": "0"}, {"step": "batch"}, {"actor": "ref"}, {"het": "1"}]),
        st.sampled_from([1, 1, 1, 2]),
    )
    return [
        make_rank(
            pid // 2, number, host=f"{host}{pid % 2}", role=role, names=names, generation=generation
        )
        for pid, (host, number, role, names, generation) in enumerate(
            draw(st.lists(rows, min_size=1, max_size=8))
        )
    ]


@pytest.mark.slow
@given(st.data(), rosters())
@settings(max_examples=400, deadline=None)
def test_format_round_trip(data: st.DataObject, roster: list[Rank]) -> None:
    """What is written for some ranks of a roster picks exactly these."""
    wanted = data.draw(st.sets(st.sampled_from(roster).map(lambda rank: rank.process), min_size=1))
    text = format_ranks([rank for rank in roster if rank.process in wanted], roster)
    assert {rank.process for rank in pick(parse(text), roster)} == wanted


numbers_drawn = st.integers(0, 5)
ends = st.none() | numbers_drawn
atoms = st.one_of(
    numbers_drawn.map(lambda n: (f"{n}", range(n, n + 1))),
    st.tuples(numbers_drawn, numbers_drawn).map(
        lambda ab: (f"{min(ab)}-{max(ab)}", range(min(ab), max(ab) + 1))
    ),
    st.tuples(ends, ends, st.none() | st.integers(1, 3)).map(
        lambda abc: (
            ":".join("" if end is None else f"{end}" for end in abc),
            range(1000)[slice(*abc)],
        )
    ),
)
values = st.lists(atoms, min_size=1, max_size=3)
meshes = st.lists(st.integers(1, 4), min_size=3, max_size=3).map(
    lambda sizes: dict(zip(("pp", "dp", "tp"), sizes, strict=True))
)


@given(meshes, st.dictionaries(st.sampled_from(["pp", "dp", "tp", "rank"]), values, min_size=1))
@settings(max_examples=200, deadline=None)
def test_pick_by_hand(sizes: dict[str, int], terms: dict[str, list[tuple[str, range]]]) -> None:
    """Picking agrees with asking every rank about every term, and refuses what finds none."""
    roster = mesh.roster(sizes)
    text = ", ".join(f"{key}=({','.join(t for t, _ in atoms)})" for key, atoms in terms.items())
    labels = [{**rank.coordinates, "rank": rank.number or 0} for rank in roster]
    expected = [
        label["rank"]
        for label in labels
        if all(any(label[key] in r for _, r in atoms) for key, atoms in terms.items())
    ]
    each_finds_some = all(
        any(label[key] in r for label in labels) for key, atoms in terms.items() for _, r in atoms
    )
    if expected and each_finds_some:
        assert numbers(text, roster) == expected
    else:
        with pytest.raises(SelectionError):
            numbers(text, roster)
