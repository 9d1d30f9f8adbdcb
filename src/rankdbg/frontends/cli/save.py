"""Keep everything that can be seen now, to look at later or elsewhere.

  rankdbg save DIR
  rankdbg stacks -t snapshot:DIR
  rankdbg ask all loss -t snapshot:DIR        variables that were saved

The roster, the stacks of all threads with their variables, versions, command lines and
the environment go into plain files that only you can read. What looks like a secret is
masked.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rankdbg.frontends.cli import add_common, print_json
from rankdbg.frontends.terminal import Terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", help="a new directory")
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.reaching import open_session

    with open_session(options) as session:
        ranks = session.job(options.job, where=True)
        session.collect_all(ranks)
        session.save(options.directory)
    files = [path for path in Path(options.directory).rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    if options.json:
        print_json("save", {"directory": options.directory, "ranks": len(ranks), "bytes": size})
    else:
        terminal = Terminal()
        terminal.print(f"saved {len(ranks)} ranks in {options.directory} ({size // 1024} KiB)")
        terminal.print(f"look again with: rankdbg stacks -t snapshot:{options.directory}")
    return 0
