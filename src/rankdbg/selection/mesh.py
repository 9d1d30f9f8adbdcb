"""A mesh of ranks: `pp=2,dp=2,tp=2` -> the size of each dimension, and the coordinates of ranks."""

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
            what = f"invalid dimension {shortened(part[0])!r}: expected NAME=SIZE"
            raise MeshError(what, text, *part.span(), hint="for example: pp=2,dp=2,tp=2")
        name, size = match.groups()
        if name in LABELS:
            raise MeshError(f"{name} is reserved and cannot be a dimension", text, *match.span(1))
        if name in mesh:
            raise MeshError(f"{shortened(name)} given twice", text, *match.span(1))
        if len(size) > _MOST_DIGITS or int(size) < 1:
            raise MeshError(f"invalid size of {shortened(name)}", text, *match.span(2))
        mesh[name] = int(size)
    _check_size(mesh, text)
    return mesh


def coordinates(number: int, mesh: Mapping[str, int]) -> dict[str, int]:
    """The coordinates of a rank in a row-major mesh (the last dimension counts fastest)."""
    found: dict[str, int] = {}
    for name in reversed(list(mesh)):
        number, found[name] = divmod(number, mesh[name])
    # A remainder means outside of the mesh; a negative number leaves -1.
    return {name: found[name] for name in mesh} if number == 0 else {}


def roster(mesh: Mapping[str, int]) -> list[Rank]:
    """Ranks without a job, to try a selection on."""
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
        what = f"the mesh has more than {_MOST_RANKS:,} ranks"
        raise MeshError(what, text, 0, len(text))
