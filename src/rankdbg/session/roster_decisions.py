"""What the nodes said about their processes -> jobs, ranks and numbers, over all nodes.

Each node has decided for itself, to know which of its processes to look at. Only here all are
known: the numbers of an engine's workers on several nodes, a rank that was restarted on another
one, jobs without a name that meet at one address.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rankdbg.roster import jobs, ranks
from rankdbg.roster.members import Ancestor, Member
from rankdbg.roster.nesting import surrounding_jobs
from rankdbg.wire.answers import ProcessEntry

_DEAD = ("gone", "zombie")


def decide(
    found: Sequence[tuple[str, ProcessEntry]],
) -> tuple[list[ProcessEntry], dict[str, str]]:
    """The same, each of a host, with `job`, `kind`, `number`, `generation` and role as decided; and
    which jobs run inside another."""
    if any(entry.above is None for _, entry in found):  # an older node or snapshot
        return [entry for _, entry in found], {}
    members = [_member(host, entry) for host, entry in found]
    jobs.name_elements(members)
    names = jobs.join_hosts(members)
    for member in members:
        member.made_up_job = names.get(member.made_up_job, member.made_up_job)
    jobs.join_schedulers(members)
    ranks.classify(members)
    entries = [_decided(entry, member) for (_, entry), member in zip(found, members, strict=True)]
    return entries, surrounding_jobs(members)


def _decided(entry: ProcessEntry, member: Member) -> ProcessEntry:
    """Copied only where that changes something: each node has decided most of it alike."""
    role = member.text("role")
    decided = (member.job, member.kind, member.number, member.generation, role)
    if decided == (entry.job, entry.kind, entry.number, entry.generation, entry.labels.role):
        return entry
    return replace(
        entry,
        job=member.job,
        kind=member.kind,
        number=member.number,
        generation=member.generation,
        labels=replace(entry.labels, role=role),
    )


def _member(host: str, entry: ProcessEntry) -> Member:
    labels = entry.labels.as_dict()
    if entry.named:
        labels["job"] = entry.job
    member = Member(
        entry.pid,
        entry.start,
        entry.ppid,
        entry.state not in _DEAD,
        labels,
        [*entry.command],
        host=host,
        modules=entry.modules,
    )
    member.above = tuple(Ancestor(*ancestor) for ancestor in entry.above or ())
    member.made_up_job = "" if entry.named else entry.job
    return member
