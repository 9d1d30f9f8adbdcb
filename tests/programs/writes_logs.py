"""python writes_logs.py DIRECTORY [FILE]: a rank that logs into a file of its own in a directory, or
with the others into one file. Rank 3 has an error. What stands in DIRECTORY/say is logged next."""

import logging
import os
import sys
import time
from pathlib import Path

rank = int(os.environ["RANK"])
folder = Path(sys.argv[1])
shared = len(sys.argv) > 2
file = folder / (sys.argv[2] if shared else f"{'abcd'[rank]}.log")
os.dup2(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), 1)
os.dup2(1, 2)
prefix = f"[rank{rank}] " if shared else ""
logging.basicConfig(format=f"{prefix}%(asctime)s - %(levelname)s - %(message)s", level="INFO")
for step in range(5):
    logging.info("step %d loss %.2f", step, 2.5 - step / 10)
logging.info("gradients %d", 1000 + rank)
if rank == 3:
    try:
        [][1]
    except IndexError:
        logging.exception("a batch was empty, key hf_%s", "x" * 30)
print("ready", flush=True)
(folder / f"ready-{rank}").touch()
said = ""
while True:
    text = (folder / "say").read_text() if (folder / "say").exists() else ""
    if text != said:
        said = text
        logging.info("%s", text)
    time.sleep(0.02)
