"""Which processes are one job, where neither launcher, scheduler nor user has given it a name.

A process belongs to the job of the nearest process above it that is a launcher or may be a rank:
the children of a rank inherit its number, whatever they execute, and a shell between a launcher
and a rank changes nothing. Without any of these, the processes of one script below an ancestor
that has started several numbers are a job (a loop in a shell).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from rankdbg.process import identity
from rankdbg.roster.members import Ancestor, Member, Place, by_place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from rankdbg.process.named_tuples import NamedTuple

_LOOPBACK = ("127.", "localhost", "::1")


class _Family(NamedTuple):
    """The processes below one top process."""

    top: int
    script: str = ""  # of all of them; empty: that of the ranks
    job: str = ""  # the name that an ancestor was given


def name_unnamed(members: Sequence[Member]) -> None:
    """Set `made_up_job` of each member without a given name."""
    _drop_jobs_around(members)
    families: dict[tuple[str, _Family], list[Member]] = defaultdict(list)
    find = _FamilyFinder(members)
    for member in members:
        if not member.given_job:
            families[member.host, find.family(member)].append(member)
    for (_, family), together in families.items():
        name = family.job or f"{family.script or _script(together)}-{family.top:x}"
        for member in together:
            member.made_up_job = name
    join_schedulers(members)


def _drop_jobs_around(members: Sequence[Member]) -> None:
    """What a Ray actor has started inherits the variables of the Slurm job in which Ray runs: it is
    not a part of that job, but of Ray's, or has one of its own."""
    known = by_place([*members])
    for member in members:
        if identity.is_scheduled(member.given_job) and any(
            place in known and known[place].text("outer") == member.given_job
            for place in member.places_above
        ):
            member.labels = {n: v for n, v in member.labels.items() if n != "job"}


def _script(family: Sequence[Member]) -> str:
    """Of its ranks, not of their launcher."""
    numbered = [member for member in family if member.whole("rank") is not None]
    others = [member for member in family if not _is_launcher(member)]
    scripts = Counter(identity.script_name(m.command) for m in numbered or others or family)
    return scripts.most_common(1)[0][0]


def _is_launcher(member: Member) -> bool:
    return identity.known_kind(member.command) == "launcher"


def _is_started(member: Member) -> bool:
    """Whether this process of an engine was started with multiprocessing: it has a title instead
    of a command line."""
    _, form, _ = identity.invocation(member.command)
    return bool(member.text("engine")) and (form == "" or "multiprocessing" in member.labels)


class _FamilyFinder:
    def __init__(self, members: Sequence[Member]) -> None:
        self._known = by_place([*members])
        self._families: dict[int, _Family] = {}  # by id of the member
        self._jobs_below: dict[Place, set[str]] = defaultdict(set)  # given names
        # By ancestor and script: the numbers of the processes below it.
        self._below: dict[tuple[Place, str], set[int | None]] = defaultdict(set)
        for member in members:
            script = identity.script_name(member.command)
            for place in member.places_above:
                self._below[place, script].add(member.whole("rank"))
                if member.given_job:
                    self._jobs_below[place].add(member.given_job)

    def family(self, member: Member) -> _Family:
        found = self._families.get(id(member))
        if found is None:
            found = self._families[id(member)] = self._find(member)
        return found

    def _find(self, member: Member) -> _Family:
        if _is_launcher(member) and len(self._jobs_below[member.place]) == 1:
            # torchrun gives its run an identifier, and only its ranks have it.
            return _Family(0, job=min(self._jobs_below[member.place]))
        if member.text("engine"):
            return self._of_engine(member)
        top = member.pid if _is_launcher(member) else 0
        inherits = not top  # whether the environment of its launcher may have been overwritten
        for ancestor, above in self._ancestors(member):
            if above is not None and above.given_job and inherits:
                # Its own environment was overwritten, by a title perhaps.
                return _Family(0, job=above.given_job)
            if ancestor.program and ancestor.program not in identity.ENGINES:
                top = ancestor.pid
                inherits = inherits and above is None
            elif above is not None and above.alive:
                if top:  # a rank that has started a job of its own
                    break
                return self.family(above)
        if top:
            return _Family(top)
        return self._of_loop(member)

    def _of_engine(self, member: Member) -> _Family:
        """The topmost process of the engine; above workers that a program has started by itself
        (multiprocessing), that program."""
        engine, top, is_worker = member.text("engine"), member.pid, _is_started(member)
        for ancestor, above in self._ancestors(member):
            if above is not None and above.given_job:
                return _Family(0, job=above.given_job)
            if ancestor.program != engine:
                return _Family(ancestor.pid if is_worker else top, engine)
            top = ancestor.pid
            is_worker = above is not None and _is_started(above)
        return _Family(top, engine)

    def _ancestors(self, member: Member) -> Iterator[tuple[Ancestor, Member | None]]:
        for ancestor, place in zip(member.above, member.places_above, strict=True):
            yield ancestor, self._known.get(place)

    def _of_loop(self, member: Member) -> _Family:
        script = identity.script_name(member.command)
        for ancestor, place in zip(member.above, member.places_above, strict=True):
            if len(self._below[place, script] - {None}) > 1:
                return _Family(ancestor.pid, script)
        return _Family(member.ppid, script)


