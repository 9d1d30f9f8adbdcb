"""Ray's tables and what ranks do -> who holds up those that wait in Ray, as a pure function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from rankdbg.investigations.hangs.job_verdicts import JobVerdict
from rankdbg.types import Frame, ProcessKey, Rank, Stack
from rankdbg.verdicts.hangs.evidence import Evidence, Seen
from rankdbg.verdicts.hangs.hang_rules import load_hang_rules
from rankdbg.verdicts.hangs.judgement import Verdict, judge
from rankdbg.verdicts.waits.ray_waits import DRIVER_TASK, RayEvidence, find_ends
from rankdbg.verdicts.waits.wait_links import ProcessPlace
from rankdbg.wire.answers import RayWait, Vitals
from rankdbg.wire.ray_tables import (
    RayActor,
    RayFileWait,
    RayFunction,
    RayGroup,
    Raylet,
    RayMover,
    RayNode,
    RayPull,
    RayTables,
    RayTask,
)

RULES = load_hang_rules()
RAY = "/env/lib/python3.11/site-packages/ray/_private"
JOB = "01000000"
HOST = "node-1"
NODE = RayNode("n1", HOST, total={"CPU": 4.0, "GPU": 1.0}, free={"CPU": 4.0, "GPU": 1.0})
FULL = replace(NODE, free={"CPU": 0.0, "GPU": 1.0})
STILL = Vitals(at=0.0, state="S", call="futex", age=100.0, switches=5)
DRIVER = ProcessPlace(HOST, 100)


def stack(*places: str, thread: str = "MainThread") -> Stack:
    """Innermost first: "function file:line"."""
    frames = []
    for place in places:
        function, _, where = place.partition(" ")
        file, _, line = where.rpartition(":")
        frames.append(Frame(function, file, int(line)))
    return Stack(thread, thread == "MainThread", tuple(frames))


IN_GET = stack(f"get {RAY}/worker.py:3009", "main /job/ppo.py:9")
IN_LOCK = stack("train /job/ppo.py:37")
IN_QUEUE = stack("get /usr/lib/python3.11/queue.py:171", "serve /job/ppo.py:44")
IN_WORK = stack("work /job/ppo.py:51")
IDLE = stack(f"Worker.main_loop {RAY}/worker.py:1069")
RESTORES = (
    IDLE,
    stack(f"restore_spilled_objects {RAY}/external_storage.py:361", thread="thread"),
)


def seen(role: str, pid: int, *threads: Stack, cpu: float = 0.0, **vitals: object) -> Seen:
    """Over five seconds."""
    rank = Rank(ProcessKey(HOST, pid, 1), "ray-1", number=0, role=role)
    before = replace(STILL, **vitals)  # type: ignore[arg-type]
    after = replace(before, at=5.0, cpu=before.cpu + 5 * cpu)
    return Seen(rank, [threads] * 9, before=before, after=after)


def driver() -> Seen:
    return seen("driver", 100, IN_GET)


def task(ident: str, name: str, pid: int = 0, parent: str = "", **more: object) -> RayTask:
    """Called by the driver, unless it has another parent; running, if it has a pid."""
    values = {
        "id": ident.ljust(48, "0"),
        "name": name,
        "kind": "actor_task",
        "job": JOB,
        "parent": parent.ljust(48, "0") if parent else DRIVER_TASK + JOB,
        "state": "RUNNING" if pid else "SUBMITTED_TO_WORKER",
        "age": 30.0,
        "ran": 30.0 if pid else None,
        "node": "n1" if pid else "",
        "pid": pid,
        **more,
    }
    return RayTask(**values)  # type: ignore[arg-type]


def tables(*tasks: RayTask, **more: object) -> RayTables:
    return RayTables(**{"tasks": tasks, "nodes": (NODE,), **more})  # type: ignore[arg-type]


def verdict_on(
    ranks: Sequence[Seen],
    ray: RayTables,
    helpers: Sequence[Seen] = (),
    waits: Sequence[RayWait] = (),
    restarts_before: int = 0,
) -> Verdict:
    known = RayEvidence(
        ray,
        drivers={DRIVER: JOB},
        waits={DRIVER: waits} if waits else {},
        restarts_before={actor.id: restarts_before for actor in ray.actors},
    )
    return judge(Evidence(ranks, ray=known, helpers=helpers), RULES)


def found(verdict: Verdict) -> list[tuple[str, str]]:
    """Cause and culprit."""
    return [
        (f.cause, f.party.name if f.party else ", ".join(rank.role for rank in f.ranks))
        for f in verdict.findings
    ]


def names(verdict: Verdict) -> list[str]:
    """The parties of the chain."""
    links = verdict.findings[0].chain if verdict.findings else ()
    links = links or (verdict.awaited.chain if verdict.awaited else ())
    return [links[0].who.name, *(link.whom.name for link in links)]


# --- processes ------------------------------------------------------------------------------


def test_the_process_that_runs_the_task() -> None:
    """It waits for a lock, and the driver for it; another actor that waits for a lock is none of
    what the driver waits for."""
    other = seen("Server", 102, IN_LOCK)
    verdict = verdict_on(
        [driver(), seen("Trainer", 101, IN_LOCK), other], tables(task("a", "Trainer.train", 101))
    )
    assert found(verdict) == [("waits-for-lock", "Trainer")]
    assert names(verdict) == ["process 100", "task Trainer.train", "process 101"]
    assert [sign.seen.rank.role for sign in verdict.waiting] == ["driver"]


def test_one_at_work_is_named_and_no_culprit() -> None:
    """With how long others took, if it takes longer."""
    ray = tables(
        task("a", "generate", 101, kind="normal_task"),
        functions=(RayFunction("generate", 31, longest=2.0),),
    )
    verdict = verdict_on([driver(), seen("generate", 101, IN_WORK, cpu=1.0)], ray)
    assert verdict.state == "moving" and not verdict.findings
    assert verdict.awaited is not None and verdict.awaited.is_slow
    said = JobVerdict(verdict, Evidence([]), [driver().rank])
    assert "which takes longer than the others" in said.headline()
    assert "31 others of generate took up to 2 s" in said.awaited_text()


@pytest.mark.parametrize(("longest", "state"), [(1.0, "moving"), (None, "stuck")])
def test_one_that_sleeps(longest: float | None, state: str) -> None:
    """Where others have returned from the same function it is slow; else it is the culprit."""
    ray = tables(
        task("a", "generate", 101), functions=(RayFunction("generate", 31, longest=longest),)
    )
    sleeper = seen("Rollout", 101, IN_WORK, call="clock_nanosleep")
    assert verdict_on([driver(), sleeper], ray).state == state


def test_one_that_has_just_begun() -> None:
    """Or ended: the table is a second old. A worker that waits for tasks is no culprit."""
    ray = tables(task("a", "Trainer.step", 101))
    begins = stack("step /job/ppo.py:3", f"Worker.main_loop {RAY}/worker.py:1069")
    begun = replace(seen("Trainer", 101), samples=[(IDLE,), (IDLE,), (begins,)])
    for trainer in (begun, seen("Trainer", 101, IDLE)):
        verdict = verdict_on([driver(), trainer], ray)
        assert verdict.state == "moving" and not verdict.findings


def test_method_in_another_thread() -> None:
    """Of an actor with several: what that thread does is told, not the main thread."""
    in_pool = replace(IN_QUEUE, thread="pool", main=False)
    threaded = seen("Server", 101, IDLE, in_pool)
    verdict = verdict_on([driver(), threaded], tables(task("a", "Server.serve", 101)))
    assert found(verdict) == [("waits-for-queue", "Server")]


def test_method_that_awaits() -> None:
    """The event loop of its actor is idle, and no thread runs the method."""
    loop = stack("run_forever /usr/lib/python3.11/asyncio/base_events.py:608", thread="loop")
    awaiting = seen("Server", 101, IDLE, loop)
    verdict = verdict_on([driver(), awaiting], tables(task("a", "Server.generate", 101)))
    assert found(verdict) == [("event-loop-awaits", "Server")]


def test_other_calls_that_may_not_be_waited_for() -> None:
    """A server's method never returns, and the trainer works: which of them the driver waits for
    is not known without an agent, so there is no culprit."""
    ray = tables(task("a", "Server.serve", 102), task("b", "Trainer.train", 101))
    server = seen("Server", 102, IN_LOCK)
    works = seen("Trainer", 101, IN_WORK, cpu=1.0)
    assert verdict_on([driver(), server, works], ray).state == "moving"
    assert found(verdict_on([driver(), server, works], ray)) == []


def test_task_whose_result_may_not_be_needed() -> None:
    """No node can run it, and what the driver may wait for is at work."""
    ray = tables(pending(), task("b", "Trainer.train", 101))
    verdict = verdict_on([driver(), seen("Trainer", 101, IN_WORK, cpu=1.0)], ray)
    assert verdict.state == "moving" and not verdict.findings


@pytest.mark.parametrize(
    ("call", "ids", "culprits"),
    [
        ("get", "a", [("waits-for-lock", "Server")]),
        ("get", "ab", [("waits-for-lock", "Server")]),  # it needs both
        ("wait", "ab", []),  # it needs one of them
        ("get", "b", []),
    ],
)
def test_objects_that_the_agent_knows(call: str, ids: str, culprits: list[tuple[str, str]]) -> None:
    """The same, but what the driver waits for is known."""
    ray = tables(task("a", "Server.serve", 102), task("b", "Trainer.train", 101))
    server = seen("Server", 102, IN_LOCK)
    works = seen("Trainer", 101, IN_WORK, cpu=1.0)
    objects = tuple(ident.ljust(48, "0") + "01000000" for ident in ids)
    wait = RayWait("MainThread", True, call, objects, enough=1)
    verdict = verdict_on([driver(), server, works], ray, waits=[wait])
    assert found(verdict) == culprits


# --- chains ---------------------------------------------------------------------------------


def test_through_actors_that_wait() -> None:
    """The driver waits for one that waits for another, which waits for a lock."""
    middle = seen("Manager", 101, IN_GET)
    ray = tables(task("a", "Manager.run", 101), task("b", "Trainer.train", 102, parent="a"))
    verdict = verdict_on([driver(), middle, seen("Trainer", 102, IN_LOCK)], ray)
    assert found(verdict) == [("waits-for-lock", "Trainer")]
    assert names(verdict)[1::2] == ["task Manager.run", "task Trainer.train"]
    assert {sign.seen.rank.role for sign in verdict.waiting} == {"driver", "Manager"}


def test_cycle() -> None:
    """Two actors, each with a call of the other behind what it runs: both are named, once."""
    ray = tables(
        task("a", "Peer.ask", 101, actor="p1"),
        task("b", "Peer.answer", 102, parent="a", actor="p2"),
        task("c", "Peer.last", parent="b", actor="p1"),
        actors=(
            RayActor("p1", role="Peer", state="ALIVE", node="n1", pid=101),
            RayActor("p2", role="Peer", state="ALIVE", node="n1", pid=102),
        ),
    )
    ranks = [driver(), seen("Peer", 101, IN_GET), seen("Peer", 102, IN_GET)]
    verdict = verdict_on(ranks, ray)
    assert found(verdict) == [("ray-cycle", "Peer, Peer")]
    assert verdict.confidence == "high"


def test_arguments_that_are_not_ready() -> None:
    """A task waits for what another of the same caller makes."""
    ray = tables(
        task("a", "load", 101, kind="normal_task"),
        task("b", "train", kind="normal_task", state="PENDING_ARGS_AVAIL"),
    )
    verdict = verdict_on([driver(), seen("load", 101, IN_LOCK)], ray)
    assert found(verdict) == [("waits-for-lock", "load")]


def test_wide_and_deep() -> None:
    """Managers that all wait for the same workers are followed once: a thousand processes take no
    time."""
    managers = [task(f"m{n:03}", "Manager.run", 1000 + n) for n in range(60)]
    workers = [
        task(f"w{n:03}{m:03}", "Worker.run", 2000 + n, parent=f"m{m:03}")
        for n in range(60)
        for m in range(60)
    ]
    waiting = {DRIVER: "main", **{ProcessPlace(HOST, task.pid): "run" for task in managers}}
    ends = find_ends(RayEvidence(tables(*managers, *workers), {DRIVER: JOB}), waiting)
    assert {end.party.place for end in ends} == {ProcessPlace(HOST, 2000 + n) for n in range(60)}


def test_chains_end() -> None:
    """Tasks that need each other's results, as no program can have it, are followed once."""
    tasks = [task(f"{n}", f"t{n}", kind="normal_task", state="SUBMITTED_TO_WORKER") for n in "abc"]
    ends = find_ends(RayEvidence(tables(*tasks), {DRIVER: JOB}), {DRIVER: "main"})
    assert {end.kind for end in ends} == {"starting"}


