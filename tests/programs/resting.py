"""Threads that have come to where they stay."""

import sys
import time


def wait_until_it_waits(ident):
    """In the same place in every process: a thread that has just begun may be anywhere."""
    places = [None]
    while len(places) < 5 or len(set(places[-5:])) > 1 or places[-1][0] != "wait":
        time.sleep(0.01)
        frame = sys._current_frames()[ident]
        places.append((frame.f_code.co_name, id(frame), frame.f_lasti))
