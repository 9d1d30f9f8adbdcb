"""Evidence -> verdict: who is accused, and that nobody is of a job that comes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rankdbg.errors import RuleError
from rankdbg.investigations.hangs.job_verdicts import JobVerdict
from rankdbg.types import Frame, ProcessKey, Rank, Stack
from rankdbg.verdicts.collectives.culprits import judge as judge_collectives
from rankdbg.verdicts.collectives.traces import read_trace
from rankdbg.verdicts.collectives.worlds import World
from rankdbg.verdicts.hangs.evidence import Evidence, Seen
from rankdbg.verdicts.hangs.gpu_kernels import Kernel
from rankdbg.verdicts.hangs.gpu_signs import GpuSign
from rankdbg.verdicts.hangs.hang_rules import Known, find_sign, in_order, load_hang_rules
from rankdbg.verdicts.hangs.judgement import Verdict, judge
from rankdbg.verdicts.waits.unanswered import Unanswered
from rankdbg.verdicts.waits.wait_chains import OwnerEvidence
from rankdbg.verdicts.waits.wait_links import ProcessPlace, place_of
from rankdbg.wire.answers import Child, ThreadOwner, ThreadWaits, Vitals, WaitingThread
from rankdbg.wire.node_answers import AwaitedThing, WaitingProcess, WaitOwners

RULES = load_hang_rules()
TORCH = "/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
WAITING = Vitals(at=0.0, state="S", call="futex", age=100.0, switches=5)


def stack(*places: str, thread: str = "MainThread") -> Stack:
    """Innermost first: "function file:line"."""
    frames = []
    for place in places:
        function, _, where = place.partition(" ")
        file, _, line = where.rpartition(":")
        frames.append(Frame(function, file, int(line)))
    return Stack(thread, thread == "MainThread", tuple(frames))


IN_ALL_REDUCE = stack(
    f"all_reduce {TORCH}:3252", "step /job/train.py:88", "<module> /job/train.py:9"
)
IN_READ = stack("read_shard /job/data.py:31", "<module> /job/train.py:9")


def seen(number: int, *samples: Stack, world: int = 4, **vitals: object) -> Seen:
    before = replace(WAITING, **vitals)  # type: ignore[arg-type]
    rank = Rank(ProcessKey("node-1", 100 + number, 1), "job", number=number, world=world)
    samples = samples or (IN_ALL_REDUCE,)
    shown = [(sample,) for sample in (samples * 9 if len(samples) == 1 else samples * 3)]
    return Seen(rank, shown, before=before, after=replace(before, at=1.0))


def with_cpu(one: Seen, share: float) -> Seen:
    return replace(one, after=replace(one.after, cpu=one.after.cpu + share, call=""))


def verdict_on(*ranks: Seen, **more: object) -> Verdict:
    return judge(Evidence(ranks, **more), RULES)  # type: ignore[arg-type]


def culprit(verdict: Verdict) -> list[tuple[str, tuple[int, ...]]]:
    return [(f.cause, tuple(rank.number or 0 for rank in f.ranks)) for f in verdict.findings]


def test_the_one_that_is_elsewhere_is_accused() -> None:
    """Three wait in a collective, the fourth waits for a file."""
    reader = seen(3, IN_READ, call="read", on="/data/shard-7")
    verdict = verdict_on(seen(0), seen(1), seen(2), reader)
    assert verdict.stuck
    assert culprit(verdict) == [("waits-for-file", (3,))]
    assert [sign.seen.rank.number for sign in verdict.waiting] == [0, 1, 2]


@pytest.mark.parametrize(("seconds", "stuck"), [(2.8, False), (30.0, True)])
def test_a_wait_of_which_only_the_kernel_knows(seconds: float, stuck: bool) -> None:
    """No recorder tells how long such waits usually are: a server may answer after some seconds."""
    waiting = [seen(number, asleep=seconds) for number in range(3)]
    reader = seen(3, stack("accept /job/serve.py:12"), call="accept", on="socket", asleep=4.0)
    verdict = verdict_on(*waiting, reader)
    assert verdict.stuck is stuck
    assert verdict.waited == pytest.approx(seconds + 1.0)
    assert stuck or verdict.watch_longer == pytest.approx(6.0 - seconds - 1.0)


def test_waits_that_a_watchdog_interrupts() -> None:
    """How long these are is not known: for how long they were watched has to do."""
    waiting = [seen(number, asleep=0.1, woken=7) for number in range(3)]
    waiting = [replace(each, after=replace(each.after, woken=8)) for each in waiting]
    verdict = verdict_on(*waiting, seen(3, IN_READ, call="read", on="/data/shard-7"))
    assert verdict.stuck and verdict.waited is None


def test_children_that_nobody_has_looked_for() -> None:
    """A stack dump tells of none: a data loader is not said to have lost its workers."""
    file = "/env/lib/python3.11/site-packages/torch/utils/data/dataloader.py"
    loading = stack(f"_try_get_data {file}:1288", "train_step /job/train.py:32")
    causes = [
        verdict_on(seen(0), replace(seen(1, loading), before=look, after=look)).signs[-1].rule.cause
        for look in (Vitals(at=1.0, state="S"), Vitals())
    ]
    assert causes == ["data-loader-worker", "data-loading"]


def test_a_wait_that_the_last_look_missed() -> None:
    """It has a timeout and begins again: between two of its waits it is in no system call."""
    reader = seen(3, IN_READ, call="poll", on="socket [7]", timer=0.2)
    between = replace(reader, after=replace(reader.after, call="", on="", state="R"))
    signs = verdict_on(seen(0), seen(1), seen(2), between).signs
    assert signs[-1].rule.cause == "waits-for-network"


def test_nobody_is_accused_where_those_who_wait_were_woken() -> None:
    """The same picture, but the others have run in between: steps are done."""
    reader = seen(3, IN_READ, call="read", on="/data/shard-7")
    woken = [replace(s, after=replace(s.after, switches=9)) for s in (seen(0), seen(1), seen(2))]
    verdict = verdict_on(*woken, reader)
    assert verdict.state == "moving"
    assert not verdict.findings


def test_a_straggler_is_not_accused() -> None:
    """Who waits for it was found in a sleep of its own first: it has run since."""
    slow = seen(1, IN_READ, call="clock_nanosleep", world=2)
    waiting = seen(0, call="clock_nanosleep", world=2)
    after = replace(waiting.after, call="futex", switches=9)
    assert verdict_on(replace(waiting, after=after), slow).state == "moving"
    # And one that sleeps is watched for longer than a second before it is.
    assert verdict_on(seen(0, world=2), slow).watch_longer > 0


def looks_again(*lines: int, place: int = 39) -> list[Stack]:
    """Samples of Event.wait() in a loop, at these lines of Event.wait()."""
    file = "/env/lib/python3.11/threading.py"
    outside = (f"barrier /job/train.py:{place}", "<module> /job/train.py:9")
    return [stack(f"wait {file}:331", f"wait {file}:{line}", *outside) for line in lines]


def test_a_wait_that_is_read_while_it_begins_anew() -> None:
    """py-spy does not stop a process: on a busy machine it has read Event.wait() at line 626 with
    what line 629 calls. One that looks again every 0.1 s has not moved by that."""
    reader = seen(1, IN_READ, call="read", on="/data/shard-7", world=2)
    again = seen(0, *looks_again(629, 626, 629), timer=0.1, world=2)
    woken = replace(again, after=replace(again.after, switches=15))
    assert verdict_on(woken, reader).stuck


def test_a_wait_whose_stack_changes_since_it_moves() -> None:
    """The twins: woken more often than by its timer, without a timer, or from another line."""
    reader = seen(1, IN_READ, call="read", on="/data/shard-7", world=2)
    samples = looks_again(629, 626, 629)
    served = seen(0, *samples, timer=0.1, world=2)
    served = replace(served, after=replace(served.after, switches=40))
    no_timer = seen(0, *samples, timer=0.0, world=2)
    elsewhere = seen(0, *samples, *looks_again(629, place=40), timer=0.1, world=2)
    for moves in (served, no_timer, elsewhere):
        assert verdict_on(moves, reader).state == "moving"


def test_a_poll_that_is_seen_between_two_waits() -> None:
    """Is still a poll: to have run says nothing."""
    polls = seen(0, call="ppoll")
    assert not replace(polls, after=replace(polls.after, call="", switches=99)).stirred


def test_who_is_held_comes_before_who_stands() -> None:
    """A stopped process explains a rank that waits for it by a pipe; not the other way round."""
    stopped = seen(1, IN_READ, state="T", call="")
    piped = seen(2, IN_READ, call="read", on="pipe")
    verdict = verdict_on(seen(0), stopped, piped, seen(3))
    assert culprit(verdict) == [("stopped-by-signal", (1,))]
    assert verdict.confidence == "high"


def test_another_collective_than_most() -> None:
    """All wait, three in one line and one in another."""
    barrier = stack(f"barrier {TORCH}:5000", "save /job/train.py:120", "<module> /job/train.py:9")
    assert culprit(verdict_on(seen(0), seen(1), seen(2, barrier), seen(3))) == [
        ("checkpoint-on-one-rank", (2,))
    ]
    other = stack(f"barrier {TORCH}:5000", "step /job/train.py:120", "<module> /job/train.py:9")
    assert culprit(verdict_on(seen(0), seen(1), seen(2, other), seen(3))) == [
        ("collective-mismatch", (2,))
    ]


def test_two_sides_of_the_same_size_name_nobody() -> None:
    """Who of them is wrong cannot be known; that it is stuck can."""
    other = stack(f"barrier {TORCH}:5000", "step /job/train.py:120", "<module> /job/train.py:9")
    verdict = verdict_on(seen(0), seen(1, other), seen(2), seen(3, other))
    assert verdict.stuck
    assert not verdict.findings


def test_call_of_a_group_that_may_have_other_members() -> None:
    """The one at another line than most may wait for one of these: all are named, and what would
    decide. The twins: where all calls are of all ranks, or where it has gone on alone to a later
    line, it is named alone."""
    other = stack(f"barrier {TORCH}:5000", "step /job/train.py:60", "<module> /job/train.py:9")
    ranks = [seen(0), seen(1), seen(2), seen(3, other)]
    for given, named in ((True, (0, 1, 2, 3)), (False, (3,)), (None, (3,))):
        verdict = verdict_on(*ranks[:3], replace(ranks[3], names_group=given))
        (finding,) = verdict.findings
        assert tuple(rank.number for rank in finding.ranks) == named
        assert ("rankdbg run" in finding.next) is (given is True)
    assert (
        "rank 3 in barrier, step train.py:60"
        in verdict_on(*ranks[:3], replace(ranks[3], names_group=True)).findings[0].says
    )
    later = stack(f"barrier {TORCH}:5000", "step /job/train.py:120", "<module> /job/train.py:9")
    verdict = verdict_on(*ranks[:3], replace(seen(3, later), names_group=True))
    assert [rank.number for rank in verdict.findings[0].ranks] == [3]


def test_a_number_that_nobody_has() -> None:
    """Ranks wait at the start, and one of the world is not there."""
    start = stack(f"init_process_group {TORCH}:1892", "<module> /job/train.py:3")
    waiting = [seen(n, start, call="ppoll") for n in (0, 1, 3)]
    assert culprit(verdict_on(*waiting)) == [("rank-never-started", (2,))]
    assert culprit(verdict_on(seen(0), seen(1), seen(3))) == [("rank-died", (2,))]
    # A node that does not answer may have it.
    assert not verdict_on(*waiting, unseen_nodes=("node-2",)).findings
    young = [replace(s, after=replace(s.after, age=2.0)) for s in waiting]
    assert verdict_on(*young).state == "starting"


def test_one_that_computes_is_given_time() -> None:
    """A second tells nothing about somebody who is at work."""
    loop = stack("search /job/train.py:40", "<module> /job/train.py:9")
    looping = with_cpu(seen(3, loop), 1.0)
    verdict = verdict_on(seen(0), seen(1), seen(2), looping)
    assert verdict.state == "moving"
    assert 0 < verdict.watch_longer <= 4.0
    later = [replace(s, after=replace(s.after, at=5.0)) for s in (seen(0), seen(1), seen(2))]
    looping = replace(looping, after=replace(looping.after, at=5.0, cpu=5.0))
    assert culprit(verdict_on(*later, looping)) == [("endless-loop", (3,))]


def at(seconds: float, *ranks: Seen) -> list[Seen]:
    return [replace(one, after=replace(one.after, at=seconds)) for one in ranks]


def test_a_loop_whose_variables_change_is_at_work() -> None:
    """The twin of an endless loop: it counts its batches, at one line."""
    loop = stack("evaluate /job/train.py:40", "<module> /job/train.py:9")
    waiting = at(5.0, seen(0), seen(1), seen(2))
    looping = seen(3, loop)
    looping = replace(looping, after=replace(looping.after, at=5.0, cpu=5.0, call=""))
    assert verdict_on(*waiting, looping).stuck
    assert verdict_on(*waiting, replace(looping, variables_changed=True)).state == "moving"
    (asleep,) = at(5.0, seen(3, loop, call="clock_nanosleep", timer=0.3))
    assert verdict_on(*waiting, asleep).stuck
    assert verdict_on(*waiting, replace(asleep, variables_changed=True)).state == "moving"


def test_a_loop_that_only_counts() -> None:
    """It computes nothing else, and does not get anywhere; one that sleeps may count its work."""
    loop = stack("search /job/train.py:40", "<module> /job/train.py:9")
    waiting = at(5.0, seen(0), seen(1), seen(2))
    counting = replace(seen(3, loop), variables_changed=True, only_counts=True)
    looping = replace(counting, after=replace(counting.after, at=5.0, cpu=5.0, call=""))
    assert culprit(verdict_on(*waiting, looping)) == [("endless-loop", (3,))]
    (asleep,) = at(5.0, seen(3, loop, call="clock_nanosleep", timer=0.3))
    counting = replace(asleep, variables_changed=True, only_counts=True)
    assert verdict_on(*waiting, counting).state == "moving"


def test_one_long_call_of_c_is_at_work() -> None:
    """Not in the interpreter's own loop, and always at one line; a garbage collection is named."""
    waiting = at(5.0, seen(0), seen(1), seen(2))
    busy = seen(3, stack("encrypt /job/train.py:40", "<module> /job/train.py:9"))
    busy = replace(busy, after=replace(busy.after, at=5.0, cpu=5.0, call=""))
    for function, state in (
        ("sha256_block", "moving"),
        ("_PyEval_EvalFrameDefault", "stuck"),
        ("gc_collect_main", "stuck"),
    ):
        native = stack(f"{function} /lib/libcrypto.so:0", "encrypt /job/train.py:40")
        assert verdict_on(*waiting, replace(busy, native=[native])).state == state, function


