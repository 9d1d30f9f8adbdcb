"""Staying beside a job: cheap looks while it goes on, everything that can be seen when it hangs.

settings.py     what a job file or the command line asks for
stillness.py    who has come on since the last look
watcher.py      the loop
collecting.py   the files that a collection writes
telling.py      a command or a webhook that is told
"""
