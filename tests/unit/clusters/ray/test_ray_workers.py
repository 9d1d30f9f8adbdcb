"""Ray's tables -> the processes of each node, with the actors that have died."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from rankdbg.clusters.ray.ray_workers import NOWHERE, join, label_dead, label_workers, number_actors
from rankdbg.roster.members import Member
from rankdbg.roster.ranks import classify

NODES = [{"id": "a1", "address": "10.0.0.1"}, {"id": "b2", "address": "10.0.0.2"}]
RUNNING = {"01": {"driver": ("10.0.0.1", 4), "dead": False, "names": {"entrypoint": "train.py"}}}
OVER = {"01": {**RUNNING["01"], "dead": True}}
NO_CAUSE = SimpleNamespace(WhichOneof=lambda _: None)


def actor(ident: str, state: str, node: str, pid: int, **other: Any) -> dict[str, Any]:
    address = {"NodeID": node, "IPAddress": "10.0.0.2", "Port": 1}
    return {
        **{"ActorID": ident, "State": state, "Pid": pid, "JobID": "01", "Address": address},
        **{"ActorClassName": "train.Rollout", "Name": "", "NumRestarts": 0},
        **{"StartTime": 1000, "EndTime": 5000 if state == "DEAD" else 0, "DeathCause": NO_CAUSE},
        **other,
    }


def worker(node: str, pid: int, began: int) -> Any:
    ident = SimpleNamespace(hex=lambda: node)
    address = SimpleNamespace(node_id=ident, worker_id=ident, ip_address="10.0.0.2")
    return SimpleNamespace(
        worker_address=address,
        pid=pid,
        start_time_ms=began,
        worker_type=0,
        num_paused_threads=0,
        debugger_port=0,
    )


def known(actors: list[dict[str, Any]], workers: list[Any], jobs: Any = RUNNING) -> Any:
    numbers = number_actors(actors)
    living = label_workers(workers, actors, numbers, jobs, {}, "02")
    return join(living, label_dead(actors, numbers, jobs, NODES))


def test_dead_actor_without_company() -> None:
    """It is known on its node although nothing else of its job runs there."""
    actors = [actor("x", "DEAD", "b2", 7), actor("y", "ALIVE", "a1", 8)]
    found = known(actors, [worker("a1", 8, 900)])
    assert found["b2"][7]["dead"] == "it died"
    assert (found["b2"][7]["job"], found["b2"][7]["place"]) == ("ray-01", 0)
    assert "dead" not in found["a1"][8]


def test_worker_that_is_still_listed() -> None:
    """Ray's table of workers may be later than the one of actors: the death counts."""
    found = known([actor("x", "DEAD", "b2", 7)], [worker("b2", 7, 900)])
    assert found["b2"][7]["dead"] == "it died"


def test_actor_that_was_started_again() -> None:
    """Its new process has the number that a session knows it by, of a later generation; the others keep
    theirs."""
    again = actor("x", "ALIVE", "b2", 9, NumRestarts=1, StartTime=7000)
    actors = [again, actor("y", "ALIVE", "a1", 8, StartTime=1100)]
    before = known([actor("x", "ALIVE", "b2", 7), actors[1]], [worker("b2", 7, 900)])
    found = known(actors, [worker("b2", 9, 6900), worker("a1", 8, 900)])
    assert found["b2"][9]["place"] == before["b2"][7]["place"]
    member = Member(9, 1, 0, True, {**found["b2"][9]}, ["ray::Rollout"])
    classify([member])
    assert (member.number, member.generation) == (before["b2"][7]["place"], 2)
    assert (found["a1"][8]["place"], "restart" in found["a1"][8]) == (1, False)


def test_process_id_that_is_used_again() -> None:
    """A new actor with the pid of dead ones hides none of them."""
    dead = [actor("x", "DEAD", "b2", 7), actor("y", "DEAD", "b2", 7, EndTime=6000)]
    actors = [*dead, actor("z", "ALIVE", "b2", 7)]
    found = known(actors, [worker("b2", 7, 9000)])["b2"][7]
    assert (found["place"], [each["place"] for each in found["before"]]) == (2, [0, 1])


def test_dead_actors_of_one_process_id() -> None:
    """Of two dead actors with one pid both are known."""
    found = known([actor("x", "DEAD", "b2", 7), actor("y", "DEAD", "b2", 7, EndTime=6000)], [])
    both = [found["b2"][7], *found["b2"][7]["before"]]
    assert sorted(each["place"] for each in both) == [0, 1]


def test_node_that_was_started_again() -> None:
    """What died with a node is shown on the node that has its address now."""
    found = known([actor("x", "DEAD", "gone", 7)], [])
    assert found["b2"][7]["dead"] == "it died"


def test_node_that_is_gone() -> None:
    """What died with it, or before, keeps its number: the first of the other nodes tells it, apart
    from its own processes."""
    away = {"NodeID": "c3", "IPAddress": "10.0.0.3", "Port": 1}
    dead = [actor("x", "DEAD", "c3", 8, Address=away), actor("y", "DEAD", "c3", 9, Address=away)]
    actors = [*dead, actor("z", "ALIVE", "a1", 8, StartTime=2000)]
    found = known(actors, [worker("a1", 8, 900)])
    assert (found["a1"][8]["place"], "dead" in found["a1"][8]) == (2, False)
    told = found["a1"][NOWHERE]["before"]
    assert [(each["pid"], each["place"]) for each in told] == [(8, 0), (9, 1)]
    assert told[0]["dead"] == "it died (its node 10.0.0.3 has left the Ray cluster)"


def test_job_that_is_over() -> None:
    """Its actors are not listed, unless a detached one is left."""
    dead = actor("x", "DEAD", "b2", 7)
    assert not known([dead], [], OVER)
    detached = actor("y", "ALIVE", "b2", 8)
    assert known([dead, detached], [worker("b2", 8, 900)], OVER)["b2"][7]["dead"]
