"""Let stopped ranks continue.

rankdbg continue             all stopped ranks
rankdbg continue tp=0        these ranks
rankdbg continue thread=trainer     one thread, or one of several actors of a process
"""

from __future__ import annotations

import argparse

from rankdbg.frontends.cli import add_common


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser, ranks="optional")


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.cli import cast

    options.command = "continue"
    options.yes = False
    return cast.run(options)
