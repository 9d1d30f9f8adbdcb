"""python hostile.py LOG: a rank whose every name, value and message holds what commands a terminal
or deceives its reader. Rank 1 stops; what they write goes to LOG.RANK."""

import os
import sys
import threading

from setproctitle import setproctitle

import rankdbg  # noqa: F401  (PROGRAM's)

RANK = int(os.environ["RANK"])
# Clipboard, screen, link, C1, direction, overwriting, unseen text; and no NUL, which many of these
# places do not take.
HOSTILE = (
    "\x1b]52;c;ZXZpbA==\x07\x1b[2J\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\\x9b31m\x85"
    "\u202eright\u2066left\u2069\u200e\u061c\u2028\u200b\b\x7f\rover\x0b\x0c\U000e0041end"
)

PROGRAM = """
def wait_here(stops):
    value, text = Value(), HOSTILE
    print("loss is nan", HOSTILE, flush=True)
    print("Traceback (most recent call last):", flush=True)
    print('  File "train.py", line 1, in <module>', flush=True)
    print("torch.cuda.OutOfMemoryError: CUDA out of memory.", HOSTILE, flush=True)
    if stops:
        rankdbg.breakpoint(header=HOSTILE)
    threading.Event().wait()
"""


class Value:
    def __repr__(self):
        return f"<{HOSTILE}>"

    @property
    def wrong(self):
        raise ValueError(HOSTILE)


def hostile_function():
    """Its name, its file and its variables are hostile."""
    space = {**globals(), "__name__": "__main__"}
    exec(compile(PROGRAM, f"/tmp/{HOSTILE}/train.py", "exec"), space)
    function = space["wait_here"]
    function.__code__ = function.__code__.replace(co_name=f"train{HOSTILE}")
    if hasattr(function.__code__, "co_qualname"):
        function.__code__ = function.__code__.replace(co_qualname=f"train{HOSTILE}")
    return function


def write_log(place):
    descriptor = os.open(f"{place}.{RANK}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)


write_log(sys.argv[1])
setproctitle(f"trainer {HOSTILE}")
threading.Thread(target=threading.Event().wait, name=HOSTILE, daemon=True).start()
hostile_function()(stops=RANK == 1)