# --- queues ---------------------------------------------------------------------------------


def queue_story(*others: Seen, **more: object) -> Verdict:
    ray = tables(
        task("a", "Consumer.consume", 101),
        task("b", "_QueueActor.get", 102, parent="a", actor="q"),
        *more.get("tasks", ()),  # type: ignore[misc]
        actors=(RayActor("q", role="_QueueActor", state="ALIVE", node="n1", pid=102),),
    )
    queue = seen("_QueueActor", 102, IDLE)
    return verdict_on([driver(), seen("Consumer", 101, IN_GET), queue, *others], ray)


def test_queue_of_ray() -> None:
    """The one that waits at it is named, not the actor that keeps it."""
    verdict = queue_story()
    assert found(verdict) == [("waits-for-queue", "Consumer")]
    assert [sign.seen.rank.role for sign in verdict.waiting] == ["driver"]


def test_queue_that_another_may_fill() -> None:
    """There is no culprit while a producer is at work; an idle actor is no producer."""
    producing = (task("c", "Producer.produce", 103),)
    busy = seen("Producer", 103, IN_WORK, cpu=1.0)
    assert queue_story(busy, tasks=producing).state == "moving"
    idle = seen("Trainer", 104, IDLE, switches=5)
    assert queue_story(replace(idle, after=replace(idle.after, switches=500))).stuck


