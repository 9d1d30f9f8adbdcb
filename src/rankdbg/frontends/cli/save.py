"""Save the current state as a snapshot, to look at later or elsewhere.

  rankdbg save DIR
  rankdbg stacks -t snapshot:DIR
  rankdbg ask all loss -t snapshot:DIR        variables that were saved
  rankdbg why -t snapshot:DIR                 the verdict at that moment
  rankdbg save DIR --html FILE                and a page to look at

Saves the list of ranks, the stacks of all threads with their variables, versions,
command lines and the environment as plain files that only you can read. Values
that look like secrets are masked. The job is watched as `why` watches it: for a
second, longer where needed.
"""

from __future__ import annotations

import argparse
from functools import partial

from rankdbg.frontends.cli import add_common
from rankdbg.frontends.cli.html_option import add_html, check_html, write_html
from rankdbg.frontends.reports.documents import print_json
from rankdbg.frontends.terminal import Terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", help="a new directory")
    add_common(parser)
    add_html(parser)


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.reaching import open_session
    from rankdbg.investigations.saved_jobs import save_job

    check_html(options)
    with open_session(options) as session:
        saved = save_job(session, options.job, options.directory)
        target, when = session.cluster.target, session.cluster.saved
    if options.json:
        print_json("save", saved.as_json())
    else:
        terminal = Terminal()
        terminal.print(saved.summary())
        terminal.print(saved.how_to_open())
    if options.html is not None and saved.found is not None:
        from rankdbg.frontends.html.job_document import document_of

        write_html(options, partial(document_of, saved.found), "save", target, when)
    return 0
