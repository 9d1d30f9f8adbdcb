"""From the options of a command line to a session."""

from __future__ import annotations

import argparse
import os
import sys
import time

from rankdbg import path_maps
from rankdbg.session import Session


def open_session(options: argparse.Namespace) -> Session:
    from rankdbg.clusters import Options

    reach = Options(
        python=options.python,
        container=options.container,
        context=options.context,
        kubectl=options.kubectl,
        srun=tuple(options.srun),
    )
    session = Session(options.target or _default_target(), options.timeout, reach)
    session.maps = path_maps.parse(options.map)
    if sys.stderr.isatty():
        session.progress = Progress()
    return session


def _default_target() -> list[str]:
    named = os.environ.get("RANKDBG_TARGET", "").split()
    if named:
        return named
    from rankdbg.clusters import here

    found = here.find_target(os.environ)
    if found is None:
        return ["local"]
    target, why = found
    sys.stderr.write(f"target: {target} ({why}; -t local for this machine alone)\n")
    return [target]


class Progress:
    """A line that says how many nodes have answered, if that takes its time."""

    PATIENCE = 0.5

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._shown = False

    def __call__(self, done: int, nodes: int) -> None:
        if done == 0:
            self._begun = time.monotonic()
        elif done < nodes and time.monotonic() - self._begun > self.PATIENCE:
            self._shown = True
            sys.stderr.write(f"\r{done} of {nodes} nodes have answered\x1b[K")
        elif self._shown:
            self._shown = False
            sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
