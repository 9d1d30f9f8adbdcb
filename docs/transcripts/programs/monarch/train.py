"""Trainers and evaluators in four procs of Monarch: python train.py [fails]."""

import sys

from monarch.actor import Actor, current_rank, endpoint, this_host


class Trainer(Actor):
    def __init__(self):
        self.seen = 0

    @endpoint
    def step(self, batch):
        self.seen += len(batch)
        loss = 1 / self.seen
        if current_rank().rank == 2:
            breakpoint()
        return loss


class Evaluator(Actor):
    @endpoint
    def score(self, shards):
        best = current_rank().rank
        return shards[best]


procs = this_host().spawn_procs(per_host={"gpus": 4}, name="workers")
if "fails" in sys.argv:
    procs.spawn("evaluator", Evaluator).score.call([3, 1, 2]).get()
losses = procs.spawn("trainer", Trainer).step.call([1, 2, 3]).get()
breakpoint()
