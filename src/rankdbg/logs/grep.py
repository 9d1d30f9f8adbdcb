"""Finds where literals may be in a block of a log, with the grep of the machine.

For nodes to which rankdbg was sent: they have no automaton module.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Collection, Iterator

_MATCH = re.compile(rb"^(\d+):(.*)$", re.MULTILINE)


class Grep:
    """All literals in one pass, 100 MB/s; as Grams, it tells regions."""

    def __init__(self, literals: Collection[bytes], program: str) -> None:
        self._literals = frozenset(literals)
        self._reach = max(map(len, literals), default=0)
        self._program = program
        self._patterns = os.fdopen(os.memfd_create("literals"), "wb", buffering=0)
        self._patterns.write(b"".join(literal + b"\n" for literal in literals))

    @staticmethod
    def of(literals: Collection[bytes]) -> Grep | None:
        """None without a grep, or with one that cannot report offsets."""
        program = shutil.which("grep")
        if program is None or not literals:
            return None
        grep = Grep(literals, program)
        literal = next(iter(literals))
        return grep if [*grep._places(b"\n" + literal)] == [(1, 1 + len(literal))] else None

    def only(self, literals: set[bytes]) -> Grep:
        return self if literals == self._literals else Grep(literals, self._program)

    def regions(self, block: memoryview, start: int, until: int) -> Iterator[tuple[int, int]]:
        """Parts of block[start:until] in which a literal may begin, in order and apart."""
        first = last = start
        for place, end in self._places(block[start : until + self._reach]):
            # Of literals that overlap only one is reported: the others begin around it.
            if start + place - self._reach > last:
                if first < last:
                    yield first, last
                first = start + place - self._reach
            last = min(until, start + end)
        if first < last:
            yield first, last

    def _places(self, part: bytes | memoryview) -> Iterator[tuple[int, int]]:
        """(begin, end) of the literals in it, of which none overlap."""
        if not self._literals:
            return
        patterns = self._patterns.fileno()
        found = subprocess.run(
            [self._program, "-F", "-a", "-b", "-o", "-f", f"/dev/fd/{patterns}"],
            input=part,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=[patterns],
            env={"LC_ALL": "C"},
            check=False,
        )
        if found.returncode > 1 or found.returncode < 0:
            yield 0, len(part)  # it was killed, or had no memory: all of it is to be looked at
            return
        for match in _MATCH.finditer(found.stdout):
            place = int(match[1])
            yield place, place + len(match[2])
