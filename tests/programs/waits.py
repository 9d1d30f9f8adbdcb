"""python waits.py KIND: rank 0 waits for rank 1 in KIND, rank 1 for a lock that no thread releases;
or, for a kind of rank 1's, rank 0 waits without a timer and rank 1 does that.

Each rank prints a line when it is about to do so.
"""

import asyncio
import contextlib
import os
import queue
import select
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import Future

RANK = int(os.environ["RANK"])
NEVER = threading.Event()


def in_thread(function):
    threading.Thread(target=function, daemon=True).start()


def wait_for_a_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


# --- rank 0 looks again and again whether rank 1 has come -----------------------------------------


def event():
    while not NEVER.wait(0.1):
        pass


def queue_get():
    items = queue.Queue()
    while True:
        with contextlib.suppress(queue.Empty):
            items.get(timeout=0.2)


def future():
    while True:
        with contextlib.suppress(TimeoutError):
            Future().result(timeout=0.2)


def select_loop():
    ours, _theirs = socket.socketpair()
    while True:
        select.select([ours], [], [], 0.1)


def sleep():
    while not os.path.exists("/nonexistent/flag"):
        time.sleep(0.05)


def join():
    thread = threading.Thread(target=NEVER.wait, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.2)


def heartbeats():
    def beat():
        while True:
            print("still alive", flush=True)
            time.sleep(0.1)

    in_thread(beat)
    event()


def heartbeats_of_an_event_loop():
    async def beat():
        while True:
            print("still alive", flush=True)
            await asyncio.sleep(0.2)

    asyncio.run(beat())


# --- rank 0 is served, step by step ---------------------------------------------------------------


def steps():
    """By messages, in a wait that has a timer."""
    ours, theirs = socket.socketpair()
    ours.settimeout(60)

    def send():
        while True:
            theirs.send(b"gradients")
            time.sleep(0.1)

    in_thread(send)
    while ours.recv(100):
        pass


# --- what rank 1 does while rank 0 waits for it ---------------------------------------------------


def silent_server():
    ours, _theirs = socket.socketpair()
    ours.settimeout(0.2)
    while True:
        with contextlib.suppress(TimeoutError):
            ours.recv(100)


def empty_queue():
    queue_get()


def download():
    """A little at a time: the twin of silent_server."""
    steps()


def full_queue():
    """The twin of empty_queue."""
    items = queue.Queue()

    def feed():
        while True:
            items.put("batch")
            time.sleep(0.05)

    in_thread(feed)
    while True:
        items.get(timeout=1)


def read_in_pieces():
    """A file on slow storage."""
    pipe = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import os, time\nwhile os.write(1, bytes(60_000)): time.sleep(0.1)",
        ],
        stdout=subprocess.PIPE,
    )
    while pipe.stdout.read(50_000):
        pass


def write_checkpoint():
    """In a thread, to slow storage."""

    def write():
        with tempfile.TemporaryFile() as checkpoint:
            while True:
                checkpoint.write(bytes(100_000))
                checkpoint.seek(0)
                time.sleep(0.1)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    writer.join()


# --- both ranks -----------------------------------------------------------------------------------


def serve_in_thread():
    """The main thread looks now and then whether it is to end."""
    server = socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler)
    in_thread(server.serve_forever)
    event()


def barrier(how):
    """By its name a collective."""
    how()


OF_RANK_1 = (silent_server, empty_queue, download, full_queue, read_in_pieces, write_checkpoint)
kind = globals()[sys.argv[1]]
print("ready", flush=True)
if kind is serve_in_thread:
    serve_in_thread()
elif kind in OF_RANK_1:
    kind() if RANK == 1 else barrier(NEVER.wait)
else:
    barrier(kind) if RANK == 0 else wait_for_a_lock()
