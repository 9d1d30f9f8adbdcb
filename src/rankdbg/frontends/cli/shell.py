"""A prompt for all of this: list, cast, attach, ask, where, ...

  rankdbg shell
  echo 'cast ranks(:) p x' | rankdbg shell

It opens on what is stopped. Leaving it, however that happens, leaves the stops as they are.
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
        session.reopens = True
        return run_shell(session, options.job)