def test_queue_whose_producer_is_stuck() -> None:
    """Then that is the culprit."""
    producing = (task("c", "Producer.produce", 103, parent="x"),)
    verdict = queue_story(seen("Producer", 103, IN_LOCK), tasks=producing)
    assert found(verdict) == [("waits-for-lock", "Producer")]


# --- resources ------------------------------------------------------------------------------


def pending(**more: object) -> RayTask:
    needs = more.pop("needs", {"CPU": 64.0})
    values = {"kind": "normal_task", "state": "PENDING_NODE_ASSIGNMENT", "needs": needs, **more}
    return task("a", "large", **values)  # type: ignore[arg-type]


def test_task_that_no_node_can_run() -> None:
    """The task is the culprit, with what it needs and what there is."""
    verdict = verdict_on([driver()], tables(pending()))
    assert found(verdict) == [("ray-unplaceable", "task large")]
    assert verdict.findings[0].says == "needs 64 CPU; the largest node has 4 CPU"
    assert JobVerdict(verdict, Evidence([]), [driver().rank]).as_json()["culprit"] == "task large"


def test_autoscaler_that_may_add_a_node() -> None:
    """There is no culprit while the cluster may grow to have it."""
    verdict = verdict_on([driver()], tables(pending(), growth={"CPU": 128.0}))
    assert verdict.state == "starting"


