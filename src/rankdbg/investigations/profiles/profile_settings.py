"""What a profile records by default."""

from __future__ import annotations

from rankdbg.errors import BadInput
from rankdbg.wire.node_questions import BeginProfile

KINDS = ("cpu", "torch", "memory", "nsys")
RATE, NATIVE_RATE = 100, 20
# Of the time, by --native, unless --rate says otherwise: ranks with many threads are then looked
# at less often.
MOST_STOPPED = 0.05


def profile_settings(
    kind: str, seconds: float, rate: int | None, native: bool, stack: bool
) -> BeginProfile:
    """Raises BadInput."""
    if kind not in KINDS:
        raise BadInput(f"invalid kind {kind!r}: expected one of {', '.join(KINDS)}")
    for given, option in ((rate, "rate"), (native, "native")):
        if given and kind != "cpu":
            raise BadInput(f"--{option} needs --kind cpu")
    if stack and kind != "torch":
        raise BadInput("--stack needs --kind torch")
    return BeginProfile(
        kind=kind,
        seconds=seconds,
        rate=rate or (NATIVE_RATE if native else RATE),
        native=native,
        most_stopped=None if rate else MOST_STOPPED,
        stack=stack,
    )
