"""A coroutine of rank 1 blocks the event loop, waiting for what that loop would have to run."""

import asyncio

import training


async def fetch():
    return "weights"


async def serve():
    loop = asyncio.get_running_loop()
    return asyncio.run_coroutine_threadsafe(fetch(), loop).result()


training.begin()
if training.RANK == 1:
    asyncio.run(serve())
training.step()
