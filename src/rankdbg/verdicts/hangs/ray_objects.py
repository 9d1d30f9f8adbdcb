"""A wait for an object that Ray has spilled to the disk of another node: where it is, and what keeps it
there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rankdbg.text.amounts import in_bytes
from rankdbg.verdicts.hangs import ray_causes
from rankdbg.verdicts.hangs.accusations import Accusation
from rankdbg.verdicts.hangs.hang_rules import ROLES, HangRule
from rankdbg.verdicts.waits.ray_waits import RayEvidence, WaitEnd
from rankdbg.verdicts.waits.wait_links import Link, Party, ProcessPlace, process_at
from rankdbg.wire.ray_tables import RayFileWait, Raylet, RayPull

# An object's id ends with the id of its job, and a number.
_JOB = slice(40, 48)
# Ray asks again after ten seconds, and then after twice as long each time: after 70 seconds.
MANY_RETRIES = 3
# A raylet that has read as much since the first look may be reading this object.
READS = 1 << 20


@dataclass(frozen=True)
class SpilledWait:
    """The end of a wait, at an object that a node pulls from another one."""

    end: WaitEnd  # with the chain to the raylet
    pull: RayPull
    to: str  # the name of the node that pulls it
    host: str  # of the node that has it
    stuck: RayFileWait | None  # the raylet's wait for the file, in both looks
    reads: bool  # the raylet has read something since the first look

    @property
    def has_cause(self) -> bool:
        return self.stuck is not None or (not self.reads and self.pull.retries >= MANY_RETRIES)

    def accusation(self) -> Accusation | None:
        if not self.has_cause:
            return None
        rule = ray_causes.NOT_SENT if self.stuck is None else ray_causes.READS_FILE
        words = {
            "file": self.pull.file,
            "object": _name(self.pull),
            "to": self.to,
            "host": self.host,
            "requests": str(self.pull.retries + 1),
            "call": self.stuck.call if self.stuck else "",
        }
        return _accuse(rule, self.end, words)


def _accuse(rule: HangRule, end: WaitEnd, words: dict[str, str]) -> Accusation:
    says, fix = rule.says.format_map(words), rule.fix.format_map(words)
    level = ROLES.index(rule.role)
    chain = end.links
    return Accusation(
        rule.cause, (), (), says, rule.why, fix, level, party=chain[-1].whom, chain=chain
    )


def find(ray: RayEvidence, end: WaitEnd) -> SpilledWait | None:
    """What nodes pull of the objects for which it waits; of those of its job, where these are not
    known: which arguments a task waits for is not."""
    for node, pull in _pulls(ray):
        meant = pull.object in end.objects if end.objects else pull.object[_JOB] in _jobs(ray, end)
        if not meant:
            continue
        holder = ray.raylets.get(pull.node)
        if not pull.url and (holder := _blocked(ray, node)):
            wait = _stuck(ray, holder)[0]
            pull = replace(pull, url=wait.file, node=holder.node)
        to = ray.tables.host.get(node, node[:8])
        if holder is not None and node != pull.node:
            return _describe(ray, end, pull, to, holder)
        if not pull.url:
            pulled = Party("object", pull.object, f"{_name(pull)}, which is pulled to {to}")
            return SpilledWait(
                replace(end, links=_to_object(end, pulled)), pull, to, "", None, True
            )
    return None


def _blocked(ray: RayEvidence, other: str) -> Raylet | None:
    """Of another node, if it has waited for a file of spilled objects since the first look."""
    others = [raylet for node, raylet in ray.raylets.items() if node != other]
    return next((raylet for raylet in others if _stuck(ray, raylet)), None)


def _stuck(ray: RayEvidence, raylet: Raylet) -> list[RayFileWait]:
    before = ray.raylets_before.get(raylet.node)
    return [wait for wait in raylet.waits if before is not None and wait in before.waits]


def _pulls(ray: RayEvidence) -> Iterator[tuple[str, RayPull]]:
    for node, raylet in ray.raylets.items():
        for pull in raylet.pulls:
            yield node, pull


def _jobs(ray: RayEvidence, end: WaitEnd) -> set[str]:
    return {*ray.drivers.values(), *([end.task.job] if end.task else [])}


def _describe(
    ray: RayEvidence, end: WaitEnd, pull: RayPull, to: str, holder: Raylet
) -> SpilledWait:
    host = ray.tables.host.get(holder.node, holder.node[:8])
    before = ray.raylets_before.get(holder.node)
    reads = before is not None and holder.read - before.read > READS
    # Long paths are cut.
    stuck = [wait for wait in _stuck(ray, holder) if pull.file.startswith(wait.file)]
    wait = stuck[0] if stuck else None
    links = _links(end, pull, to, host, holder, wait)
    return SpilledWait(replace(end, links=links), pull, to, host, wait, reads)


def _links(
    end: WaitEnd, pull: RayPull, to: str, host: str, holder: Raylet, wait: RayFileWait | None
) -> tuple[Link, ...]:
    """Up to the raylet. The object is named by where it is."""
    size = f"{in_bytes(pull.size)}, " if pull.size else ""
    spilled = Party("object", pull.object, f"{_name(pull)}, {size}spilled on {host}")
    raylet = process_at(
        ProcessPlace(host, holder.pid), f"Ray's raylet (pid {holder.pid} on {host})"
    )
    links = _to_object(end, spilled)
    asked = f"Ray: node {to} has requested it {pull.retries + 1} times"
    facts = [asked if pull.retries else f"Ray: node {to} has requested it"]
    facts += [f"the raylet is in the system call {wait.call}, thread {wait.thread}"] if wait else []
    return (*links, Link(spilled, f"is pulled to {to}, and sent by", raylet, tuple(facts)))


def _to_object(end: WaitEnd, found: Party) -> tuple[Link, ...]:
    *before, last = end.links
    if end.party.kind == "object":
        return (*before, replace(last, whom=found))
    return (*end.links, Link(end.party, "needs as an argument", found))


def _name(pull: RayPull) -> str:
    return f"object {pull.object[:16]}…"
