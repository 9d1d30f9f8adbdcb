"""Which processes of a job are ranks, and their numbers.

Not ranks are: launchers (torchrun, and whatever started ranks and got its own number
from the scheduler only), helpers (trackers, Ray's daemons, a script's small Pythons),
and the children of a rank, which inherit its environment and so its number.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from rankdbg import identity
from rankdbg.node.discovery import Process

Parent = Callable[[int], int]  # the parent of any process of the machine, 0 if unknown

# The program itself said so, or its very command line. All other sources are variables, which
# children inherit.
_SAID = ("init", "torch", "monarch")
_SCHEDULERS = ("openmpi", "pmi", "slurm")

# What multiprocessing's children run when they are somebody's helpers.
_HELPER_TARGETS = (
    "torch.utils.data",
    "multiprocessing.pool",
    "multiprocessing.managers",
    "concurrent.futures",
    "joblib.",
    "loky.",
)


def classify(found: list[Process], parent: Parent) -> None:
    """Sets `kind` and `number` of each process."""
    jobs: dict[str, list[Process]] = defaultdict(list)
    for process in found:
        process.kind = _kind_by_itself(process)
        process.number = _own_number(process)
        jobs[process.job].append(process)
    # The living last: a dead one's pid may be in use again.
    known = {process.pid: process for process in sorted(found, key=lambda p: p.alive)}
    for job in jobs.values():
        _Job(job, known, parent).classify()


def _kind_by_itself(process: Process) -> str:
    """What can be said about a process without a look at the others."""
    if "engine" in process.labels:
        return "helper" if identity.is_engine_helper(process.labels) else "rank"
    place = _multiprocessing(process)
    if place:
        # Not by its command line: a fork has that of its launcher or fork server.
        return "child" if str(place.get("target")).startswith(_HELPER_TARGETS) else "rank"
    return identity.known_kind(process.command) or "rank"


def _own_number(process: Process) -> int | None:
    """Its number, unless that is only inherited: who has a title (sglang::scheduler_TP0)
    was started by an engine, whose environment has the number of the engine."""
    engine = process.labels.get("engine")
    inherited = _SCHEDULERS if engine == "ray" else (*_SCHEDULERS, "torchrun")
    if engine and _source(process) in inherited:
        return None
    return _whole(process.labels.get("rank"))


class _Job:
    def __init__(self, members: list[Process], known: dict[int, Process], parent: Parent) -> None:
        self.members = members
        self._known = known
        self._parent = parent

    def classify(self) -> None:
        self._find_launchers()
        self._find_children()
        self._number_engines()
        self._number_the_unnumbered()
        self._name_the_others()
        self._settle_duplicates()

    def ranks(self) -> list[Process]:
        return [process for process in self.members if process.kind == "rank"]

    def numbered(self) -> list[Process]:
        return [process for process in self.ranks() if process.number is not None]

    def unnumbered(self) -> list[Process]:
        return [process for process in self.ranks() if process.number is None]

    def _pids_above(self, process: Process) -> Iterator[int]:
        """All from which it descends, nearest first, whether they are of the job or not."""
        seen = {process.pid}
        pid = process.ppid
        while pid > 1 and pid not in seen:
            seen.add(pid)
            yield pid
            pid = self._parent(pid)

    def _above(self, process: Process) -> Iterator[Process]:
        """The processes of this job from which this one descends, nearest first."""
        for pid in self._pids_above(process):
            ancestor = self._known.get(pid)
            if ancestor is not None and ancestor.job == process.job:
                yield ancestor

    def _find_launchers(self) -> None:
        """Who has a number from a weaker source than those that it started: what got it
        from the scheduler and started something with a RANK, or has the RANK of a machine
        and started several that torch knows by other numbers."""
        for process in self.numbered():
            for ancestor in self._above(process):
                if _strength(ancestor) < _strength(process) and (
                    _source(ancestor) in _SCHEDULERS
                    or (ancestor.number != process.number and process.labels.get("world") != 1)
                ):
                    ancestor.kind = "launcher"
        self._find_those_with_the_last_number()

    def _find_those_with_the_last_number(self) -> None:
        """Who sets its own RANK before it starts each rank keeps that of the last one. The last
        one has loaded no less; what a rank itself starts with its number has."""
        started: dict[int, list[Process]] = defaultdict(list)
        for process in self.numbered():
            started[process.ppid].append(process)
        for process in self.numbered():
            below = started[process.pid]
            if (
                _source(process) not in _SAID
                and len({each.number for each in below}) > 1
                and any(
                    each.number == process.number and each.modules >= process.modules > 0
                    for each in below
                )
            ):
                process.kind = "launcher"

    def _find_children(self) -> None:
        """A process with the number of one above it has inherited it."""
        for process in self.numbered():
            if any(
                a.kind != "launcher" and a.number == process.number for a in self._above(process)
            ):
                process.kind = "child"

    def _number_engines(self) -> None:
        """The innermost processes of an engine are its ranks: vLLM's EngineCore is one if
        it has started no workers."""
        engines = [process for process in self.ranks() if "engine" in process.labels]
        for process in engines:
            for ancestor in self._above(process):
                by_scheduler = ancestor.number is not None and _source(ancestor) in _SCHEDULERS
                if by_scheduler or ancestor.labels.get("engine", "ray") != "ray":
                    ancestor.kind = "launcher"
        chosen = [p for p in engines if p.kind == "rank" and p.number is None]
        groups: dict[str, list[Process]] = defaultdict(list)
        for process in chosen:
            # Each class of Ray's actors is a group of its own, as if it were a mesh.
            group = process.labels.get("role") if process.labels["engine"] == "ray" else ""
            groups[str(group)].append(process)
        for members in groups.values():
            _give_numbers(members, itertools.count())

    def _number_the_unnumbered(self) -> None:
        """Without any number multiprocessing's children are the ranks, or else the topmost
        processes. Where some have numbers already, the others of the same parent follow."""
        numbered = self.numbered()
        workers = [p for p in self.unnumbered() if _is_worker(p) and not self._worker_above(p)]
        if numbered:
            families = {process.ppid for process in numbered if _is_worker(process)}
            workers = [process for process in workers if process.ppid in families]
            world = max(_whole(process.labels.get("world")) or 0 for process in numbered)
            taken = {process.number for process in numbered}
            _give_numbers(workers, (number for number in range(world) if number not in taken))
        else:
            topmost = [
                p for p in self.unnumbered() if not any(a.kind == "rank" for a in self._above(p))
            ]
            _give_numbers(workers or topmost, itertools.count())

    def _worker_above(self, process: Process) -> bool:
        """A worker that calls os.fork() has a child that says to be the same worker."""
        return any(_is_worker(ancestor) for ancestor in self._above(process))

    def _name_the_others(self) -> None:
        ranks = {process.pid for process in self.numbered()}
        starters = {ancestor.pid for rank in self.numbered() for ancestor in self._above(rank)}
        for process in self.unnumbered():
            if process.pid in starters:
                process.kind = "launcher"
            elif any(ancestor.pid in ranks for ancestor in self._above(process)):
                process.kind = "child"
            else:
                process.kind = "helper"

    def _settle_duplicates(self) -> None:
        """A script that runs as rank 3 may start two Pythons, and both see RANK=3. The one
        that says so itself, or else the one that has loaded most, is the rank."""
        meshes = self._find_meshes()
        places: dict[tuple[object, ...], list[Process]] = defaultdict(list)
        for process in self.numbered():
            if process.alive and process.number == process.labels.get("rank"):
                role, mesh = str(process.labels.get("role")), meshes[process.key]
                places[process.number, role, mesh].append(process)
        for same in places.values():
            for process in sorted(same, key=_importance, reverse=True)[1:]:
                if _source(process) not in _SAID:
                    process.kind = "helper"
        self._drop_replaced(meshes)

    def _drop_replaced(self, meshes: dict[tuple[int, int], int]) -> None:
        """A dead rank whose place a living one has taken (a restart) is history."""
        living: dict[int | None, set[int]] = defaultdict(set)
        for process in self.numbered():
            if process.alive:
                living[process.number].add(meshes[process.key])
        for process in self.numbered():
            mesh, now = meshes[process.key], living[process.number]
            if not process.alive and now and (mesh in now or 0 in (mesh, *now)):
                process.kind = "helper"

    def _find_meshes(self) -> dict[tuple[int, int], int]:
        """Who started the ranks among which each one is: two torchruns in one job have a
        rank 3 each. The nearest launcher, or the nearest process (mpirun, a shell) that has
        ranks of several numbers below it; 0 if there is none."""
        below: dict[int, set[int | None]] = defaultdict(set)
        for process in self.numbered():
            for pid in self._pids_above(process):
                below[pid].add(process.number)
        launchers = {process.pid for process in self.members if process.kind == "launcher"}

        def is_starter(pid: int) -> bool:
            return pid in launchers or len(below[pid]) > 1

        return {
            process.key: next(filter(is_starter, self._pids_above(process)), 0)
            for process in self.numbered()
        }


def _give_numbers(processes: Iterable[Process], numbers: Iterable[int]) -> None:
    for process, number in zip(sorted(processes, key=_natural_order), numbers, strict=False):
        # Who has a place among those of all nodes is known to the launcher only.
        place = _whole(process.labels.get("place"))
        process.number = number if place is None else place


def _multiprocessing(process: Process) -> dict[str, object]:
    place = process.labels.get("multiprocessing")
    return place if isinstance(place, dict) else {}


def _is_worker(process: Process) -> bool:
    """A process that the main process of a program has started with multiprocessing."""
    return process.kind == "rank" and _multiprocessing(process).get("depth") == 1


def _natural_order(process: Process) -> tuple[object, ...]:
    coordinates = process.labels.get("coordinates")
    places = coordinates if isinstance(coordinates, dict) else {}
    return (
        [_whole(places.get(name)) or 0 for name in ("pp", "dp", "tp", "ep", "cp")],
        _whole(_multiprocessing(process).get("index")) or 0,
        process.start,
        process.pid,
    )


def _whole(value: object) -> int | None:
    """Labels come from files and from other versions: anything may be in them."""
    return value if type(value) is int else None


def _source(process: Process) -> str:
    return str(process.labels.get("source"))


def _strength(process: Process) -> int:
    source = _source(process)
    return -identity.SOURCES.index(source) if source in identity.SOURCES else 0


def _importance(process: Process) -> tuple[int, int, int]:
    return _strength(process), process.modules, -process.pid
