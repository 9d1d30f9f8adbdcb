"""Two threads that loop; left_behind() says what a debugger has changed in this process."""

import builtins
import os
import sys
import threading
import time

traced = {}


def inner(name, value):
    return value + 1  # in inner


def state():
    return {
        "__import__": builtins.__import__,
        "sys.stdout": sys.stdout,
        "sys.stderr": sys.stderr,
        "sys.excepthook": sys.excepthook,
        "sys.breakpointhook": sys.breakpointhook,
        "sys.settrace": sys.settrace,
        "os.fork": os.fork,
        "os._exit": os._exit,
        "threading._start_new_thread": getattr(threading, "_start_new_thread", None),
        "threading._start_joinable_thread": getattr(threading, "_start_joinable_thread", None),
        "threading.settrace": getattr(threading, "_trace_hook", None),
    }


BEFORE = state()


def left_behind():
    changed = [name for name, thing in state().items() if thing is not BEFORE[name]]
    changed += [f"{name} is traced" for name, function in traced.items() if function is not None]
    for frame in sys._current_frames().values():
        while frame is not None:
            changed += [f"{frame.f_code.co_name} has {frame.f_trace}"] if frame.f_trace else []
            frame = frame.f_back
    return sorted([*changed, *watched()])


def watched():
    """Functions of which the interpreter would tell a debugger."""
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is None or monitoring.get_tool(monitoring.DEBUGGER_ID) is not None:
        return [] if monitoring is None else ["the debugger's number is taken"]
    monitoring.use_tool_id(monitoring.DEBUGGER_ID, "test")
    try:
        return [
            f"{function.__name__} is watched"
            for function in (inner, loops)
            if monitoring.get_local_events(monitoring.DEBUGGER_ID, function.__code__)
        ]
    finally:
        monitoring.free_tool_id(monitoring.DEBUGGER_ID)


def loops(name):
    step = 0
    while True:
        step = inner(name, step)
        traced[name] = sys.gettrace()
        time.sleep(0.002)


threading.Thread(target=loops, args=("a thread",), daemon=True).start()
loops("the main thread")
