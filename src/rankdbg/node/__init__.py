"""The node process: finds ranks, relays questions to their agents, probes from outside.

    __main__    messages on stdin and stdout; exits when stdin ends
    service     a question of the session -> its answer
    discovery   cards and /proc -> all processes of jobs on this machine
    classify    which of them are ranks, and their numbers
    relay       one question to many agents at once, with a deadline
    processes   data of /proc, without blocking on a process that hangs
    probes/     one module for each way to inspect a process from outside

A node is started by the launcher that the job already uses, on every machine, in the
PID namespace of the ranks. It has no rules; those are part of a question.
"""
