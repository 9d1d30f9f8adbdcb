"""A server on asyncio without requests."""

import asyncio


async def answer(reader, writer):
    writer.close()


async def serve():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print("ready", flush=True)
    await server.serve_forever()


asyncio.run(serve())
