"""python sources.py WAY CODE: stops in code whose text is not here.

CODE is a file with a code object, as marshal writes it: what cloudpickle sends by value.
python sources.py write CODE FILE: makes one of the text on stdin, as if that came from FILE.
"""

import linecache
import marshal
import os
import subprocess
import sys
import types


def executes(code):
    exec(code, globals())  # with the loader of this module


def by_value(code):
    (function,) = (c for c in code.co_consts if isinstance(c, types.CodeType))
    types.FunctionType(function, {"__name__": "__main__", "__builtins__": __builtins__})()


def steps_into(code):
    breakpoint()
    by_value(code)


def sends(code):
    """A kernel: its cell is in linecache alone, and a child gets the function by value."""
    name = code.co_filename
    linecache.cache[name] = (1, None, os.environ["CELL"].splitlines(True), name)
    words = [sys.executable, __file__, "by_value", sys.argv[2]]
    subprocess.run(words, env={**os.environ, "RANK": "1"})


def from_a_file(name):
    with open(name) as file:
        exec(compile(file.read(), name, "exec"), {"__name__": "executed"})


def write(name, file):
    with open(name, "wb") as code:
        marshal.dump(compile(sys.stdin.read(), file, "exec"), code)


if __name__ == "__main__":
    way, name, *more = sys.argv[1:]
    if way in ("executes", "by_value", "steps_into", "sends"):
        with open(name, "rb") as file:
            globals()[way](marshal.load(file))
    else:
        globals()[way](name, *more)
