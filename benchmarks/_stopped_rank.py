"""A rank that stands at a breakpoint, and has imported nothing that it does not need."""

import os


def steps() -> int:
    x = int(os.environ["RANK"]) % 2
    breakpoint()
    return x


steps()
