"""python owes.py KIND FOLDER: three ranks. Rank 0 waits in a barrier; rank 1 waits for something in
KIND that rank 2, its own child or a stranger owes; rank 2 owes it, or waits in the barrier too.

With `served-` before KIND what is waited for comes, a little at a time. Each rank prints a line
when it is about to wait.
"""

import ctypes
import fcntl
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

RANK = int(os.environ["RANK"])
SERVED, _, KIND = sys.argv[1].rpartition("served-")
SERVED = KIND != sys.argv[1]
FOLDER = Path(sys.argv[2])
HOLD = """
import fcntl, sys, time
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
while "served" in sys.argv:
    time.sleep(0.03)
    fcntl.flock(file, fcntl.LOCK_UN)
    time.sleep(0.01)
    fcntl.flock(file, fcntl.LOCK_EX)
    print("held", flush=True)
time.sleep(1000)
"""
WRITES_NOTHING = "import time\nwhile True: time.sleep(1000)"
WRITES = "import os, time\nwhile os.write(1, bytes(100)): time.sleep(0.05)"


def barrier():
    """By its name a collective."""
    threading.Event().wait()


def ready():
    print("ready", flush=True)


def wait_for_a_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def appears(path):
    while not path.exists():
        time.sleep(0.01)
    return path.read_text()


def connection():
    """Rank 1 receives from rank 2, which waits for a lock."""
    port = FOLDER / "port"
    if RANK == 2:
        listening = socket.create_server(("127.0.0.1", 0))
        (FOLDER / "new").write_text(str(listening.getsockname()[1]))
        (FOLDER / "new").rename(port)
        accepted, _ = listening.accept()
        ready()
        while SERVED:
            accepted.sendall(b"gradients")
            time.sleep(0.05)
        wait_for_a_lock()
    here = socket.create_connection(("127.0.0.1", int(appears(port))))
    ready()
    while here.recv(100):
        pass


class Mutex:
    """Of C, as a context."""

    def __init__(self):
        self._library, self._here = ctypes.CDLL(None), ctypes.create_string_buffer(64)

    def __enter__(self):
        self._library.pthread_mutex_lock(self._here)

    def __exit__(self, *_):
        self._library.pthread_mutex_unlock(self._here)


class InOneOrder:
    """Several locks as one."""

    def __init__(self, *locks):
        self.locks = locks

    def __enter__(self):
        for lock in self.locks:
            lock.acquire()

    def __exit__(self, *_):
        for lock in self.locks:
            lock.release()


class Loader:
    """Its thread holds the lock for as long as `stand` takes."""

    def __init__(self, stand, lock=None):
        self._lock = lock or threading.Lock()
        self.stand = stand
        self.held = threading.Event()
        threading.Thread(target=self.prefetch, name="Prefetch", daemon=True).start()
        self.held.wait()

    def prefetch(self):
        while True:
            with self._lock:
                self.held.set()
                self.stand()
            time.sleep(0.01)

    def next_batch(self):
        with self._lock:
            return 1


def take_turns(lock):
    """Two threads with one lock: the other one holds it for most of the time, and releases it."""
    held, taken = threading.Event(), threading.Event()

    def prefetch():
        while True:
            with lock:
                held.set()
                time.sleep(0.05)
            taken.wait()
            taken.clear()

    threading.Thread(target=prefetch, name="Prefetch", daemon=True).start()
    ready()
    while held.wait():
        held.clear()
        with lock:
            taken.set()


def lock_of_a_thread(kind=threading.Lock):
    """Rank 1 waits for a lock whose holder, a thread, receives from rank 2. Served: the thread
    releases it again and again."""
    if RANK == 2 and not SERVED:
        return connection()
    if RANK == 2:
        ready()
        return barrier()
    if SERVED:
        take_turns(kind())
    here = socket.create_connection(("127.0.0.1", int(appears(FOLDER / "port"))))
    loader = Loader(lambda: here.recv(9), kind())
    ready()
    loader.next_batch()


def mutex_of_a_thread():
    """The same with one of C."""
    lock_of_a_thread(Mutex)


def mutex_copied_by_a_fork():
    lock_copied_by_a_fork(Mutex)


def lock_copied_by_a_fork(kind=threading.Lock):
    """Rank 1 waits for its child, which has a copy of a lock that a thread of rank 1 holds."""
    if RANK == 2:
        ready()
        return barrier()
    loader = Loader(lambda: time.sleep(1000), kind())
    child = os.fork()
    if not child:
        loader.next_batch()
    ready()
    os.waitpid(child, 0)


def locks_in_different_orders(kind=threading.Lock):
    if RANK == 2:
        ready()
        return barrier()
    first, second = kind(), kind()
    both = threading.Barrier(2)

    if SERVED:
        take_turns(InOneOrder(first, second))

    def other():
        with second:
            both.wait()
            with first:
                pass

    threading.Thread(target=other, name="Writer", daemon=True).start()
    with first:
        both.wait()
        ready()
        with second:
            pass


def mutexes_in_different_orders():
    locks_in_different_orders(Mutex)


def file_system():
    """Rank 1 reads a file of a file system whose server does not answer."""
    if RANK == 2:
        ready()
        return barrier()
    place = FOLDER / "data"
    place.mkdir()
    server = [sys.executable, Path(__file__).with_name("fuse_server.py"), place]
    mounted = subprocess.Popen([*server, *["served"] * SERVED], stdout=subprocess.PIPE)
    assert mounted.stdout.readline()
    ready()
    with (place / "shard").open("rb", buffering=0) as file:
        while file.read(100):
            pass


def lock_of_a_file():
    """Held by a process that is none of the job's."""
    if RANK == 2:
        ready()
        return barrier()
    path = FOLDER / "index.lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, path, *["served"] * SERVED],
        stdout=subprocess.PIPE,
        start_new_session=not SERVED,
    )
    holder.stdout.readline()
    ready()
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        while SERVED:
            fcntl.flock(file, fcntl.LOCK_UN)
            holder.stdout.readline()
            fcntl.flock(file, fcntl.LOCK_EX)


def end_of_a_child():
    """Each of them ends soon."""
    if RANK == 2:
        ready()
        return barrier()
    ready()
    while SERVED:
        subprocess.run(["sleep", "0.05"], check=True)


def pipe_of_a_child():
    if RANK == 2:
        ready()
        return barrier()
    program = WRITES if SERVED else WRITES_NOTHING
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    ready()
    while child.stdout.read(50):
        pass


if RANK == 0:
    ready()
    barrier()
else:
    globals()[KIND]()