def test_a_child_or_thread_that_computes_is_at_work() -> None:
    """A compiler, a codec: the rank waits for it, and it ends when it is done."""
    waiting = at(5.0, seen(0), seen(1), seen(2))
    runs = stack(
        "wait /usr/lib/python3.11/subprocess.py:1264", "build /job/t.py:9", "<module> /job/t.py:3"
    )
    (one,) = at(5.0, seen(3, runs, call="wait4"))
    compiles = replace(one, after=replace(one.after, others=4.5))
    assert verdict_on(*waiting, compiles).state == "moving"


def test_a_sleep_that_ends_soon_is_awaited() -> None:
    """A retry, or a step of four seconds; not one of an hour, and not a poll."""
    waits = stack("fetch /job/train.py:40", "<module> /job/train.py:9")
    waiting = at(4.0, seen(0), seen(1), seen(2))

    def asleep(left: float) -> Verdict:
        (one,) = at(4.0, seen(3, waits, call="clock_nanosleep", timer=left))
        return verdict_on(*waiting, one)

    assert not asleep(3.0).stuck
    assert 3.0 < asleep(3.0).watch_longer < 6.0
    assert not asleep(30.0).stuck
    assert asleep(3000.0).stuck
    assert asleep(0.1).stuck


def test_a_thread_that_is_served_is_at_work() -> None:
    """A download in a thread of a pool, piece by piece; its twin gets nothing."""
    file = "/usr/lib/python3.11/concurrent/futures/_base.py"
    (one,) = at(
        5.0, seen(3, stack(f"result {file}:451", "load /job/t.py:9", "<module> /job/t.py:3"))
    )
    place = one.rank.process
    main = WaitingThread(1, "MainThread", 103, True, None, "future", "f", (ThreadOwner(2, "run"),))
    pool = WaitingThread(2, "io_0", 104, where=Frame("download", "/job/t.py", 4))
    owners = OwnerEvidence(threads={place: ThreadWaits((main, pool))})
    waiting = at(5.0, seen(0), seen(1), seen(2))
    assert verdict_on(*waiting, one, owners=owners).stuck
    served = replace(one, served_threads=("io_0",))
    assert verdict_on(*waiting, served, owners=owners).state == "moving"


