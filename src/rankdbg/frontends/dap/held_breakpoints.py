"""Breakpoints that an editor has set in a rank and that do not take effect yet.

An editor sets them session by session. In a rank that had its breakpoints before the others it
would stop alone, while the others run past theirs into a collective. So the editor is answered at
once (`verified: false`), the rank gets them when all ranks are ready, and the editor then gets the
result of each (an event `breakpoint`), with the number that it knows.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from rankdbg.frontends.dap.protocol import FIRST_OWN_SEQ, Message

_WAITS = "takes effect with the breakpoints of the other ranks"


class HeldBreakpoints:
    def __init__(self) -> None:
        self.are_held = True
        self._requests: dict[str, Message] = {}  # the last for each file counts
        self._numbers = itertools.count(FIRST_OWN_SEQ)  # not debugpy's, which begin at 0
        self._ours: dict[int, list[int]] = {}  # request -> the numbers of its breakpoints
        self._by_theirs: dict[int, int] = {}

    def hold(self, request: Message) -> dict[str, Any]:
        """The body of the response for now."""
        arguments = request.get("arguments") or {}
        wanted = arguments.get("breakpoints") or []
        numbers = [next(self._numbers) for _ in wanted]
        answers = [
            {"id": number, "verified": False, "message": _WAITS, **_line(each)}
            for number, each in zip(numbers, wanted, strict=True)
        ]
        path = str((arguments.get("source") or {}).get("path"))
        self._requests[f"{request['command']} {path}"] = request
        self._ours[request["seq"]] = numbers
        return {"breakpoints": answers}

    def release(self) -> list[Message]:
        """The requests for the rank. Nothing is held from now on."""
        self.are_held = False
        requests, self._requests = list(self._requests.values()), {}
        return requests

    def verified(self, request: Message, told: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The results of a request's breakpoints from the rank, with the editor's numbers."""
        ours = self._ours.pop(request["seq"], [])
        answers = list(zip(ours, told, strict=False))
        self._by_theirs |= {each["id"]: number for number, each in answers if "id" in each}
        return [{**each, "id": number} for number, each in answers]

    def renumbered(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """A breakpoint, or a stop at some, with the numbers that the editor knows."""
        shown = dict(told)
        if "id" in shown:
            shown["id"] = self._by_theirs.get(shown["id"], shown["id"])
        if hits := shown.get("hitBreakpointIds"):
            shown["hitBreakpointIds"] = [self._by_theirs.get(hit, hit) for hit in hits]
        return shown


def _line(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Breakpoints on functions have none."""
    return {"line": wanted["line"]} if "line" in wanted else {}
