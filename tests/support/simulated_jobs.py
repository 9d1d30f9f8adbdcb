"""Verdicts on large jobs that no machine here could run: what agents and recorders would have told."""

from __future__ import annotations

from dataclasses import replace

from rankdbg.investigations.hangs.job_verdicts import JobVerdict
from rankdbg.selection import mesh
from rankdbg.types import Frame, ProcessKey, Rank, Stack
from rankdbg.verdicts.collectives.traces import Operation, Trace
from rankdbg.verdicts.collectives.worlds import RecordedCollectives, judge_worlds
from rankdbg.verdicts.hangs.evidence import Evidence, Seen
from rankdbg.verdicts.hangs.hang_rules import load_hang_rules
from rankdbg.verdicts.hangs.judgement import judge
from rankdbg.wire.answers import Vitals

RULES = load_hang_rules()
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>{{7*7}}"
LIBRARY = "/env/lib/python3.12/site-packages/torch"
C10D = f"{LIBRARY}/distributed/distributed_c10d.py"
TRUNK = (
    Frame("Trainer.fit", "/job/trainer.py", 118),
    Frame("main", "/job/train.py", 231),
    Frame("<module>", "/job/train.py", 240),
)
REDUCES = (
    Frame("all_reduce", C10D, 2810),
    Frame("wrapper", f"{LIBRARY}/distributed/c10d_logger.py", 81),
    Frame("reduce_gradients", "/job/ddp.py", 312),
    Frame("train_step", "/job/train.py", 88),
)
GATHERS = (
    Frame("all_gather_into_tensor", C10D, 3901),
    Frame("gather_from_tp", "/job/layers.py", 212),
    Frame("Block.forward", "/job/model.py", 198),
    Frame("forward_backward", "/job/pipeline.py", 121),
    Frame("train_step", "/job/train.py", 81),
)
RECEIVES = (
    Frame("recv", C10D, 2402),
    Frame("recv_grad", "/job/pipeline.py", 166),
    Frame("backward_step", "/job/pipeline.py", 160),
    Frame("forward_backward", "/job/pipeline.py", 121),
    Frame("train_step", "/job/train.py", 81),
)
LOADS = (
    Frame("poll", "/usr/lib/python3.12/multiprocessing/connection.py", 257),
    Frame("get", "/usr/lib/python3.12/multiprocessing/queues.py", 113),
    Frame("_try_get_data", f"{LIBRARY}/utils/data/dataloader.py", 1251),
    Frame("__next__", f"{LIBRARY}/utils/data/dataloader.py", 733),
    Frame("next_batch", "/job/data.py", 36),
    Frame("train_step", "/job/train.py", 77),
)
COMPUTES = (
    Frame("linear", f"{LIBRARY}/nn/functional.py", 2100),
    Frame("Block.forward", "/job/model.py", 190),
    Frame("train_step", "/job/train.py", 81),
)
WATCHDOG = (
    Frame("wait", "/usr/lib/python3.12/threading.py", 355),
    Frame("beat", "/job/health.py", 9),
)
NOW = 1_000_000_000_000
GPUS = 8  # of a node


def job_of(sizes: dict[str, int]) -> list[Rank]:
    """pp, dp and tp, eight ranks on a node."""
    world = mesh.roster(sizes)
    return [
        Rank(
            ProcessKey(f"node-{number // GPUS:02d}", 4000 + number, 1),
            "pretrain-70b",
            number=number,
            world=len(world),
            local_rank=number % GPUS,
            coordinates=rank.coordinates,
            agent=True,
        )
        for number, rank in enumerate(world)
    ]


def stuck_job(sizes: dict[str, int], culprit: int) -> JobVerdict:
    """The culprit waits for its data; its tensor group waits for it in an all_gather, the rest of its
    replica receives from those, and all other replicas wait for this one in an all_reduce."""
    ranks = job_of(sizes)
    late = ranks[culprit].coordinates
    evidence = Evidence(
        [_seen(rank, _frames(rank, culprit, late)) for rank in ranks],
        judge_worlds([_recorded(rank, ranks, culprit) for rank in ranks]),
    )
    return JobVerdict(judge(evidence, RULES), evidence, ranks)


def moving_job(sizes: dict[str, int]) -> JobVerdict:
    """Every rank computes."""
    ranks = job_of(sizes)
    evidence = Evidence([_seen(rank, (*COMPUTES, *TRUNK), busy=True) for rank in ranks])
    return JobVerdict(judge(evidence, RULES), evidence, ranks)


