"""python leaves_files.py FOLDER: a rank that leaves a log, a report, a dump and a core there."""

import os
import sys
import threading

folder = sys.argv[1]
rank = os.environ["RANK"]
os.makedirs(folder, exist_ok=True)
os.chdir(folder)
log = open("train.log", "a", buffering=1)
for name, text in (
    (f"trainer_3:7_{rank}.nsys-rep", "a report\n" * 100_000),
    (os.environ.get("TORCH_FR_DUMP_TEMP_FILE", "dump_") + rank, "flight recorder"),
    (f"core.{os.getpid()}", "core"),
    ("old.nsys-rep", "of an earlier job"),
    ("notes.md", "wanted if asked for"),
):
    with open(name, "w") as file:
        file.write(text)
os.utime("old.nsys-rep", (1e9, 1e9))
print("step 1", file=log)
threading.Event().wait()
