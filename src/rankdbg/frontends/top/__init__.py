"""A full-screen view of the jobs of a target.

reading.py   asks the target, in threads: keys never wait for it
pages.py     what `why`, `stacks` and `logs` show of a job or of some of its ranks
views.py     where the user is: which view, which row, which filter
tables.py    jobs, groups of ranks and ranks as rows
drawing.py   all of it as lines of styled text: without a terminal
keys.py      what a key does
screen.py    the terminal: alternate screen, keys, signals
"""
