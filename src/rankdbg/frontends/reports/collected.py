"""What came home, from where, and what did not."""

from __future__ import annotations

import sys
from collections import Counter

from rankdbg.frontends.reports.rows import print_wrapped
from rankdbg.frontends.terminal import Terminal, cut_path
from rankdbg.investigations.nodes.collected_files import CollectedFiles
from rankdbg.text.escapes import visible_line

_WORDS = {"crash": "crash file", "included": "other file"}
_MOST_LEFT = 20


class CopyProgress:
    """One line on stderr for what has come since the last."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], int] = {}

    def __call__(self, collected: CollectedFiles) -> None:
        written = {(o.file.node, o.file.path): o.written for o in collected.outcomes}
        new = [more for key, size in written.items() if (more := size - self._told.get(key, 0)) > 0]
        self._told = written
        if new:
            sys.stderr.write(f"collected {_count(len(new), 'file')}, {_size(sum(new))}\n")
            sys.stderr.flush()


def print_collected(terminal: Terminal, collected: CollectedFiles) -> None:
    if not collected.outcomes and collected.lost:
        terminal.print("nothing was collected")
    elif not collected.outcomes:
        terminal.print("these ranks have left no profiles, dumps or logs")
        terminal.print("  hint: --include GLOB names others, from a rank's working directory")
    else:
        _print_totals(terminal, collected)
    left = collected.left
    for outcome in left[:_MOST_LEFT]:
        why = f"  ({outcome.why})"
        place = f"{outcome.file.node}:{outcome.file.path}"
        path = cut_path(place, max(30, terminal.width - len("left: ") - len(why)))
        terminal.print(f"{terminal.red('left:')} {path}{why}")
    if len(left) > _MOST_LEFT:
        terminal.print(f"left: {len(left) - _MOST_LEFT} more; --json has all")
    if any(outcome.state == "growing" for outcome in left):
        terminal.print("  hint: --follow 30 waits for what is still being written")
    for node, why in collected.lost.items():
        print_wrapped(terminal, f"no response: node {node}  ({why})")
    for note in collected.notes:
        print_wrapped(terminal, f"note: {note}")


def _print_totals(terminal: Terminal, collected: CollectedFiles) -> None:
    new = collected.new
    there = sum(outcome.state == "there" for outcome in collected.outcomes)
    size = _size(sum(outcome.written for outcome in new))
    also = f"; {there} were there already" if there else ""
    where = collected.destination
    terminal.print(f"collected {_count(len(new), 'file')}, {size}, into {where}{also}")
    nodes = sorted({outcome.file.node for outcome in new})
    width = max((len(visible_line(node)) for node in nodes), default=0)
    for node in nodes:
        kinds = Counter(o.file.kind for o in new if o.file.node == node)
        words = [_count(number, _WORDS.get(kind, kind)) for kind, number in kinds.items()]
        terminal.print(f"  {visible_line(node):{width}}  {', '.join(words)}")


def _count(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")


def _size(size: int) -> str:
    number = float(size)
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" or number >= 10 else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"
