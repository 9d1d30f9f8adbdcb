"""What was seen of a process, as evidence against it."""

from __future__ import annotations

from rankdbg.investigations.rank_labels import Paths
from rankdbg.text.amounts import duration
from rankdbg.verdicts.hangs.evidence import Seen
from rankdbg.verdicts.hangs.hang_rules import Sign


def of_process(seen: Seen, who: str, paths: Paths) -> list[str]:
    found = []
    if seen.place is not None:
        moved = "is moving in" if seen.moving else "is in"
        found.append(f"{who} {moved} {paths.text(seen.place)}")
    if seen.after.why and seen.state == seen.after.state:
        found.append(f"{who}: {seen.after.why}")
    elif seen.wait.call:
        on = f" on {seen.wait.on}" if seen.wait.on else ""
        found.append(f"{who} is in the system call {seen.wait.call}{on}")
    elif seen.active is not None:
        found.append(f"{who} was {'computing' if seen.active else 'idle'} by its dump")
    elif seen.computes:
        found.append(f"{who} used the CPU for {min(1.0, seen.busy):.0%} of the time")
    if seen.native_main:
        found.append(f"{who} is in {' < '.join(f.function for f in seen.native_main[:4])}")
    found += [f"GPU of {who}: {sign.text}" for sign in seen.gpus if sign.name != "busy"]
    found += [f"GPU of {who}: {kernel.sentence}" for kernel in seen.kernels]
    if seen.silence:
        found.append(f"{who}: {seen.silence}")
    return found


def age_of_child(sign: Sign) -> list[str]:
    """For how long the one runs for which it waits."""
    awaited = sign.seen.after.awaited
    named = [c for c in awaited if sign.child and c.pid == sign.child.seen.rank.pid]
    return [
        f"its child {child.pid} ({child.command or child.name}) started {duration(child.age)} ago"
        for child in (named or awaited)[:1]
        if child.age
    ]