def starving(one: Seen, **more: float) -> Seen:
    return replace(one, after=replace(one.after, **more))


def test_a_thread_or_child_without_a_processor_may_be_at_work() -> None:
    """It could run, and gets no processor; its twin does not want one."""
    waits = stack("recv_batch /job/t.py:9", "<module> /job/t.py:3")
    (one,) = at(9.0, seen(3, waits, call="futex"))
    others = at(9.0, seen(0), seen(1), seen(2))
    assert verdict_on(*others, one).stuck
    verdict = verdict_on(*others, starving(one, others_starved=1.2))
    assert (verdict.state, verdict.findings) == ("moving", ())
    assert [party.place for party in verdict.starved] == [place_of(one.rank)]


def test_ranks_without_a_processor_may_be_at_work() -> None:
    """The one for which others wait, or one of those: it was woken."""
    waits = stack("recv_batch /job/t.py:9", "<module> /job/t.py:3")
    (one,) = at(9.0, seen(3, waits, call="futex"))
    others = at(9.0, seen(0), seen(1), seen(2))
    assert not verdict_on(*others, starving(one, starved=1.2)).stuck
    assert not verdict_on(starving(others[0], starved=1.2), *others[1:], one).stuck


def test_what_cannot_go_on_is_named_though_others_get_no_processor() -> None:
    """A rank that is stopped stays so."""
    (held,) = at(9.0, replace(seen(3), after=replace(WAITING, at=1.0, state="T", why="stopped")))
    others = at(9.0, seen(0), seen(1), seen(2))
    verdict = verdict_on(*others, starving(held, others_starved=1.2))
    assert culprit(verdict) == [("stopped-by-signal", (3,))]


