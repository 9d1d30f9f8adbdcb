"""python holds_secrets.py OPTION...: a rank that has a secret wherever a program may have one.

The secret is in the environment (SECRET_MARK_TOKEN); with `fail` as the last word, it raises it.
"""

import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

import rankdbg

SECRET = os.environ["SECRET_MARK_TOKEN"]
lock = threading.Lock()


@dataclass
class Client:
    host: str
    api_key: str


def talk(client, settings, hf_token, database):
    headers = {"Authorization": f"Bearer {SECRET}"}
    note = f"curl -u bob:{SECRET} {database} && export X_API_KEY={SECRET}"
    nested = {"train": {"lr": 0.1, "logger": [{"wandb_api_key": SECRET}]}}
    print(f"config: {nested} client={client}", flush=True)
    print(f"RuntimeError: CUDA out of memory. HF_TOKEN={SECRET} at {database}", flush=True)
    if sys.argv[-1] == "fail":
        raise RuntimeError(f"401 for {client} at {database}: token={SECRET}")
    for step in range(50):
        rankdbg.progress(step)
        time.sleep(0.01)
    lock.acquire()
    lock.acquire()


def name_process():
    """As programs do that say in their title what they are doing."""
    import setproctitle

    setproctitle.setproctitle(f"trainer --lr 0.1 --password {SECRET} {{'token': '{SECRET}'}}")


child = subprocess.Popen(
    ["sh", "-c", f"export DB_PASSWORD={SECRET}; read line"], stdin=subprocess.PIPE
)
if "title" in sys.argv:
    name_process()
try:
    talk(
        Client("db", SECRET),
        {"password": SECRET, "lr": 0.1},
        SECRET,
        f"postgres://bob:{SECRET}@db:5432/x",
    )
finally:
    child.kill()
    child.wait()
