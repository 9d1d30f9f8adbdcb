"""An endpoint that runs as long as the job: four procs of Monarch."""

import time

from monarch.actor import Actor, endpoint, this_host


class Trainer(Actor):
    @endpoint
    def train(self):
        step = 0
        while True:
            step += 1
            time.sleep(0.1)


procs = this_host().spawn_procs(per_host={"gpus": 4}, name="workers")
procs.spawn("trainer", Trainer).train.call().get()