def actors_job() -> JobVerdict:
    """A driver, rollouts that compute, and trainers of which one waits for its data."""
    ranks = [Rank(ProcessKey("head", 9, 1), "rlhf", role="driver", agent=True)]
    for role, count in (("Rollout", 6), ("Trainer", 4)):
        ranks += [
            Rank(ProcessKey(role[0], 100 + n, 1), "rlhf", n, role=role, local_rank=n, agent=True)
            for n in range(count)
        ]
    frames = {"driver": COMPUTES, "Rollout": COMPUTES, "Trainer": REDUCES}
    late = [rank.role == "Trainer" and rank.number == 2 for rank in ranks]
    evidence = Evidence(
        [
            _seen(rank, (*(LOADS if is_late else frames[rank.role]), *TRUNK))
            for rank, is_late in zip(ranks, late, strict=True)
        ]
    )
    return JobVerdict(judge(evidence, RULES), evidence, ranks)


def hostile_job() -> JobVerdict:
    """All names in it are HOSTILE: of functions, files, threads, jobs and roles."""
    calm = stuck_job({"pp": 1, "dp": 2, "tp": 2}, 3)
    frames = (Frame(HOSTILE, f"/job/{HOSTILE}.py", 1), *calm.evidence.ranks[3].frames)
    ranks = [
        replace(
            seen,
            rank=replace(seen.rank, role=HOSTILE, job=HOSTILE, detail=HOSTILE),
            samples=[(Stack("MainThread", True, frames), Stack(HOSTILE, False, frames))] * 3,
        )
        for seen in calm.evidence.ranks
    ]
    evidence = replace(calm.evidence, ranks=ranks, worlds=())
    return JobVerdict(judge(evidence, RULES), evidence, [seen.rank for seen in ranks], (HOSTILE,))


def _seen(rank: Rank, frames: tuple[Frame, ...], busy: bool = False) -> Seen:
    before = Vitals(at=0.0, state="S", call="" if busy else "futex", age=900.0)
    after = Vitals(at=1.1, state="R" if busy else "S", call=before.call, age=901.1)
    moved = [Frame(frames[0].function, frames[0].file, 2100 + n) for n in range(3)]
    stacks = [(each, *frames[1:]) for each in moved] if busy else [frames] * 3
    samples = [
        (Stack("MainThread", True, stack), Stack("heartbeat-1", False, WATCHDOG))
        for stack in stacks
    ]
    return Seen(rank, samples, before=before, after=after)


def _frames(rank: Rank, culprit: int, late: dict[str, int]) -> tuple[Frame, ...]:
    place = rank.coordinates
    if rank.number == culprit:
        return (*LOADS, *TRUNK)
    if place["dp"] != late["dp"]:
        return (*REDUCES, *TRUNK)
    return (*(GATHERS if place["pp"] == late["pp"] else RECEIVES), *TRUNK)


def _recorded(rank: Rank, ranks: list[Rank], culprit: int) -> RecordedCollectives:
    late, place = ranks[culprit].coordinates, rank.coordinates
    number = rank.number or 0
    members, operations = {}, []
    for name in ("dp", "tp", "pp"):
        others = {key: value for key, value in place.items() if key != name}
        first = {**others, name: 0}
        group = f"{name}-" + "-".join(map(str, others.values()))
        members[group] = tuple(
            _number(ranks, {**first, name: each}) for each in _range(ranks, name)
        )
        done = Operation(group, "all_reduce", 7, finished=True, created=NOW - 900 * 10**9)
        operations.append(done)
    dp, tp, pp = members
    stage, needed = place["pp"], late["pp"]
    if number != culprit and place["dp"] == late["dp"] and place["pp"] == late["pp"]:
        operations.append(Operation(tp, "all_gather", 8, created=NOW - 215 * 10**9))
    elif place["dp"] != late["dp"]:
        operations.append(Operation(dp, "all_reduce", 8, created=NOW - 206 * 10**9))
    elif stage != needed:
        other = stage + (1 if stage < needed else -1)
        age = NOW - 213 * 10**9
        ends = other, stage
        operations.append(Operation(pp, "recv", 8, created=age, point_to_point=True, ends=ends))
    descriptions = {tp: "tp", dp: "dp", pp: "pp"}
    trace = Trace(number, tuple(operations), members, descriptions, now=NOW)
    return RecordedCollectives(rank, trace, "master:29500", len(ranks))


def _range(ranks: list[Rank], name: str) -> range:
    return range(1 + ranks[-1].coordinates[name])


def _number(ranks: list[Rank], place: dict[str, int]) -> int:
    number = 0
    for name, size in ranks[-1].coordinates.items():
        number = number * (size + 1) + place[name]
    return number
