"""A mesh of ranks: `pp=2,dp=2,tp=2` -> the size of each dimension, and who stands where."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import product
from math import prod

from rankdbg.errors import MeshError, shortened
from rankdbg.types import LABELS, ProcessKey, Rank

_PART = re.compile(r"\s*([^\W\d][\w.-]*)\s*=\s*(-?[0-9]+)\s*$")
_MOST_DIGITS = 99  # Python refuses to read integers of some thousand
_MOST_RANKS = 1_000_000


def parse(text: str) -> dict[str, int]:
    """`pp=2,dp=2,tp=2` -> the size of each dimension, slowest first."""
    mesh: dict[str, int] = {}
    for part in re.finditer(r"(?:^|(?<=,))[^,]*", text):
        match = _PART.match(text, *part.span())
        if not match:
            what = f"not a dimension and its size: {shortened(part[0]) or 'nothing'}"
            raise MeshError(what, text, *part.span(), hint="a mesh looks like pp=2,dp=2,tp=2")
        name, size = match.groups()
        if name in LABELS:
            raise MeshError(f"{name} cannot name a dimension", text, *match.span(1))
        if name in mesh:
            raise MeshError(f"{shortened(name)} is named twice", text, *match.span(1))
        if len(size) > _MOST_DIGITS or int(size) < 1:
            raise MeshError(f"not a size for {shortened(name)}", text, *match.span(2))
        mesh[name] = int(size)
    _check_size(mesh, text)
    return mesh


def coordinates(number: int, mesh: Mapping[str, int]) -> dict[str, int]:
    """Where a rank stands in a row-major mesh (the last dimension counts fastest)."""
    found: dict[str, int] = {}
    for name in reversed(list(mesh)):
        number, found[name] = divmod(number, mesh[name])
    # What is left over lies outside; a negative number leaves -1.
    return {name: found[name] for name in mesh} if number == 0 else {}


def roster(mesh: Mapping[str, int]) -> list[Rank]:
    """The ranks of a job that does not run, to try a selection on."""
    _check_size(mesh, ",".join(f"{name}={size}" for name, size in mesh.items()))
    points = product(*(range(size) for size in mesh.values()))
    world = prod(mesh.values())
    return [
        Rank(
            ProcessKey("", number, 0),
            job="",
            number=number,
            world=world,
            coordinates=dict(zip(mesh, point, strict=True)),
        )
        for number, point in enumerate(points)
    ]


def _check_size(mesh: Mapping[str, int], text: str) -> None:
    if prod(mesh.values()) > _MOST_RANKS:
        what = f"a mesh of more than {_MOST_RANKS:,} ranks"
        raise MeshError(what, text, 0, len(text))
