"""python ray_stories.py ADDRESS STORY FOLDER: a driver of Ray and what it waits for.

Each story has a twin that looks alike and is healthy. It says "ready" when the wait has begun, and
goes on forever. FOLDER/go lets some of them go on. What the driver waits for runs where the resource
`away` is: on another node than the driver, if the cluster has two.
"""

import os
import queue
import sys
import threading
import time
from pathlib import Path

import ray
from ray.util.placement_group import placement_group
from ray.util.queue import Queue

AWAY = {"away": 0.001}


def ready():
    print("ready", flush=True)


# --- an actor and a lock ------------------------------------------------------------------


@ray.remote(num_cpus=0, resources=AWAY)
class Trainer:
    def __init__(self):
        self.lock = threading.Lock()
        self.items = queue.Queue()

    def step(self):
        return "done"

    def train(self):
        with self.lock:
            self.lock.acquire()

    def consume(self):
        return self.items.get()

    def serve(self):
        """As servers do, whose work is in other threads."""
        threading.Event().wait()

    def work(self):
        total = 0
        while True:
            total += sum(range(1000))


def lock(folder):
    trainer = Trainer.remote()
    ray.get(trainer.step.remote())
    result = trainer.train.remote()
    ready()
    ray.get(result)


def lock_in_turns(folder):
    """The driver looks again and again whether there is a result."""
    trainer = Trainer.remote()
    ray.get(trainer.step.remote())
    result = trainer.train.remote()
    ready()
    while not ray.wait([result], timeout=0.5)[0]:
        pass


def lock_twin(folder):
    """The lock is free: step after step."""
    trainer = Trainer.remote()
    ray.get(trainer.step.remote())
    ready()
    while True:
        ray.get(trainer.step.remote())
        time.sleep(0.1)


def background(folder):
    """A server that nobody waits for, beside a trainer that works."""
    server, trainer = Trainer.remote(), Trainer.remote()
    running = server.serve.remote()
    result = trainer.work.remote()
    ready()
    ray.get(result)
    ray.get(running)


# --- an empty queue -----------------------------------------------------------------------


@ray.remote(num_cpus=0, resources=AWAY)
class Consumer:
    def consume(self, items):
        while True:
            items.get()


@ray.remote(num_cpus=0, resources=AWAY)
class Producer:
    def produce(self, items):
        total = 0
        while True:
            total += sum(range(1000))


def ray_queue(folder):
    items = Queue(actor_options={"num_cpus": 0})
    result = Consumer.remote().consume.remote(items)
    ready()
    ray.get(result)


def ray_queue_twin(folder):
    """The producer computes the next item."""
    items = Queue(actor_options={"num_cpus": 0})
    producer = Producer.remote()
    producing = producer.produce.remote(items)
    result = Consumer.remote().consume.remote(items)
    ready()
    ray.get(result)
    ray.get(producing)


def own_queue(folder):
    trainer = Trainer.remote()
    ray.get(trainer.step.remote())
    result = trainer.consume.remote()
    ready()
    ray.get(result)


@ray.remote(num_cpus=0, resources=AWAY)
class Awaiter:
    async def consume(self):
        import asyncio

        return await asyncio.Queue().get()


def async_queue(folder):
    result = Awaiter.remote().consume.remote()
    ready()
    ray.get(result)


def idle(folder):
    """A server that waits for requests, and a driver that keeps it."""
    trainer = Trainer.remote()
    running = trainer.consume.remote()
    ready()
    sys.stdin.readline()
    ray.get(running)


# --- a task that cannot be placed ---------------------------------------------------------


@ray.remote(num_cpus=64)
def large():
    return 1


@ray.remote(num_cpus=0, resources={"slot": 1})
def occupy():
    total = 0
    while True:
        total += sum(range(1000))


@ray.remote(num_cpus=0, resources={"slot": 1})
def small():
    return 1


def placement(folder):
    result = large.remote()
    ready()
    ray.get(result)


def placement_twin(folder):
    """It waits for a slot in which another task is at work."""
    occupied = occupy.remote()
    result = small.remote()
    ready()
    ray.get(result)
    ray.get(occupied)


@ray.remote(num_cpus=0, resources={"seat": 1})
class Keeper:
    def step(self):
        return 1


@ray.remote(num_cpus=0, resources={"seat": 1})
def seated():
    return 1


def held(folder):
    """Actors that do nothing keep what the task needs."""
    keeper = Keeper.remote()
    ray.get(keeper.step.remote())
    result = seated.remote()
    ready()
    ray.get(result)


