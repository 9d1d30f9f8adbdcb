"""The node process: finds ranks, relays questions to their agents, probes from outside.

    __main__        messages on stdin and stdout; exits when stdin ends
    service         a question of the session -> its answer
    relay, inquiry  one question to many agents at once, with a deadline; what to do without an answer
    open_streams    bytes between a client and an agent, a port or a terminal
    rank_files, history_files    files that ranks have written
    offers, receiving, in_memory, programs    what a node lacks and is sent: modules, py-spy
    timeout_holds   timeouts of process groups, held while a rank is stopped

    roster/     cards and /proc -> the processes of jobs on this machine
    machine/    what the kernel, a GPU or NCCL knows, without blocking on a process that hangs
    probes/     one module for each way to inspect a process from outside
    logs/       where the logs of ranks are, and what lines of them match
    profiles/   profiles of many ranks

A node is started by the launcher that the job already uses, on every machine, in the
PID namespace of the ranks. It has no rules; those are part of a question.
"""
