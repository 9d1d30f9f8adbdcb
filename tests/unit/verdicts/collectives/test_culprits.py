"""Who is missing from a collective: every rule on traces made for it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from rankdbg.verdicts.collectives.culprits import CollectiveFindings, judge
from rankdbg.verdicts.collectives.traces import NotADump, Trace, read_trace

WORLD = [0, 1, 2, 3]


def entry(name: str = "all_reduce", number: int = 1, **changes: Any) -> dict[str, Any]:
    """An operation as NCCL's recorder writes it, not finished unless `done`."""
    done = changes.pop("done", False)
    point_to_point = name.startswith(("send", "recv"))
    return {
        "process_group": ("0", "default_pg"),
        "pg_id": 0,
        "profiling_name": f"nccl:{name}",
        "collective_seq_id": number,
        "p2p_seq_id": number if point_to_point else 0,
        "op_id": number,
        "is_p2p": point_to_point,
        "input_sizes": [[4]],
        "output_sizes": [[4]],
        "input_dtypes": ["Float"],
        "output_dtypes": ["Float"],
        "state": "completed" if done else "scheduled",
        "retired": done,
        "time_created_ns": changes.pop("at", number),
        "record_id": number,
        **changes,
    }


def group(name: str, **changes: Any) -> dict[str, Any]:
    return {"process_group": (name, f"group {name}"), "pg_id": int(name), **changes}


def dump(*entries: dict[str, Any], **groups: list[int]) -> dict[str, Any]:
    members = {"0": WORLD} | {name.removeprefix("g"): ranks for name, ranks in groups.items()}
    config = {n: {"name": n, "desc": "", "ranks": str(ranks)} for n, ranks in members.items()}
    return {"version": "2.10", "entries": list(entries), "pg_config": config, "pg_status": {}}


def findings(*dumps: dict[str, Any] | None, **settings: Any) -> CollectiveFindings:
    """Of ranks 0, 1, 2, …; None: this one left nothing."""
    traces = [read_trace(rank, [d]) for rank, d in enumerate(dumps) if d is not None]
    return judge(traces, **settings)


def reasons(found: CollectiveFindings) -> set[str]:
    return {culprit.reason for culprit in found.culprits}


def mismatched(found: CollectiveFindings) -> list[tuple[str, int, tuple[int, ...]]]:
    return [(m.kind, m.number, m.odd) for m in found.mismatches]


DONE = entry(number=1, done=True)


def test_a_rank_that_has_not_entered() -> None:
    """The one that is missing from what the others wait in."""
    waits = dump(DONE, entry(number=2))
    found = findings(waits, waits, dump(DONE), waits)
    assert found.culprit_ranks == (2,)
    (culprit,) = found.culprits
    assert (culprit.reason, culprit.operation.number) == ("missing", 2)
    assert culprit.waiting == (0, 1, 3)


def test_nobody_waits() -> None:
    """All that was entered is finished: nobody is culprit, however far each has come."""
    further = dump(DONE, entry(number=2, done=True))
    found = findings(further, dump(DONE), further, dump(DONE))
    assert (found.culprit_ranks, found.waits, found.undecided) == ((), {}, ())


def test_a_rank_without_entries() -> None:
    """It has recorded nothing, and the others wait."""
    waits = dump(entry())
    assert findings(waits, dump(), waits, waits).culprit_ranks == (1,)


def test_a_rank_without_a_dump() -> None:
    """It is in the group, and left nothing."""
    waits = dump(entry())
    found = findings(waits, waits, None, waits)
    assert found.culprit_ranks == (2,)
    assert reasons(found) == {"absent"}


def test_most_dumps_are_lost() -> None:
    """Where half of a group left nothing, those who are known to be missing are the culprit."""
    waits = dump(entry())
    assert findings(waits, dump(), None, None).culprit_ranks == (1, 2, 3)
    members = list(range(8))
    eight = {**waits, "pg_config": {"0": {"desc": "", "ranks": str(members)}}}
    empty = {**eight, "entries": []}
    assert findings(eight, empty, None, None, None, None, None, None).culprit_ranks == (1,)