# --- a placement group --------------------------------------------------------------------


def group(folder):
    wanted = placement_group([{"CPU": 2}, {"CPU": 32}], name="trainers")
    ready()
    ray.get(wanted.ready())


def group_wait(folder):
    wanted = placement_group([{"CPU": 48}], name="waited")
    ready()
    wanted.wait(3600)


@ray.remote(num_cpus=0, resources={"place": 1})
def occupy_place():
    total = 0
    while True:
        total += sum(range(1000))


def group_twin(folder):
    """It waits for a place at which a task is at work."""
    occupied = occupy_place.remote()
    time.sleep(1)
    wanted = placement_group([{"place": 1}], name="patient")
    ready()
    ray.get(wanted.ready())
    ray.get(occupied)


# --- an actor that dies in its constructor ------------------------------------------------


@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1, resources=AWAY)
class Fragile:
    def __init__(self, marker):
        """Dies in each start, or in the first alone if there is a marker."""
        if marker is None or not marker.exists():
            if marker is not None:
                marker.touch()
            os._exit(3)
        self.load()

    def load(self):
        total = 0
        while True:
            total += sum(range(1000))

    def step(self):
        return 1


def restarts(folder):
    actor = Fragile.remote(None)
    result = actor.step.remote()
    ready()
    ray.get(result)


def restarts_twin(folder):
    """It has died once, and loads its model."""
    actor = Fragile.remote(folder / "died")
    result = actor.step.remote()
    ready()
    ray.get(result)


# --- actors that wait for each other ------------------------------------------------------


@ray.remote(num_cpus=0)
class Peer:
    def set_other(self, other):
        self.other = other

    def ask(self):
        return ray.get(self.other.answer.remote())

    def answer(self):
        return ray.get(self.other.last.remote())

    def last(self):
        return 1

    def work(self):
        total = 0
        while True:
            total += sum(range(1000))

    def delegate(self):
        return ray.get(self.other.work.remote())


def peers():
    one, two = Peer.remote(), Peer.options(resources=AWAY).remote()
    ray.get([one.set_other.remote(two), two.set_other.remote(one)])
    return one, two


def cycle(folder):
    one, two = peers()
    result = one.ask.remote()
    ready()
    ray.get(result)
    del two


def cycle_twin(folder):
    """One waits for the other, which works."""
    one, two = peers()
    result = one.delegate.remote()
    ready()
    ray.get(result)
    del two


# --- one slow rollout ---------------------------------------------------------------------


@ray.remote(num_cpus=2, resources=AWAY)  # two at a time
def generate(index):
    tokens = 0
    while tokens < (5 if index != 17 else 1_000_000):
        tokens += 1
        time.sleep(0.01)
    return tokens


def slow(folder):
    results = [generate.remote(index) for index in range(32)]
    ray.wait(results, num_returns=31)
    ready()
    ray.get(results)


# --- objects that are spilled -------------------------------------------------------------


@ray.remote(num_cpus=0, resources={"home": 0.001})  # where the driver reads them
def make(index):
    import numpy

    return numpy.full(20_000_000, index, dtype=numpy.uint8)


make_away = make.options(resources=AWAY)


def make_more_than_fits(make=make):
    """Some are spilled; Ray decides which."""
    objects = []
    for index in range(6):
        objects.append(make.remote(index))
        ray.wait(objects[-1:], fetch_local=False)
    return objects


def spill(folder, *making):
    """More than fits into the store; they are read when FOLDER/go is there."""
    objects = make_more_than_fits(*making)
    print("made", flush=True)
    while not (folder / "go").exists():
        time.sleep(0.05)
    ready()
    read_again_and_again(objects)


def read_again_and_again(objects):
    """One that is in memory yet has to make room for others, and is read from its file next time."""
    while True:
        for each in objects:
            ray.get(each)


def spill_away(folder):
    """The same on the other node, from which they are fetched."""
    spill(folder, make_away)


def spill_away_twin(folder):
    """Each is fetched in time, and forgotten here, again and again."""
    objects = make_more_than_fits(make_away)
    ready()
    read_again_and_again(objects)


def spill_twin(folder):
    """They are spilled and read again, all the time."""
    objects = make_more_than_fits()
    ready()
    read_again_and_again(objects)


def main(address, story, folder):
    ray.init(address=address, log_to_driver=False)
    globals()[story](Path(folder))


main(*sys.argv[1:])