def test_the_process_at_the_end_of_a_chain_gets_no_processor() -> None:
    """It belongs to no rank; its twin sleeps."""
    reads = stack("recv_batch /job/t.py:9", "<module> /job/t.py:3")
    (one,) = at(9.0, seen(3, reads, call="read", on="pipe"))
    pipe = AwaitedThing("pipe", "a pipe", (7,))
    told = WaitOwners(
        (WaitingProcess(103, 1, "python t.py", things=(pipe,)), WaitingProcess(7, 1, "rsync"))
    )
    owners = OwnerEvidence({one.rank.process: told})
    others = at(9.0, seen(0), seen(1), seen(2))
    assert verdict_on(*others, one, owners=owners).stuck
    starved = replace(owners, starved=frozenset({ProcessPlace("node-1", 7)}))
    verdict = verdict_on(*others, one, owners=starved)
    assert verdict.state == "moving"
    assert [party.name for party in verdict.starved] == ["pid 7 (rsync)"]


def test_the_last_rank_of_a_chain_is_accused() -> None:
    """Rank 2 waits for rank 3, and that one for a process that is none of the job's."""
    reads = stack("recv_batch /job/t.py:9", "<module> /job/t.py:3")
    two = seen(2, reads, call="recvfrom", on="socket to 10.0.0.1:80")
    three = seen(3, reads, call="read", on="pipe")
    to_rank = AwaitedThing("connection", "socket to 10.0.0.1:80", (103,))
    told = {
        two.rank.process: WaitOwners(
            (
                WaitingProcess(102, 1, "python t.py", things=(to_rank,)),
                WaitingProcess(
                    103, 1, "python t.py", things=(AwaitedThing("pipe", "a pipe", (7,)),)
                ),
                WaitingProcess(7, 1, "rsync", state="stopped by a signal"),
            )
        )
    }
    verdict = verdict_on(*at(5.0, seen(0), seen(1), two, three), owners=OwnerEvidence(told))
    assert [finding.ranks[0].number for finding in verdict.findings] == [3]
    assert verdict.findings[0].why == "Process 7, which owes it, is stopped by a signal."


def test_one_that_can_seldom_be_looked_at() -> None:
    """Collecting garbage it gives few samples: time counts then, and not their number."""
    frees = stack("free_memory /job/train.py:40", "<module> /job/train.py:9")
    busy = with_cpu(replace(seen(3, frees), samples=[(frees,)] * 3), 5.0)
    others = [seen(0), seen(1), seen(2)]
    assert verdict_on(*others, busy).watch_longer > 0
    later = [replace(s, after=replace(s.after, at=5.0)) for s in (*others, busy)]
    assert verdict_on(*later).stuck