def test_a_chain_over_groups() -> None:
    """0 waits for 1 in one group, 1 for 2 in another, 2 for nobody: 2 is culprit."""
    groups = {"g1": [0, 1], "g2": [1, 2]}
    found = findings(
        dump(entry(**group("1")), **groups),
        dump(entry(**group("2")), **groups),
        dump(**groups),
        dump(),
    )
    assert found.culprit_ranks == (2,)
    assert {wait.rank: wait.others for wait in found.waits.values()} == {0: (1,), 1: (2,)}


def test_all_are_in_and_some_are_held_up_in_something_earlier() -> None:
    """0 and 1 have issued the same; 1 is not at it yet, since it waits for 2 before."""
    groups = {"g1": [0, 1], "g2": [1, 2]}
    later = entry(at=9, **group("1"))
    found = findings(
        dump(later, **groups),
        dump(entry(at=1, **group("2")), later, **groups),
        dump(**groups),
        dump(),
    )
    assert found.culprit_ranks == (2,)
    assert found.waits[0].why == "elsewhere"


def test_a_rank_that_does_not_come_out() -> None:
    """All others have finished what it is in: it is held up by itself."""
    out = dump(DONE)
    found = findings(out, out, out, dump(entry(number=1)))
    assert found.culprit_ranks == (3,)
    assert reasons(found) == {"behind"}


def test_all_are_in_and_none_comes_out() -> None:
    """Nobody is missing and nothing tells them apart: nobody is accused."""
    waits = dump(entry())
    found = findings(waits, waits, waits, waits)
    assert found.culprit_ranks == ()
    assert len(found.undecided) == 1


def test_all_are_in_but_one_program_has_not_gone_on() -> None:
    """The first is pending in all; the others have issued a second, which one has not."""
    waits = dump(entry(number=1), entry(number=2))
    found = findings(waits, waits, dump(entry(number=1)), waits)
    assert found.culprit_ranks == (2,)
    assert reasons(found) == {"lagging"}


def test_all_are_in_but_one_gpu_has_not_begun() -> None:
    """Where the recorder knows of starts, the one that has not started is culprit."""
    started = dump(entry(state="started"))
    found = findings(started, dump(entry()), started, started)
    assert found.culprit_ranks == (1,)
    assert reasons(found) == {"not started"}


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"profiling_name": "nccl:broadcast"}, "operation"),
        ({"input_sizes": [[5]], "output_sizes": [[5]]}, "size"),
        ({"input_dtypes": ["BFloat16"], "output_dtypes": ["BFloat16"]}, "dtype"),
    ],
)
def test_a_rank_with_another_operation(change: dict[str, Any], kind: str) -> None:
    """All have come to the same place, one with another operation, size or type."""
    waits = dump(DONE, entry(number=2))
    found = findings(waits, waits, waits, dump(DONE, entry(number=2, **change)))
    assert found.culprit_ranks == (3,)
    assert mismatched(found) == [(kind, 2, (3,))]


def test_a_rank_that_came_out_of_another_operation() -> None:
    """gloo lets out the rank whose tensor is smaller, and the others wait."""
    waits = dump(DONE, entry(number=2))
    small = entry(number=2, done=True, input_sizes=[[2]], output_sizes=[[2]])
    found = findings(waits, waits, waits, dump(DONE, small))
    assert (found.culprit_ranks, reasons(found)) == ((3,), {"mismatch"})


def test_another_order() -> None:
    """Two operations that one rank has issued the other way round."""
    first, second = entry(number=1), entry("broadcast", 2)
    swapped = dump(entry("broadcast", 1), entry(number=2))
    usual = dump(first, second)
    found = findings(usual, swapped, usual, usual)
    assert found.culprit_ranks == (1,)
    assert mismatched(found)[0] == ("order", 1, (1,))


def test_two_sides_of_equal_size() -> None:
    """Nothing tells which is the odd one: both are named."""
    members = {"0": {"desc": "", "ranks": "[0, 1]"}}
    one = {**dump(entry()), "pg_config": members}
    other = {**dump(entry("broadcast")), "pg_config": members}
    assert findings(one, other).culprit_ranks == (0, 1)


