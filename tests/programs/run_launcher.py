"""python run_launcher.py WORLD COMMAND...: ranks with RANK; with AGAIN=1 dead ones start again."""

import os
import subprocess
import sys
import threading

world, *command = sys.argv[1:]


def keep(rank):
    environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": world}
    subprocess.call(command, env=environment)
    while os.environ.get("AGAIN"):
        subprocess.call(command, env=environment)


for number in range(int(world)):
    threading.Thread(target=keep, args=(number,), daemon=True).start()
threading.Event().wait(60)
