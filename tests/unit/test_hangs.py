"""Evidence -> verdict: who is accused, and that nobody is of a job that comes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rankdbg.errors import RuleError
from rankdbg.types import Frame, ProcessKey, Rank, Stack
from rankdbg.verdicts.evidence import Child, Evidence, Seen, Vitals
from rankdbg.verdicts.gpu_signs import Sign
from rankdbg.verdicts.hang_rules import find_sign, in_order, load_hang_rules
from rankdbg.verdicts.hangs import Verdict, judge

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


def guilty(verdict: Verdict) -> list[tuple[str, tuple[int, ...]]]:
    return [(finding.cause, finding.guilty) for finding in verdict.findings]


def test_the_one_that_is_elsewhere_is_accused() -> None:
    """Three wait in a collective, the fourth waits for a file."""
    reader = seen(3, IN_READ, call="read", on="/data/shard-7")
    verdict = verdict_on(seen(0), seen(1), seen(2), reader)
    assert verdict.stuck
    assert guilty(verdict) == [("waits-for-file", (3,))]
    assert [sign.seen.rank.number for sign in verdict.victims] == [0, 1, 2]


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


def test_a_poll_that_is_seen_between_two_waits() -> None:
    """Is still a poll: to have run says nothing."""
    polls = seen(0, call="ppoll")
    assert not replace(polls, after=replace(polls.after, call="", switches=99)).stirred


def test_who_is_held_comes_before_who_stands() -> None:
    """A stopped process explains a rank that waits for it by a pipe; not the other way round."""
    stopped = seen(1, IN_READ, state="T", call="")
    piped = seen(2, IN_READ, call="read", on="pipe")
    verdict = verdict_on(seen(0), stopped, piped, seen(3))
    assert guilty(verdict) == [("stopped-by-signal", (1,))]
    assert verdict.confidence == "high"


def test_another_collective_than_most() -> None:
    """All wait, three in one line and one in another."""
    barrier = stack(f"barrier {TORCH}:5000", "save /job/train.py:120", "<module> /job/train.py:9")
    assert guilty(verdict_on(seen(0), seen(1), seen(2, barrier), seen(3))) == [
        ("checkpoint-on-one-rank", (2,))
    ]
    other = stack(f"barrier {TORCH}:5000", "step /job/train.py:120", "<module> /job/train.py:9")
    assert guilty(verdict_on(seen(0), seen(1), seen(2, other), seen(3))) == [
        ("collective-mismatch", (2,))
    ]


def test_two_sides_of_the_same_size_name_nobody() -> None:
    """Who of them is wrong cannot be known; that it is stuck can."""
    other = stack(f"barrier {TORCH}:5000", "step /job/train.py:120", "<module> /job/train.py:9")
    verdict = verdict_on(seen(0), seen(1, other), seen(2), seen(3, other))
    assert verdict.stuck
    assert not verdict.findings


def test_a_number_that_nobody_has() -> None:
    """Ranks wait at the start, and one of the world is not there."""
    start = stack(f"init_process_group {TORCH}:1892", "<module> /job/train.py:3")
    waiting = [seen(n, start, call="ppoll") for n in (0, 1, 3)]
    assert guilty(verdict_on(*waiting)) == [("rank-never-started", (2,))]
    assert guilty(verdict_on(seen(0), seen(1), seen(3))) == [("rank-died", (2,))]
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
    assert guilty(verdict_on(*later, looping)) == [("endless-loop", (3,))]


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
    assert guilty(verdict_on(alone)) == [("lock-cycle", (0,))]


def test_a_stopped_rank_counts_though_nobody_waits_yet() -> None:
    """Others compute; it can never go on by itself."""
    loop = stack("work /job/train.py:40", "<module> /job/train.py:9")
    verdict = verdict_on(with_cpu(seen(0, loop), 1.0), seen(1, IN_READ, state="T", call=""))
    assert guilty(verdict) == [("stopped-by-signal", (1,))]


def test_a_kernel_that_never_ends() -> None:
    """The host spins, the GPU runs all the time and does little; a second is not enough."""
    waits = stack("wait_for_the_gpu /job/train.py:15", "<module> /job/train.py:9")
    one = with_cpu(replace(seen(0, waits, world=1), gpus=[Sign("spinning", "100 %")]), 1.0)
    assert verdict_on(one).watch_longer > 0
    later = replace(one, after=replace(one.after, at=5.0, cpu=5.0))
    assert guilty(verdict_on(later)) == [("kernel-never-ends", (0,))]


def test_dead_worker_of_a_data_loader() -> None:
    """By the state of the child, which the text names."""
    loader = "/env/lib/python3.11/site-packages/torch/utils/data/dataloader.py"
    waiting = stack(
        f"_try_get_data {loader}:1131", f"__next__ {loader}:630", "<module> /job/t.py:9"
    )
    one = seen(1, waiting, call="ppoll", children=(Child(77, "pt_data_worker", "Z"),))
    sign = find_sign(one, RULES)
    assert sign.rule.cause == "data-loader-worker"
    assert "77 (pt_data_worker)" in sign.says


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