def test_a_mismatch_long_past_accuses_nobody() -> None:
    """It is listed, and culprit is who is missing now."""
    odd = entry(number=1, done=True, input_sizes=[[5]], output_sizes=[[5]])
    waits = dump(DONE, entry(number=2))
    found = findings(waits, dump(odd, entry(number=2)), dump(DONE), waits)
    assert found.culprit_ranks == (2,)
    assert mismatched(found) == [("size", 1, (1,))]


def test_sizes_that_may_differ() -> None:
    """all_to_all as it likes; the shape of a reduce, if its elements are as many."""
    uneven = [
        dump(entry("all_to_all", input_sizes=[[4 + r]], output_sizes=[[5]])) for r in range(4)
    ]
    assert findings(*uneven).mismatches == ()
    flat, square = dump(entry()), dump(entry(input_sizes=[[2, 2]], output_sizes=[[2, 2]]))
    assert findings(flat, square, flat, flat).mismatches == ()


def test_a_circle_with_one_against_many() -> None:
    """Three came to one group first and the fourth to another: it is the fourth."""
    groups = {"g1": WORLD, "g2": WORLD}
    one, other = dump(entry(**group("1")), **groups), dump(entry(**group("2")), **groups)
    found = findings(one, one, other, one)
    assert found.culprit_ranks == (2,)
    assert reasons(found) == {"circle"}


def test_a_circle_of_receives() -> None:
    """Each waits for the other to send: both are named, and the others are not."""
    found = findings(dump(entry("recv 0<-1")), dump(entry("recv 1<-0")), dump(), dump())
    assert found.culprit_ranks == (0, 1)


def test_a_receive_from_one_that_does_not_send() -> None:
    """Ends are ranks of the group: 1 of group 1 is rank 3."""
    groups = {"g1": [2, 3]}
    found = findings(
        dump(), dump(), dump(entry("recv 0<-1", **group("1")), **groups), dump(**groups)
    )
    assert found.culprit_ranks == (3,)


def test_a_send_that_was_met_by_its_recv() -> None:
    """Both ends are there: neither is accused, but who holds the receiver up."""
    groups = {"g1": [0, 1], "g2": [1, 2]}
    found = findings(
        dump(entry("send 0->1", **group("1")), **groups),
        dump(entry(at=1, **group("2")), entry("recv 1<-0", at=2, **group("1")), **groups),
        dump(**groups),
        dump(),
    )
    assert found.culprit_ranks == (2,)


def test_a_late_receiver_by_numbers() -> None:
    """In a group of two both ends count alike: a recv with an earlier number is another."""
    groups = {"g1": [0, 1]}
    found = findings(
        dump(entry("send 0->1", 8, **group("1")), **groups),
        dump(entry("recv 1<-0", 7, done=True, **group("1")), **groups),
        dump(),
        dump(),
    )
    assert found.culprit_ranks == (1,)


def test_groups_of_one_name() -> None:
    """Two groups that share a name and no rank are two groups."""
    one, two = {"g7": [0, 1]}, {"g7": [2, 3]}
    waits = entry(number=5, **group("7"))
    done = entry(number=5, done=True, **group("7"))
    found = findings(dump(waits, **one), dump(**one), dump(done, **two), dump(done, **two))
    assert found.culprit_ranks == (1,)


def test_gloo_says_finished_by_retired() -> None:
    """Its state stays scheduled, its config names no member, and its group is called 0."""

    def gloo(*entries: dict[str, Any]) -> dict[str, Any]:
        changed = [
            {**e, "profiling_name": "gloo:all_reduce", "state": "scheduled"} for e in entries
        ]
        return {"entries": changed, "pg_config": {"": {"name": "", "desc": "", "ranks": "[]"}}}

    waits, out = gloo(DONE, entry(number=2)), gloo(DONE)
    assert findings(waits, out, waits, waits).culprit_ranks == (1,)
    assert findings(out, out, out, out).waits == {}