def join_schedulers(members: Sequence[Member]) -> None:
    """Dask's scheduler and workers are commands of their own. A scheduler without a given job belongs
    to the workers that name its address or its file; else to those that were started nearest to it
    (by one script); else to the only ones that a command has started, and not a program for itself.
    It stays alone where several jobs are as near."""
    workers = [member for member in members if identity.dask_part(member.command) == "worker"]
    by_command = [worker for worker in workers if len(worker.command) > 1]
    for member in members:
        if identity.dask_part(member.command) == "scheduler" and not member.given_job:
            near = (_that_name(member, workers), _started_nearest(member, workers), by_command)
            for jobs in ({worker.job for worker in found} for found in near):
                if len(jobs) == 1:
                    member.made_up_job = jobs.pop()
                    break


def _that_name(scheduler: Member, workers: Sequence[Member]) -> list[Member]:
    places = identity.dask_places(scheduler.command)
    return [worker for worker in workers if places & identity.dask_places(worker.command)]


def _started_nearest(scheduler: Member, workers: Sequence[Member]) -> list[Member]:
    for place in scheduler.places_above:
        if below := [worker for worker in workers if place in worker.places_above]:
            return below
    return []


def name_elements(members: Sequence[Member]) -> None:
    """An element of a Slurm array has two names. All of its processes get that of the array
    (slurm-17_3), also those that know its own number alone (a later `srun --jobid`)."""
    elements: dict[str, str] = {}
    for member in members:
        job = member.text("job")
        if identity.is_scheduled(job) and "_" in job:
            elements[_slurm_number(member)] = job
    for member in members:
        number = _slurm_number(member)
        if number in elements and member.text("job") == f"slurm-{number}":
            member.labels = {**member.labels, "job": elements[number]}


def _slurm_number(member: Member) -> str:
    environment = member.labels.get("environment")
    return str(environment.get("SLURM_JOB_ID", "")) if isinstance(environment, dict) else ""


def join_hosts(members: Sequence[Member]) -> dict[str, str]:
    """Jobs without a given name on several hosts that meet at the same address are one. Returns
    the name of the one with the lowest rank for each other name."""
    meeting: dict[tuple[str, str], list[Member]] = defaultdict(list)
    for member in members:
        address = member.text("rendezvous")
        if address and not member.given_job and not address.startswith(_LOOPBACK):
            meeting[address, identity.script_name(member.command)].append(member)
    names: dict[str, str] = {}
    for together in meeting.values():
        hosts: dict[str, set[int | None]] = defaultdict(set)
        for member in together:
            hosts[member.host].add(member.whole("rank"))
        if len(hosts) > 1 and sum(map(len, hosts.values())) == len(set().union(*hosts.values())):
            first = min(together, key=lambda m: (m.whole("rank") is None, m.whole("rank") or 0))
            names.update({m.job: first.job for m in together if m.job != first.job})
    return names
