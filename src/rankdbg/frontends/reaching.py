"""Opens a session from command-line options."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time

from rankdbg.frontends.terminal import Terminal
from rankdbg.session import Session, path_maps


def open_session(options: argparse.Namespace) -> Session:
    from rankdbg.session.targets import Options

    reach = Options(
        python=options.python,
        container=options.container,
        context=options.context,
        kubectl=options.kubectl,
        srun=tuple(options.srun),
        patience=options.patience,
    )
    targets = options.target or default_target()
    session = Session(targets, options.timeout, reach)
    session.maps = path_maps.parse(options.map)
    job = getattr(options, "job", None)
    options.job = session.cluster.aliases.get(job, job) if job else job
    if sys.stderr.isatty():
        session.progress = ProgressLine(elsewhere=targets != ["local"])
    return session


def default_target() -> list[str]:
    named = os.environ.get("RANKDBG_TARGET", "").split()
    if named:
        return named
    from rankdbg.session.targets import find_target

    found = find_target()
    if found is None:
        return ["local"]
    target, why = found
    sys.stderr.write(f"target: {target} ({why}; use -t local for this machine only)\n")
    return [target]


class ProgressLine:
    """A line with the number of nodes that have responded, if that takes long. `elsewhere`: nodes
    are remote; connecting is slow, especially the first time."""

    PATIENCE = 0.5
    PATIENCE_AT_FIRST = 3.0

    def __init__(self, elsewhere: bool = False) -> None:
        self._terminal = Terminal(sys.stderr)
        self._begun = time.monotonic()
        self._shown = False
        self._is_first = elsewhere
        line = "no node has responded yet"
        if os.environ.get("RANKDBG_KEEP") != "1":
            line += "; if the connection is slow: export RANKDBG_KEEP=1"
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
            self._show(f"{done} of {nodes} nodes have responded")
        elif self._shown:
            self._shown = False
            self._terminal.show_progress()

    def _show(self, line: str) -> None:
        self._shown = True
        self._terminal.show_progress(line)
