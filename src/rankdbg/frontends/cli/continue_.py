"""Let stopped ranks go on.

rankdbg continue             all of them
rankdbg continue tp=0        these
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
