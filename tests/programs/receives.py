"""python receives.py KIND FOLDER: ranks 0, 2 and 3 receive from rank 1, in no function whose name says
so, or, with the KIND `sleeps_beside_events`, wait for events as servers do. What rank 1 does is KIND;
each rank prints a line when it is about to wait."""

import os
import selectors
import socket
import sys
import threading
import time
from pathlib import Path

RANK = int(os.environ["RANK"])
KIND, PORT = sys.argv[1], Path(sys.argv[2]) / "port"
PEERS = []


def sleeps():
    time.sleep(3600)


sleeps_beside_events = sleeps


def locks():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def serves():
    """Its main thread sleeps too, and another one waits for what its peers ask."""
    threading.Thread(target=lambda: PEERS[0].recv(1), daemon=True).start()
    sleeps()


def main():
    if RANK != 1:
        while not PORT.exists():
            time.sleep(0.01)
        with socket.create_connection(("127.0.0.1", int(PORT.read_text()))) as here:
            print("ready", flush=True)
            if KIND.endswith("events"):
                events = selectors.DefaultSelector()
                events.register(here, selectors.EVENT_READ)
                events.select()
            here.recv(1)
        return
    server = socket.create_server(("127.0.0.1", 0))
    new = PORT.with_name("new")
    new.write_text(str(server.getsockname()[1]))
    new.rename(PORT)
    PEERS.extend(server.accept()[0] for _ in range(3))
    print("ready", flush=True)
    globals()[KIND]()


main()