def test_one_that_is_seen_in_many_functions_is_at_work() -> None:
    """An endless loop stays in one."""
    places = [stack(f"{name} /job/eval.py:4", "<module> /job/train.py:9") for name in "abc"]
    one = seen(3, *places)
    one = replace(one, after=replace(one.after, at=5.0, cpu=5.0, call=""))
    waiting = [replace(s, after=replace(s.after, at=5.0)) for s in (seen(0), seen(1), seen(2))]
    assert verdict_on(*waiting, one).state == "moving"


def test_idle_is_not_stuck() -> None:
    """A server without requests, and one that sleeps: nobody waits for either."""
    loop = stack("select /usr/lib/python3.11/selectors.py:468", "serve_forever /usr/lib/python3.11/socketserver.py:233", "<module> /job/serve.py:9")  # fmt: skip
    assert verdict_on(seen(0, loop, call="ppoll")).state == "idle"
    assert verdict_on(seen(0, loop, call="ppoll", world=1)).state == "idle"
    asleep = stack("wait_for_jobs /job/serve.py:5", "<module> /job/serve.py:9")
    assert verdict_on(seen(0, asleep, call="clock_nanosleep")).state == "idle"


def test_a_step_that_is_found_between_two_pauses() -> None:
    """Always at the line of its pause, and once for a moment in no call: nobody is accused of
    what no rule knows, while nobody waits."""
    line = stack("<module> /job/train.py:9")
    one = seen(0, line, call="clock_nanosleep", world=2)
    one = replace(one, after=replace(one.after, call="", state="R", switches=30))
    two = seen(1, line, call="clock_nanosleep", world=2)
    assert not verdict_on(one, two).stuck


def test_a_loop_with_pauses_moves() -> None:
    """It was found asleep each time, and has run in between: told by another line."""
    asleep = [stack(f"train /job/train.py:{n}", "<module> /job/train.py:9") for n in (4, 5, 4)]
    assert verdict_on(seen(0, *asleep, call="clock_nanosleep", world=1)).state == "moving"


def test_a_deadlock_without_other_ranks() -> None:
    """One process whose threads wait for each other's locks is stuck by itself."""
    main = stack("transfer /job/bank.py:5", "<module> /job/bank.py:20")
    other = stack("audit /job/bank.py:11", "run /job/bank.py:1", thread="auditor")
    alone = replace(seen(0, world=1), samples=[(main, other)] * 3)
    assert culprit(verdict_on(alone)) == [("lock-cycle", (0,))]


def test_a_stopped_rank_counts_though_nobody_waits_yet() -> None:
    """Others compute; it can never go on by itself."""
    loop = stack("work /job/train.py:40", "<module> /job/train.py:9")
    verdict = verdict_on(with_cpu(seen(0, loop), 1.0), seen(1, IN_READ, state="T", call=""))
    assert culprit(verdict) == [("stopped-by-signal", (1,))]


def test_a_kernel_that_never_ends() -> None:
    """The host spins, the GPU runs all the time and does little; a second is not enough."""
    waits = stack("wait_for_the_gpu /job/train.py:15", "<module> /job/train.py:9")
    one = with_cpu(replace(seen(0, waits, world=1), gpus=[GpuSign("spinning", "100 %")]), 1.0)
    assert verdict_on(one).watch_longer > 0
    later = replace(one, after=replace(one.after, at=5.0, cpu=5.0))
    assert culprit(verdict_on(later)) == [("kernel-never-ends", (0,))]


def test_dead_worker_of_a_data_loader() -> None:
    """By the state of the child, which the text names."""
    loader = "/env/lib/python3.11/site-packages/torch/utils/data/dataloader.py"
    waiting = stack(
        f"_try_get_data {loader}:1131", f"__next__ {loader}:630", "<module> /job/t.py:9"
    )
    one = seen(
        1, waiting, call="ppoll", children=(Child(pid=77, name="pt_data_worker", state="Z"),)
    )
    sign = find_sign(one, RULES)
    assert sign.rule.cause == "data-loader-worker"
    assert "77 (pt_data_worker)" in sign.says


def test_models_are_wrapped_together() -> None:
    """A rank in the constructor of DistributedDataParallel waits for the others, not for a lock."""
    torch = "/env/lib/python3.11/site-packages/torch"
    waiting = stack(
        f"_verify_param_shape_across_processes {torch}/distributed/utils.py:285",
        f"DistributedDataParallel.__init__ {torch}/nn/parallel/distributed.py:850",
        "<module> /job/train.py:42",
    )
    sign = find_sign(seen(0, waiting, call="futex"), RULES)
    assert (sign.rule.cause, sign.rule.role) == ("in-collective", "collective")


