"""Which processes are one job, which of them are its ranks, and what each is called.

Pure functions of facts about processes. A node applies them to its own processes, to know which to
look at; the session applies them once more to those of all nodes, and that decides.

    members       what is known about a process, and what is decided about it
    jobs          which processes are one job, and its name
    ranks         which are ranks, launchers, helpers and children, and their numbers
    nesting       which jobs run inside another
    generations   which ranks were replaced by a restart
"""
