"""What PyTorch's flight recorder keeps of a rank: its dump as plain values -> a Trace.

Facts about dumps that the reading goes by (torch 2.4 to 2.13):

    state           stays `scheduled` on gloo; there `retired` says that an operation ended.
                    On NCCL `retired` without `completed` is one that has failed or timed out
    pg_config       has the members of NCCL's groups; on gloo one group '' without members
    pg_status       counts by pg_id, a number of the rank's own, not by the group's name
    numbers         are texts in the JSON form of pg_status; `ranks` is a text in both forms
    only active     a dump may have been asked for what is under way alone
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rankdbg.types import Frame

_POINT_TO_POINT = re.compile(r"(send|recv)\s*(\d+)\s*(->|<-)\s*(\d+)")
_MOST_FRAMES = 200

Sizes = tuple[tuple[int, ...], ...]
_V = TypeVar("_V")
_Known = dict[Any, Any]


@dataclass(frozen=True)
class Operation:
    """One collective, or one send or recv, as one rank has issued it."""

    group: str
    name: str  # all_reduce, send
    number: int  # counts the collectives of a group, or what it sent and received
    backend: str = ""
    point_to_point: bool = False
    ends: tuple[int, int] | None = None  # of send and recv: from, to; ranks of the group
    input_sizes: Sizes = ()
    output_sizes: Sizes = ()
    dtypes: tuple[str, ...] = ()
    state: str = "scheduled"
    finished: bool = False
    created: int = 0  # nanoseconds
    record: int = 0
    frames: tuple[Frame, ...] = ()  # innermost first


@dataclass(frozen=True)
class Trace:
    """What is known of one rank."""

    rank: int
    operations: tuple[Operation, ...] = ()  # in the order in which they were issued
    members: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # of its groups
    descriptions: Mapping[str, str] = field(default_factory=dict)
    entered: Mapping[str, int] = field(default_factory=dict)  # the last number, where it is known
    only_active: bool = False  # what has finished is not in it
    now: int = 0  # nanoseconds; 0: not known
    absent: str = ""  # why there is no evidence of this rank: "it left no dump"
    remark: str = ""  # about evidence that is empty: "it has not loaded torch.distributed"

    def pending(self, longer_than: float = 0.0) -> list[Operation]:
        """Not finished, the first issued first; and under way for so many seconds."""
        latest = self.now - longer_than * 1e9 if self.now else float("inf")
        return [op for op in self.operations if not op.finished and op.created <= latest]


class NotADump(ValueError):
    """A document that is no flight recorder's; the text says what is wrong with it."""


def read_trace(rank: int, documents: Sequence[Any], remark: str = "") -> Trace:
    """One or several dumps of a rank: NCCL and gloo have a recorder each, and a directory may
    hold the same dump twice. Raises NotADump."""
    found: dict[tuple[Any, ...], Operation] = {}
    members: dict[str, tuple[int, ...]] = {}
    descriptions: dict[str, str] = {}
    entered: dict[str, int] = {}
    known: _Known = {}
    for document in documents:
        if not isinstance(document, Mapping) or not isinstance(document.get("entries", []), list):
            raise NotADump("no dump of a flight recorder: it has no entries")
        if not {"entries", "pg_config", "pg_status"} & document.keys():
            raise NotADump("no dump of a flight recorder: it has neither entries nor groups")
        status = _statuses(document.get("pg_status"))
        for entry in document.get("entries", []):
            operation, description = _operation(entry, status, known)
            descriptions.setdefault(operation.group, description)
            same = (operation.group, operation.name, operation.number, operation.ends)
            key = (*same, operation.created, operation.record)
            if key not in found or operation.finished:
                found[key] = operation
        # `groups` is what an agent adds: gloo's recorder does not know who is in a group.
        for part in ("pg_config", "groups"):
            for name, (description, ranks) in _groups(document.get(part)).items():
                members[name] = ranks
                descriptions[name] = description
        entered |= _entered(document, status)
    ordered = sorted(found.values(), key=lambda op: (op.created, op.record))
    early = any(op.finished or op.record == 0 for op in ordered)
    return Trace(
        rank,
        tuple(ordered),
        members,
        {name: text for name, text in descriptions.items() if text not in ("", "undefined")},
        entered,
        only_active=not early and (bool(ordered) or any(n > 0 for n in entered.values())),
        now=max((_number(document.get("now_ns")) for document in documents), default=0),
        remark=remark,
    )