def test_frames_in_order() -> None:
    """Patterns follow each other from the innermost outwards, others may be between."""
    frames = stack("poll /lib/a.py:1", "x /lib/b.py:1", "get /lib/queues.py:1").frames
    assert in_order(["poll", "get @ */queues.py"], frames)
    assert in_order(["read|poll"], frames)
    assert not in_order(["get", "poll"], frames)
    assert not in_order(["poll @ */queues.py"], frames)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('[[hang]]\nsays = "x"', "cause is missing"),
        ('[[hang]]\ncause = "x"', "says is missing"),
        (
            '[[hang]]\ncause = "x"\nsays = "x"\nrole = "bad"',
            "role must be one of collective, store",
        ),
        ('[[hang]]\ncause = "x"\nsays = "{who}"', "no word {who}"),
        ('[[hang]]\ncause = "x"\nsays = "x"\nframe = ["a"]', "no key 'frame'"),
        ('[[hang]]\ncause = "x"\nsays = "x"\nframes = "a"', "frames must be a list"),
        ('[[hang]]\ncause = "x"\nsays = "x"\nframes = [1]', "must be a list of texts"),
        ('[[hang]]\ncause = "x"\nsays = "x"\ncomputes = "yes"', "must be true or false"),
        ('[hang]\ncause = "x"', "in two brackets"),
        ('[[hung]]\ncause = "x"', "no rules are called [[hung]]"),
        ("cause =", "is not TOML"),
    ],
)
def test_faults_in_rule_files(tmp_path: Path, text: str, complaint: str) -> None:
    """Each is said with the file and the rule."""
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(RuleError) as error:
        load_hang_rules([str(file)])
    assert complaint in str(error.value)
    assert "mine.toml" in str(error.value)


def test_rules_of_users_come_first(tmp_path: Path) -> None:
    """A file, or a directory of them."""
    text = '[[hang]]\ncause = "tape-robot"\nstack = ["read_shard"]\nsays = "it waits for {on}"\n'
    (tmp_path / "mine.toml").write_text(text)
    rules = load_hang_rules([str(tmp_path)])
    sign = find_sign(seen(3, IN_READ, call="read", on="/tape/7"), rules)
    assert (sign.rule.cause, sign.says) == ("tape-robot", "it waits for /tape/7")
    (tmp_path / "empty").mkdir()
    with pytest.raises(RuleError, match="no rule file"):
        load_hang_rules([str(tmp_path / "empty")])


def test_line_of_a_stop_in_another_thread() -> None:
    """It is the line of the stop that is shown, not that of the main thread."""
    stopped, other = seen(0, world=2), seen(1, world=2)
    line = Frame("rollout", "/job/r.py", 7)
    rank = replace(stopped.rank, state="stopped", detail="breakpoint", where=line)
    (finding,) = verdict_on(replace(stopped, rank=rank), other).findings
    assert finding.says == "stopped in the debugger (breakpoint), rollout r.py:7"


def test_what_to_do_is_said_of_all_culprits() -> None:
    """With all their numbers, and the processes of each host."""
    held = [
        replace(one, rank=replace(one.rank, state="stopped", detail="breakpoint"))
        for one in (seen(0), seen(2), seen(3))
    ]
    verdict = verdict_on(seen(1), *held)
    assert culprit(verdict) == [("at-breakpoint", (0, 2, 3))]
    assert verdict.findings[0].next.endswith("rankdbg continue 0,2-3")
    stopped = [seen(0, state="T"), seen(2, state="T")]
    elsewhere = replace(stopped[1].rank, process=ProcessKey("node-2", 102, 1))
    held = [stopped[0], replace(stopped[1], rank=elsewhere), seen(3, state="T")]
    verdict = verdict_on(
        seen(1), *(replace(one, command_prefix=f"ssh {one.rank.host} ") for one in held)
    )
    assert verdict.findings[0].next == "ssh node-1 kill -CONT 100 103; ssh node-2 kill -CONT 102"


def test_a_job_whose_ranks_exit_is_neither_stuck_nor_moving() -> None:
    """One rank that exits while others move is no job that ends."""
    exiting = [replace(one, rank=replace(one.rank, state="exiting")) for one in (seen(0), seen(1))]
    assert verdict_on(*(replace(one, samples=()) for one in exiting)).state == "ending"
    moving = [with_cpu(seen(n, IN_READ), 0.9) for n in (1, 2)]
    assert verdict_on(replace(exiting[0], samples=()), *moving).state == "moving"


ON_GPU = [Stack("MainThread", True, (Frame("cuStreamSynchronize", "/lib/libcuda.so.1", 0),))]


SPINS = Kernel("spin_kernel", "spin_kernel (grid 1x1x1, block 1x1x1)", ended=False)
REDUCES = Kernel("ncclDevKernel_AllReduce", "ncclDevKernel_AllReduce (grid 24x1x1)", False)


def behind_a_kernel(number: int, *kernels: Kernel) -> Seen:
    waits = seen(number, stack("loss_of /job/train.py:31", "<module> /job/train.py:9"))
    return replace(
        waits, native=ON_GPU, gpus=(GpuSign("spinning", "does little"),), kernels=kernels
    )


def recorded(*pending_of_last: str) -> list[World]:
    """All ranks wait in the second all_reduce of the world; the last one has not come to it, and
    has these of another group under way."""
    traces = []
    for rank in range(4):
        own = [operation("all_reduce", 1, "0", True)]
        if rank < 3:
            own.append(operation("all_reduce", 2, "0", False))
        else:
            own += [operation(name, 1, "1", False) for name in pending_of_last]
        groups = {"0": "[0, 1, 2, 3]", "1": "[2, 3]"}
        config = {
            name: {"name": name, "desc": "", "ranks": ranks} for name, ranks in groups.items()
        }
        dump = {"version": "2.10", "entries": own, "pg_config": config, "pg_status": {}}
        traces.append(read_trace(rank, [dump]))
    ranks = {trace.rank: seen(trace.rank).rank for trace in traces}
    return [World(judge_collectives(traces), ranks)]


