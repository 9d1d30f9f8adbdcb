"""Monitoring of a job: cheap polls while it runs, full evidence when it hangs.

watcher.py         the loop
watch_settings.py  settings from a job file or the command line
reconnecting.py    its session, reopened if needed
collections.py     the files that a collection writes
notifying.py       the --notify command and the webhook
"""
