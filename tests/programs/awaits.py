"""python awaits.py KIND: ranks on asyncio. Rank 0 waits in a barrier; a task of rank 1 awaits something
in KIND. With `served-` before KIND that comes, a little at a time; `alone-`: there is no rank 0.

Each rank prints a line when it is about to wait.
"""

import asyncio
import os
import sys
import threading
import time

RANK = int(os.environ["RANK"])
HOW, _, KIND = sys.argv[1].rpartition("-")
SERVED = HOW == "served"


def barrier():
    """By its name a collective."""
    threading.Event().wait()


class Trainer:
    def __init__(self):
        self.lock, self.other = asyncio.Lock(), asyncio.Lock()
        self.batches = asyncio.Queue(1)

    async def stand(self):
        """What a task does that owes something to another."""
        await (asyncio.sleep(0.02) if SERVED else asyncio.get_running_loop().create_future())

    async def save(self):
        while True:
            async with self.lock:
                await self.stand()
            await asyncio.sleep(0)

    async def load(self):
        while True:
            await self.stand()
            await self.batches.put("batch")

    async def step(self):
        async with self.lock:
            pass

    async def lock_of_a_task(self):
        saving = asyncio.create_task(self.save(), name="save")
        await asyncio.sleep(0)
        while True:
            await asyncio.gather(asyncio.create_task(self.step(), name="step"), asyncio.sleep(0))
            assert not saving.done()

    async def queue_of_a_task(self):
        loading = asyncio.create_task(self.load(), name="load")
        while not loading.done():
            await self.batches.get()

    async def save_to_both(self):
        async with self.other:
            while not self.lock.locked():
                await asyncio.sleep(0)
            async with self.lock:
                pass

    async def locks_in_different_orders(self):
        saving = asyncio.create_task(self.save_to_both(), name="save")
        async with self.lock:
            while not self.other.locked():
                await asyncio.sleep(0)
            async with self.other:
                await saving

    async def answer(self, requests):
        while True:
            await self.batches.put(await requests.get())

    async def two_queues_without_work(self):
        """Two tasks that serve each other, of which neither has anything to do."""
        requests = asyncio.Queue()
        answering = asyncio.create_task(self.answer(requests), name="answer")
        while not answering.done():
            await requests.put(await self.batches.get())

    async def thread_of_a_pool(self):
        while True:
            await asyncio.to_thread(time.sleep, 0.02 if SERVED else 1000)

    async def child(self):
        while True:
            child = await asyncio.create_subprocess_exec("sleep", "0.02" if SERVED else "1000")
            await child.wait()

    async def stream(self):
        program = "import os, time\nwhile os.write(1, b'line\\n') * %d: time.sleep(0.02)\ntime.sleep(1000)"
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program % SERVED, stdout=asyncio.subprocess.PIPE
        )
        while True:
            await child.stdout.readline()


async def main():
    print("ready", flush=True)
    await getattr(Trainer(), KIND)()


if RANK == 0 and HOW != "alone":
    print("ready", flush=True)
    barrier()
asyncio.run(main())