def operation(name: str, number: int, group: str, done: bool) -> dict[str, object]:
    return {
        "process_group": (group, f"group {group}"),
        "pg_id": int(group),
        "profiling_name": f"nccl:{name}",
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "op_id": number,
        "is_p2p": False,
        "input_sizes": [[4]],
        "output_sizes": [[4]],
        "input_dtypes": ["Float"],
        "output_dtypes": ["Float"],
        "state": "completed" if done else "scheduled",
        "retired": done,
        "time_created_ns": number,
        "record_id": number,
    }


def test_a_rank_that_waits_for_its_gpu_has_not_forgotten_a_collective() -> None:
    """It comes to none before its kernel ends: that is the cause, with the kernel's name once
    cuda-gdb has told it. One whose GPU waits in a collective of another group is not accused of
    a kernel that never ends."""
    others = [seen(number) for number in range(3)]
    evidence = {"worlds": recorded()}
    waits = behind_a_kernel(3)
    ranks = [replace(one, after=replace(one.after, at=30.0)) for one in (*others, waits)]
    verdict = verdict_on(*ranks, **evidence)
    assert culprit(verdict) == [("kernel-never-ends", (3,))]
    named = replace(ranks[3], kernels=(SPINS,))
    (finding,) = verdict_on(*ranks[:3], named, **evidence).findings
    assert "where spin_kernel (grid 1x1x1, block 1x1x1) does not end" in finding.says
    assert "CUDA_LAUNCH_BLOCKING=1" in finding.next
    verdict = verdict_on(*ranks, worlds=recorded("all_gather"))
    assert "kernel-never-ends" not in {cause for cause, _ in culprit(verdict)}


@pytest.mark.parametrize(
    ("link", "cause"),
    [
        (None, "missing-from-collective"),
        ((0, 1), "missing-from-collective"),
        ((3, 0), "rank-unreachable"),
        ((0, 3), "rank-unreachable"),
    ],
)
def test_a_rank_whose_collective_the_others_have_left(
    link: tuple[int, int] | None, cause: str
) -> None:
    """It may wait for packets that do not arrive; not if these are of others."""
    ranks = watched(*(seen(number) for number in range(4)), seconds=30.0)
    who, whom = (ranks[number].rank for number in link or (0, 0))
    unanswered = [Unanswered(who, "10.9.0.1:4000", whom)] if link else []
    verdict = verdict_on(*ranks, worlds=recorded("all_reduce"), unanswered=unanswered)
    assert culprit(verdict) == [(cause, (3,))]


AT_ITS_GPU = stack("log_loss /job/train.py:88", "<module> /job/train.py:9")


def watched(*ranks: Seen, seconds: float = 5.0) -> list[Seen]:
    return [replace(one, after=replace(one.after, at=seconds)) for one in ranks]


def test_a_rank_at_its_gpu_beside_others_in_a_collective() -> None:
    """Its GPU has not come to that: it is no matter of another line, unless the kernel there is a
    collective's."""
    others = [seen(number) for number in range(3)]
    for kernels, cause in (
        ((), "kernel-never-ends"),
        ((SPINS,), "kernel-never-ends"),
        ((REDUCES,), "collective-mismatch"),
        ((REDUCES, SPINS), "collective-mismatch"),
    ):
        verdict = verdict_on(*watched(*others, behind_a_kernel(3, *kernels)))
        assert culprit(verdict) == [(cause, (3,))], kernels
        assert [sign.seen.rank.number for sign in verdict.waiting] == [0, 1, 2]


def test_a_gpu_that_runs_one_kernel_after_another() -> None:
    """The twin: it is at work."""
    others = [seen(number) for number in range(3)]
    at_work = behind_a_kernel(3, replace(SPINS, ended=True))
    for evidence in ({}, {"worlds": recorded()}):
        verdict = verdict_on(*watched(*others, at_work, seconds=30.0), **evidence)
        assert (verdict.state, [sign.seen.rank.number for sign in verdict.suspects]) == (
            "moving",
            [3],
        )


def test_all_wait_for_their_gpus_and_one_at_another_line() -> None:
    """It alone is accused once a kernel of the program has been seen on its GPU, and it is the first
    to be looked at."""
    others = [replace(behind_a_kernel(n), samples=[(AT_ITS_GPU,)] * 9) for n in range(3)]
    (finding,) = verdict_on(*watched(*others, behind_a_kernel(3))).findings
    assert [sign.seen.rank.number for sign in finding.signs] == [3, 0, 1, 2]
    verdict = verdict_on(*watched(*others, behind_a_kernel(3, SPINS)))
    assert culprit(verdict) == [("kernel-never-ends", (3,))]
    verdict = verdict_on(*watched(*others, behind_a_kernel(3, REDUCES)))
    assert culprit(verdict) == [("kernel-never-ends", (0, 1, 2, 3))]


JOINING = stack(
    "poll /usr/lib/python3.11/multiprocessing/popen_fork.py:27",
    "join /usr/lib/python3.11/multiprocessing/process.py:149",
    "evaluate /job/train.py:31",
)
TRACKER = Child(
    pid=20,
    name="python3",
    state="S",
    command="python3 -c from multiprocessing.resource_tracker import main;main(4)",
    wchan="futex_wait",
    forked=False,
)


