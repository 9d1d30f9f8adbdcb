"""Beside the ranks: finds them, relays questions to their agents, probes from outside.

    __main__    speaks on stdin and stdout, and ends when its stdin ends
    service     a question of the session -> its answer
    discovery   cards and /proc -> all processes of jobs on this machine
    classify    which of them are ranks, and their numbers
    relay       one question to many agents at once, with a deadline
    processes   what /proc tells, without ever blocking on a process that hangs
    probes/     one file a way of looking into a process from outside

A node is started by the launcher that the job already uses, on every machine, in the
ranks' own PID namespace. It knows no rules; those come in the question.
"""