def test_nccl_that_timed_out_is_not_finished() -> None:
    """There `retired` without `completed` is an operation that failed."""
    waits = dump(entry(retired=True))
    assert findings(waits, dump(), waits, waits).culprit_ranks == (1,)


def test_members_that_no_dump_names() -> None:
    """In gloo's groups of some ranks, somebody is missing: those who wait for nothing."""
    config = {"": {"name": "", "desc": "", "ranks": "[]"}}
    waits = {"entries": [entry(**group("3"))], "pg_config": config}
    idle = {"entries": [DONE], "pg_config": config}
    assert findings(waits, waits, idle, waits).culprit_ranks == (2,)


def test_counters_tell_about_groups_without_entries() -> None:
    """A dump of what is under way alone: pg_status says how far a rank has come there."""
    groups = {"g1": WORLD, "g2": WORLD}

    def active(enqueued: int, *entries: dict[str, Any]) -> dict[str, Any]:
        counts = {"last_completed_collective": 1}
        status = {
            str(i): {**counts, "last_enqueued_collective": n}
            for i, n in {4: 9, 5: enqueued, 8: 9}.items()
        }
        return {**dump(*entries, **groups), "pg_status": status}

    waits = entry(number=30, **{**group("1"), "pg_id": 5})
    late, there = active(29), active(30)
    found = findings(active(30, waits), late, there, active(30, waits))
    assert found.culprit_ranks == (1,)


def test_what_has_only_begun_is_not_waited_in() -> None:
    """A running job is asked in the middle of things."""

    def live(created: int, *entries: dict[str, Any]) -> dict[str, Any]:
        return {**dump(*[{**e, "time_created_ns": created} for e in entries]), "now_ns": 10**10}

    brief = live(10**10 - 10**6, entry())
    assert findings(brief, live(0), brief, brief).culprit_ranks == ()
    long = live(10**9, entry())
    assert findings(long, live(0), long, long).culprit_ranks == (1,)


def test_thousands_of_ranks() -> None:
    """4,096 ranks that wait for one of them are judged within seconds."""
    config = {"0": tuple(range(4096))}
    waits = read_trace(0, [dump(DONE, entry(number=2))])
    out = read_trace(0, [dump(DONE)])
    traces = [Trace(r, (out if r == 77 else waits).operations, config) for r in range(4096)]
    assert judge(traces).culprit_ranks == (77,)
    all_ranks = judge(Trace(r, waits.operations, config) for r in range(4096))
    assert all_ranks.culprit_ranks == ()
    assert len(all_ranks.undecided) == 1


@pytest.mark.parametrize("document", [None, 3, [], {}, {"entries": 3}, {"entries": [3]}])
def test_what_is_no_dump(document: Any) -> None:
    """It is refused with a sentence."""
    with pytest.raises(NotADump):
        read_trace(0, [document])


def test_odd_values_in_a_dump() -> None:
    """Whatever stands in its fields, reading ends, and nothing is made up."""
    odd = dict.fromkeys(entry(), object())
    trace = read_trace(0, [{"entries": [odd, {}], "pg_config": [], "pg_status": {"x": 3}}])
    assert len(trace.operations) == 2


DUMPS = Path(__file__).parents[5] / "shared/data/flight_recorder"


@pytest.mark.skipif(not DUMPS.is_dir(), reason="the dumps of two 16-rank jobs are not here")
@pytest.mark.parametrize("job", ["gpu_error_2nd", "lock_gil_1st"])
@pytest.mark.parametrize("lost", [(), (9,), (14,), (9, 14)])
def test_real_dumps(job: str, lost: tuple[int, ...]) -> None:
    """Of two real jobs of 16 ranks with injected faults: exactly the culprit ranks, also where
    these have left nothing."""
    dumps = {r: pickle.loads((DUMPS / job / f"_dump_{r}").read_bytes()) for r in range(16)}
    found = judge([read_trace(r, [d]) for r, d in dumps.items() if r not in lost])
    assert found.culprit_ranks == (9, 14)
