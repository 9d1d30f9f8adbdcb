"""Containers that ended with an error, as `kubectl describe` tells it in several lines.

    State:          Terminated
      Reason:       Error
      Exit Code:    137
      Finished:     Tue, 17 Nov 2026 17:04:26 +0000

The end is a failure where it was the last: of a container that runs again, or that has finished
since, it was not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rankdbg.logs.patterns import FileScan, Hit
from rankdbg.types import ContainerFailure
from rankdbg.verdicts.failures.pod_failures import describe, mode_of
from rankdbg.verdicts.rules import clues

_FIELD = re.compile(r"^ {6}(Reason|Exit Code|Finished): {2,}(.+?)\s*$")
_NEXT = re.compile(r"^ {0,4}\S")  # what follows no longer belongs to the state
# Tue, 17 Nov 2026 17:04:26 +0000
_CLOCK = re.compile(r"^\w{3}, (\d{2}) (\w{3}) (\d{4}) (\d\d:\d\d:\d\d) ([+-]\d\d)(\d\d)$")
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_TOLD = "OOMKilled"  # has a rule for its line


def with_container_ends(scans: Sequence[FileScan]) -> list[FileScan]:
    """The same, with a line about each container that has failed."""
    return [_with_ends(scan) if any(map(_is_state, scan.hits)) else scan for scan in scans]


def _with_ends(scan: FileScan) -> FileScan:
    hits = [*(_dated(hit, scan.hits) for hit in scan.hits), *_ends(scan)]
    return replace(scan, hits=tuple(sorted(hits, key=lambda hit: hit.offset)))


def _is_state(hit: Hit) -> bool:
    return hit.pattern == clues.CONTAINER


def _dated(hit: Hit, hits: Sequence[Hit]) -> Hit:
    """The line that says why a container has ended, with the clock of one of the next lines."""
    if _TOLD not in hit.text or not _FIELD.match(hit.text):
        return hit
    above = [state for state in hits if _is_state(state) and state.offset < hit.offset]
    stamp = _stamp(_fields(above[-1]).get("Finished", "")) if above else ""
    return hit._replace(text=f"{stamp} {hit.text.strip()}", stamp=stamp) if stamp else hit


def _ends(scan: FileScan) -> Iterator[Hit]:
    current, complete = "", _complete(scan.hits)
    for hit in scan.hits:
        found = clues.find(clues.CONTAINER_STATE, hit.text)
        if hit.pattern != clues.CONTAINER or not found:
            continue
        if not found["last"]:
            current = found["state"]
        # One that waits to be started again has ended in vain.
        over = current if found["last"] else "Waiting"
        done = complete.get(_pod_above(scan.hits, hit), "")
        # Once a container of the pod has done its work, the others are only ended.
        if done and done <= _stamp(_fields(hit).get("Finished", "")):
            continue
        if found["state"] == "Terminated" and over == "Waiting":
            yield from _failed(hit)


def _complete(hits: Sequence[Hit]) -> dict[int, str]:
    """When the first container of each pod has ended well; pods by where their descriptions begin."""
    found: dict[int, str] = {}
    for hit in filter(_is_state, hits):
        told = _fields(hit)
        state = clues.find(clues.CONTAINER_STATE, hit.text)
        if _prepares(hits, hit):
            continue
        if state and not state["last"] and told.get("Reason") == "Completed":
            pod, stamp = _pod_above(hits, hit), _stamp(told.get("Finished", ""))
            found[pod] = min(stamp, found.get(pod, stamp))
    return found


def _prepares(hits: Sequence[Hit], state: Hit) -> bool:
    """Whether it is the state of a container that only runs before the others."""
    above = [h for h in hits if h.pattern == clues.CONTAINERS and h.offset < state.offset]
    found = clues.find(clues.CONTAINERS_LINE, above[-1].text) if above else None
    return bool(found and found["init"])


def _pod_above(hits: Sequence[Hit], state: Hit) -> int:
    names = (hit.offset for hit in hits if clues.find(clues.DESCRIBED, hit.text))
    return max((offset for offset in names if offset < state.offset), default=-1)


def _failed(hit: Hit) -> Iterator[Hit]:
    told = _fields(hit)
    code, reason = told.get("Exit Code", ""), told.get("Reason", "")
    if not code.isdigit() or code == "0" or reason == _TOLD:
        return
    failure = ContainerFailure("", "", "", reason or "Error", int(code))
    text, stamp = describe(failure), _stamp(told.get("Finished", ""))
    mode = f"failure:{mode_of(failure)}"
    yield Hit(mode, hit.line, hit.offset, f"{stamp} {text}".strip(), hit.head, stamp or hit.stamp)


def _fields(state: Hit) -> dict[str, str]:
    told: dict[str, str] = {}
    for line in state.after:
        if _NEXT.match(line):
            break
        if field := _FIELD.match(line):
            told[field[1]] = field[2]
    return told


def _stamp(text: str) -> str:
    """As most logs write it, with the zone."""
    found = _CLOCK.match(text)
    if not found or found[2] not in _MONTHS:
        return ""
    month = _MONTHS.index(found[2]) + 1
    return f"{found[3]}-{month:02}-{found[1]}T{found[4]}{found[5]}:{found[6]}"
