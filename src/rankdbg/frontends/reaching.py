"""From the options of a command line to a session."""

from __future__ import annotations

import argparse
import os
import sys
import threading
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
    targets = options.target or _default_target()
    session = Session(targets, options.timeout, reach)
    session.maps = path_maps.parse(options.map)
    if sys.stderr.isatty():
        session.progress = Progress(elsewhere=targets != ["local"])
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
    """A line that says how many nodes have answered, if that takes its time. `elsewhere`: to reach
    them takes its time too, over a slow line and the first time most of all."""

    PATIENCE = 0.5
    PATIENCE_AT_FIRST = 3.0

    def __init__(self, elsewhere: bool = False) -> None:
        self._begun = time.monotonic()
        self._shown = False
        self._is_first = elsewhere
        line = "no node has answered yet"
        if os.environ.get("RANKDBG_KEEP") != "1":
            line += "; if the line is slow: export RANKDBG_KEEP=1"
        self._at_first = threading.Timer(self.PATIENCE_AT_FIRST, self._show, [line])
        self._at_first.daemon = True

    def __call__(self, done: int, nodes: int) -> None:
        if done == 0:
            self._begun = time.monotonic()
            if self._is_first:
                self._is_first = False
                self._at_first.start()
            return
        self._at_first.cancel()
        if done < nodes and time.monotonic() - self._begun > self.PATIENCE:
            self._show(f"{done} of {nodes} nodes have answered")
        elif self._shown:
            self._shown = False
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _show(self, line: str) -> None:
        self._shown = True
        sys.stderr.write(f"\r{line}\x1b[K")
        sys.stderr.flush()