def _operation(
    entry: Any, status: Mapping[int, tuple[int, int]], known: _Known
) -> tuple[Operation, str]:
    if not isinstance(entry, Mapping):
        raise NotADump("an entry that is not a record of an operation")
    group = entry.get("process_group", entry.get("pg_id", ""))
    name, description = (
        group if isinstance(group, (list, tuple)) and len(group) == 2 else (group, "")
    )
    backend, _, title = _text(entry.get("profiling_name", "")).rpartition(":")
    match = _POINT_TO_POINT.search(title)
    is_point_to_point = bool(entry.get("is_p2p")) or match is not None
    key = "p2p_seq_id" if is_point_to_point else "collective_seq_id"
    state = _text(entry.get("state", ""))
    completed = status.get(_number(entry.get("pg_id"), -1), (-1, -1))[1]
    operation = Operation(
        group=_text(name),
        name=match[1] if match else title,
        number=_number(entry.get(key, entry.get("seq_id"))),
        backend=backend,
        point_to_point=is_point_to_point,
        ends=_ends(match) if match else None,
        input_sizes=_sizes(entry.get("input_sizes"), known),
        output_sizes=_sizes(entry.get("output_sizes"), known),
        dtypes=_dtypes(entry),
        state=state,
        # gloo's status counts what op_id counts; NCCL's does not.
        finished=state == "completed"
        or (backend != "nccl" and bool(entry.get("retired")))
        or (backend == "gloo" and 0 < _number(entry.get("op_id")) <= completed),
        created=_number(entry.get("time_created_ns")),
        record=_number(entry.get("record_id")),
        frames=_frames(entry.get("frames"), known),
    )
    return operation, _text(description)


def _ends(match: re.Match[str]) -> tuple[int, int]:
    first, second = int(match[2]), int(match[4])
    return (first, second) if match[3] == "->" else (second, first)


def _text(value: Any) -> str:
    """Of a plain value. To write out a list that holds one list twice, which holds one twice, and
    so on, never ends; and so do the digits of a number that fills the file."""
    is_number = isinstance(value, (int, float)) and abs(value) < 2**63
    return str(value) if isinstance(value, str) or value is None or is_number else "?"


def _number(value: Any, otherwise: int = 0) -> int:
    if isinstance(value, str) and len(value) > 20:
        return otherwise
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return otherwise
    return number if abs(number) < 2**63 else otherwise


def _sizes(value: Any, known: _Known) -> Sizes:
    if not isinstance(value, (list, tuple)):
        return ()
    tensors = [tensor if isinstance(tensor, (list, tuple)) else [tensor] for tensor in value]
    return _once(tuple(_once(tuple(map(_number, tensor)), known) for tensor in tensors), known)


def _once(value: _V, known: _Known) -> _V:
    """The equal one that is there already: a job's stacks and sizes are the same few many times."""
    same: _V = known.setdefault(value, value)
    return same


def _dtypes(entry: Mapping[str, Any]) -> tuple[str, ...]:
    found = [entry.get(key) for key in ("input_dtypes", "output_dtypes")]
    names = {_text(name) for some in found if isinstance(some, (list, tuple)) for name in some}
    return tuple(sorted(names))


def _frames(value: Any, known: _Known) -> tuple[Frame, ...]:
    if not isinstance(value, (list, tuple)):
        return ()
    frames = (
        Frame(_text(f.get("name")), _text(f.get("filename")), _number(f.get("line")))
        for f in value[:_MOST_FRAMES]
        if isinstance(f, Mapping)
    )
    return _once(tuple(_once(frame, known) for frame in frames), known)


def _groups(config: Any) -> dict[str, tuple[str, tuple[int, ...]]]:
    """name -> description, members. gloo's nameless group without members says nothing."""
    found = {}
    for name, group in config.items() if isinstance(config, Mapping) else ():
        if isinstance(group, Mapping):
            said = group.get("ranks")
            listed = said if isinstance(said, (list, tuple)) else re.findall(r"\d+", _text(said))
            ranks = tuple(number for each in listed if 0 <= (number := _number(each, -1)) < 2**31)
            if ranks:
                found[_text(name)] = _text(group.get("desc", "")), ranks
    return found


def _statuses(status: Any) -> dict[int, tuple[int, int]]:
    """pg_id -> the numbers of the last that was enqueued, and of the last that has completed."""
    return {
        _number(identity, -1): (
            _number(counts.get("last_enqueued_collective"), -1),
            _number(counts.get("last_completed_collective"), -1),
        )
        for identity, counts in (status.items() if isinstance(status, Mapping) else ())
        if isinstance(counts, Mapping)
    }


def _entered(document: Mapping[str, Any], status: Mapping[int, tuple[int, int]]) -> dict[str, int]:
    """Group -> the number of the last operation that was enqueued, by pg_status alone: a rank
    may have entered a group long ago and have no entry of it.

    Ids and names are both given in the order in which groups are made, so that where there
    are as many of the one as of the other, they belong together; unless an entry says
    otherwise. gloo counts other things.
    """
    names = sorted(_groups(document.get("pg_config")), key=lambda name: (len(name), name))
    if len(names) != len(status) or not all(name.isdigit() for name in names):
        return {}
    by_id = dict(zip(sorted(status), names, strict=True))
    for entry in document.get("entries", ()):
        named = entry.get("process_group")
        name = named[0] if isinstance(named, (list, tuple)) and named else named
        if by_id.get(_number(entry.get("pg_id"), -1)) != _text(name):
            return {}
    return {by_id[identity]: enqueued for identity, (enqueued, _) in status.items()}


def all_ranks(traces: Iterable[Trace]) -> set[int]:
    """Those with evidence, and those that some rank has in a group."""
    found: set[int] = set()
    for trace in traces:
        found.add(trace.rank)
        found.update(*trace.members.values())
    return found