def test_a_spawned_child_has_inherited_no_lock() -> None:
    """The one that is waited for is named, not the tracker of resources; one that was forked and
    waits for a lock is accused of that, as before."""
    spawned = replace(TRACKER, pid=21, command="python3 -c spawn_main()")
    forked = replace(spawned, pid=22, command="python3 train.py", forked=True)
    for child, cause in ((spawned, "waits-for-child"), (forked, "fork-with-lock")):
        for on in ("", f"process {child.pid}"):
            rank = seen(2, JOINING, call="wait4", on=on, children=(TRACKER, child))
            sign = find_sign(rank, RULES)
            assert sign.rule.cause == cause
            assert str(child.pid) in sign.says


def test_how_long_a_child_has_run_that_was_looked_at() -> None:
    """Is said with its command line."""
    stopped = Vitals(at=1.0, state="T", why="stopped by a signal", age=50.0)
    own = {"pid": 77, "name": "cp", "command": "cp /ckpt /nfs", "forked": False, "start": 5}
    command = Child(**vars(stopped), **own)
    inside = stack("wait /usr/lib/python3.11/subprocess.py:1264", "save /job/train.py:9")
    copying = seen(1, inside, call="wait4", on="process 77", children=(command,), world=2)
    process = Rank(ProcessKey("node-1", 77, 5), "job", kind="child")
    below = Seen(process, before=replace(stopped, at=0.0), after=stopped)
    evidence = Evidence([seen(0, world=2), replace(copying, children=[below])])
    verdict = judge(evidence, RULES)
    assert culprit(verdict) == [("waits-for-child", (1,))]
    report = JobVerdict(verdict, evidence, [one.rank for one in evidence.ranks])
    assert "its child 77 (cp /ckpt /nfs) started 50 s ago" in report.as_json()["evidence"]


JAX_WAITS = {
    "in-collective": (
        "xla::DistributedRuntimeCoordinationServiceClient::WaitAtBarrier",
        "xla::CoordinationServiceAgent::WaitAtBarrier",
    ),
    "store-key-never-set": ("xla::CoordinationServiceAgent::GetKeyValue",),
}


@pytest.mark.parametrize("cause", JAX_WAITS)
def test_a_wait_in_the_coordination_service_of_jax(cause: str) -> None:
    """As pystack has read it with JAX 0.10: the one that waits there is not accused, as one that
    waits for a lock in the same job is."""
    library = "/env/lib/python3.11/site-packages/jaxlib/libjax_common.so"
    wait = "absl::lts_20260107::Notification::WaitForNotification"
    native = [f"{name} {library}:0" for name in (wait, *reversed(JAX_WAITS[cause]))]
    place = "sync /job/train.py:10"
    waits = replace(seen(0, stack(place), world=2), native=[stack(*native, place)])
    acquires = seen(1, IN_READ, world=2)
    verdict = verdict_on(waits, replace(acquires, native=[IN_READ]))
    assert [sign.rule.cause for sign in verdict.signs] == [cause, "waits-for-lock"]
    assert culprit(verdict) == [("waits-for-lock", (1,))]
    # Without native frames, nothing tells them apart.
    assert culprit(verdict_on(replace(waits, native=()), acquires)) == [("waits-for-lock", (0, 1))]


def test_a_lock_that_is_passed_on() -> None:
    """Each of two ranks was seen waiting for the lock that it had at another moment."""
    at_lock = stack("write /job/train.py:40", "<module> /job/train.py:9")
    ranks = [seen(n, at_lock, call="flock", on="/data/index.lock") for n in (0, 1)]
    waits_for = WaitingProcess(
        100, 1, "python", things=(AwaitedThing("lock", "/data/index.lock", (101,)),)
    )
    holder = WaitingProcess(101, 1, "python")
    owners = OwnerEvidence({ranks[0].rank.process: WaitOwners((waits_for, holder))})
    assert verdict_on(*ranks, owners=owners).state == "moving"
    elsewhere = seen(1, IN_READ, call="read", on="/data/shard-7")
    assert verdict_on(ranks[0], elsewhere, owners=owners).stuck


def test_a_named_pipe_that_nobody_opens() -> None:
    """What to do is said by the sign of the rank that opens it, which is about this pipe already."""
    opening = seen(3, IN_READ, call="openat", on="/data/shard-7")
    pipe = AwaitedThing("fifo", "/data/shard-7")
    waits = WaitOwners((WaitingProcess(103, 1, "python", things=(pipe,)),))
    owners = OwnerEvidence({opening.rank.process: waits})
    verdict = verdict_on(seen(0), seen(1), seen(2), opening, owners=owners)
    first = verdict.findings[0]
    assert (first.cause, first.behind[-1].whom.name) == ("waits-for-file", "no other process")
    assert first.next.startswith("ls -l /data/shard-7")


def test_ranks_that_look_alike_are_compared_once() -> None:
    """Their signs are those that each has by itself."""
    loader = "/env/lib/python3.11/site-packages/torch/utils/data/dataloader.py"
    loading = stack(f"_try_get_data {loader}:1131", "<module> /job/t.py:9")
    dead, forked = (Child(pid=7, name="w", state=state, forked=state == "S") for state in "ZS")
    ranks = [
        *[seen(number, world=100) for number in range(1, 60)],
        *[seen(number, loading, world=100, children=(dead,)) for number in range(60, 80)],
        *[seen(number, loading, world=100, children=(forked,)) for number in range(80, 100)],
        *[with_cpu(seen(0, IN_READ, world=100), 0.9)],
    ]
    known: Known = {}
    signs = [find_sign(rank, RULES, known) for rank in ranks]
    assert signs == [find_sign(rank, RULES) for rank in ranks]
    assert len(known) == 4
