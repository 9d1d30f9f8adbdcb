"""Code that differs between ranks, or from what is here: a warning on stderr."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rankdbg.frontends.terminal import Terminal
from rankdbg.investigations.stops.stop_sources import SourceDifference
from rankdbg.types import Rank


def warn_of_differences(differences: Sequence[SourceDifference], all_ranks: Sequence[Rank]) -> None:
    terminal = Terminal(sys.stderr)
    for difference in differences:
        sys.stdout.flush()
        terminal.print(f"{terminal.bold('warning:')} {difference.sentence(all_ranks)}")