def test_task_that_ray_is_about_to_start() -> None:
    """Where there is room Ray starts a worker; after a minute that is a failure."""
    needs = {"CPU": 1.0}
    assert verdict_on([driver()], tables(pending(needs=needs))).state == "starting"
    late = verdict_on([driver()], tables(pending(needs=needs, age=90.0)))
    assert found(late) == [("ray-not-started", "task large")]


def test_processors_that_others_hold() -> None:
    """A task at work frees them; an actor that runs nothing does not."""
    keeper = RayActor("k", role="Keeper", state="ALIVE", node="n1", pid=101, needs={"CPU": 4.0})
    needs = {"CPU": 1.0}
    held = tables(pending(needs=needs), actors=(keeper,), nodes=(FULL,))
    verdict = verdict_on([driver(), seen("Keeper", 101, IDLE)], held)
    assert found(verdict) == [("ray-resources-held", "task large")]
    assert "held by Keeper 0" in verdict.findings[0].says
    working = task("b", "occupy", 102, kind="normal_task", needs={"CPU": 4.0})
    busy = tables(pending(needs=needs), working, nodes=(FULL,))
    assert verdict_on([driver(), seen("occupy", 102, IN_WORK, cpu=1.0)], busy).state == "moving"


def test_placement_group() -> None:
    """One bundle that no node has, or more together than all nodes have."""
    for bundles in (({"CPU": 2.0}, {"CPU": 32.0}), ({"CPU": 3.0}, {"CPU": 3.0})):
        group = RayGroup("g", "trainers", JOB, "PENDING", "NO_RESOURCES", "PACK", bundles, 30.0)
        verdict = verdict_on([driver()], tables(groups=(group,)))
        assert found(verdict) == [("ray-unplaceable", "placement group trainers")]


