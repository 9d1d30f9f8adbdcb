"""Save the current state as a snapshot, to look at later or elsewhere.

  rankdbg save DIR
  rankdbg stacks -t snapshot:DIR
  rankdbg ask all loss -t snapshot:DIR        variables that were saved
  rankdbg why -t snapshot:DIR                 the verdict at that moment

Saves the list of ranks, the stacks of all threads with their variables, versions,
command lines and the environment as plain files that only you can read. Values
that look like secrets are masked. The job is watched as `why` watches it: for a
second, longer where needed.
"""

from __future__ import annotations

import argparse

from rankdbg.frontends.cli import add_common
from rankdbg.frontends.reports.documents import print_json
from rankdbg.frontends.terminal import Terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", help="a new directory")
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.reaching import open_session
    from rankdbg.investigations.saved_jobs import save_job

    with open_session(options) as session:
        saved = save_job(session, options.job, options.directory)
    if options.json:
        print_json("save", saved.as_json())
    else:
        terminal = Terminal()
        terminal.print(saved.summary())
        terminal.print(saved.how_to_open())
    return 0
