"""Interactive prompt: list, cast, attach, ask, where, ...

  rankdbg shell
  echo 'cast ranks(:) p x' | rankdbg shell

Starts with a list of the stopped ranks. Leaving the shell in any way keeps them stopped.
"""

from __future__ import annotations

import argparse

from rankdbg.frontends.cli import add_common


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.reaching import open_session
    from rankdbg.frontends.shell import run_shell

    with open_session(options) as session:
        session.reopens = session.warm = True
        return run_shell(session, options.job)