def test_placement_group_that_waits_for_a_task_at_work() -> None:
    """There is no culprit."""
    group = RayGroup("g", "late", JOB, "PENDING", "NO_RESOURCES", "PACK", ({"CPU": 2.0},), 30.0)
    working = task("b", "occupy", 102, kind="normal_task", needs={"CPU": 4.0}, parent="x")
    ray = tables(working, groups=(group,), nodes=(FULL,))
    verdict = verdict_on([driver(), seen("occupy", 102, IN_WORK, cpu=1.0)], ray)
    assert verdict.state == "moving" and not verdict.findings


# --- actors ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("restarts", "before", "finished", "culprits"),
    [
        (7, 6, 0, [("ray-actor-restarts", "actor Fragile")]),
        (7, 7, 0, [("ray-actor-restarts", "actor Fragile")]),  # it has never run a call
        (7, 7, 9, []),  # it has recovered each time so far
        (1, 0, 0, []),  # it is recovering
    ],
)
def test_restarts(
    restarts: int, before: int, finished: int, culprits: list[tuple[str, str]]
) -> None:
    """An actor that dies again and again is a culprit, one that recovers is none."""
    actor = RayActor("f", role="Fragile", job=JOB, state="RESTARTING", restarts=restarts)
    ray = tables(
        task("a", "Fragile.step", actor="f", state="PENDING_NODE_ASSIGNMENT"),
        actors=(actor,),
        functions=(RayFunction("Fragile.step", finished, longest=0.1),) if finished else (),
    )
    verdict = verdict_on([driver()], ray, restarts_before=before)
    assert found(verdict) == culprits
    assert culprits or verdict.state == "starting"


# --- objects --------------------------------------------------------------------------------


def test_spilled_object() -> None:
    """All tasks have ended, and a worker of Ray's reads an object: it is looked at, and named if it
    makes no progress."""
    ray = tables(movers=(RayMover("n1", 201, "restore"),))
    assert verdict_on([driver()], ray).unread == (ProcessPlace(HOST, 201),)
    mover = seen("RestoreWorker", 201, *RESTORES)
    verdict = verdict_on([driver()], ray, helpers=[mover])
    (culprit,) = found(verdict)
    assert culprit[0] == "object-spilling" and "pid 201" in culprit[1]
    reads = replace(mover, after=replace(mover.after, read=500_000_000))
    assert verdict_on([driver()], ray, helpers=[reads]).state == "moving"


OTHER = RayNode("n2", "node-2", total={"CPU": 4.0}, free={"CPU": 4.0})
OBJECT = "a" * 40 + JOB + "01000000"
FILE = "/ray/ray_spilled_objects_2/7d06-multi-4"
OPENS = RayFileWait(180, "openat", FILE)


