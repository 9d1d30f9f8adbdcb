"""`rankdbg watch` around a command (what watching does: investigations/watch/).

supervisor.py   the process that the shell started: waits for the command, forwards signals
beside.py       the watching process
sessions.py     how a watch reaches its job
"""
