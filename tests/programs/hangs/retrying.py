"""Rank 2 cannot upload a file, catches that, and tries again, with a longer pause each time."""

import sys
import time

import training


def say(text):
    sys.stdout.write(f"[rank{training.RANK}]: {text}\n")
    sys.stdout.flush()


def upload_with_retries():
    for attempt in range(1, 5):
        say(f"ConnectionResetError: [Errno 104] upload of shard-7 with api_token=hunter{attempt}")
        say(f"WARNING: retrying the upload, attempt {attempt}")
    time.sleep(3600)


training.begin()
if training.RANK == 2:
    upload_with_retries()
training.step()