def pulled(
    *waits: RayFileWait,
    before: Sequence[RayFileWait] | None = None,
    url: str = f"{FILE}?offset=20&size=9",
    retries: int = 0,
    read: int = 0,
    tasks: Sequence[RayTask] = (),
    asked: Sequence[RayWait] = (),
    helpers: Sequence[Seen] = (),
) -> Verdict:
    """The driver's node pulls an object that was spilled on another one, whose raylet has these
    waits."""
    node = "n2" if url else ""
    pull = RayPull(OBJECT, url, node, 20_000_254 if url else 0, retries)
    first = tuple(waits if before is None else before)
    known = RayEvidence(
        tables(*tasks, nodes=(NODE, OTHER)),
        drivers={DRIVER: JOB},
        waits={DRIVER: asked} if asked else {},
        raylets_before={"n1": Raylet("n1", 50, (pull,)), "n2": Raylet("n2", 60, waits=first)},
        raylets={"n1": Raylet("n1", 50, (pull,)), "n2": Raylet("n2", 60, waits=waits, read=read)},
    )
    return judge(Evidence([driver()], ray=known, helpers=helpers), RULES)


RAYLET = "Ray's raylet (pid 60 on node-2)"


def test_object_spilled_on_another_node() -> None:
    """The raylet there waits for the file: it is named, and the chain says where the object is."""
    verdict = pulled(OPENS, retries=1)
    assert found(verdict) == [("object-spilling", RAYLET)]
    where = "object aaaaaaaaaaaaaaaa…, 19 MiB, spilled on node-2"
    assert names(verdict) == ["process 100", where, RAYLET]
    assert "ls -l " + FILE in verdict.findings[0].next
    evidence = [line for link in verdict.findings[0].chain for line in link.evidence]
    assert "Ray: node node-1 has requested it 2 times" in evidence


def test_object_whose_place_ray_has_not_told_yet() -> None:
    """The raylet that waits for a file of spilled objects has it."""
    assert found(pulled(OPENS, url="")) == [("object-spilling", RAYLET)]


def test_worker_that_reads_another_object() -> None:
    """It may be of another job: an object on another node is read by the raylet there."""
    mover = seen("RestoreWorker", 201, *RESTORES)
    assert found(pulled(OPENS, helpers=[mover])) == [("object-spilling", RAYLET)]
    assert pulled(helpers=[mover]).state == "moving"


def test_argument_of_a_task_spilled_on_another_node() -> None:
    """Ray starts the task when its node has the argument."""
    waits = task("b", "use", kind="normal_task", state="PENDING_NODE_ASSIGNMENT", age=90.0)
    verdict = pulled(OPENS, tasks=[waits])
    assert found(verdict) == [("object-spilling", RAYLET)]
    assert names(verdict)[1] == "task use" and names(verdict)[-1] == RAYLET


def test_object_that_is_not_sent() -> None:
    """The file cannot be read: its node is asked again and again, and reads nothing."""
    verdict = pulled(retries=3)
    assert found(verdict) == [("object-spilling", RAYLET)]
    assert "requested it 4 times" in verdict.findings[0].says


@pytest.mark.parametrize(
    "twin",
    [
        lambda: pulled(),  # it has just been asked for
        lambda: pulled(OPENS, before=()),  # its raylet has just begun to read
        lambda: pulled(replace(OPENS, thread=181), before=[OPENS]),  # one file after another
        lambda: pulled(retries=3, read=500_000_000),  # it is large
        lambda: pulled(url=""),
    ],
)
def test_object_that_comes_from_another_node(twin: Callable[[], Verdict]) -> None:
    """There is no culprit, and the chain says what is waited for."""
    verdict = twin()
    assert verdict.state == "moving" and not verdict.findings
    assert verdict.awaited is not None and names(verdict)[1].startswith("object aaaaaaaaaaaaaaaa…")


def test_object_of_another_wait() -> None:
    """Agents tell which objects are meant; and those of another job are none."""
    asked = [RayWait("MainThread", True, "get", ("b" * 56,), 1)]
    assert found(pulled(OPENS, asked=asked)) == []


def test_tables_that_do_not_tell() -> None:
    """Stacks alone tell then: Ray may keep no events of tasks."""
    verdict = verdict_on([driver(), seen("Trainer", 101, IN_LOCK)], tables())
    assert found(verdict) == [("waits-for-lock", "Trainer")]
    assert verdict.awaited is None
