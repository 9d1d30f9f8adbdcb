"""Which processes of a job are ranks, and their numbers.

Not ranks: launchers (torchrun, and processes that started ranks and have a number only
from the scheduler), helpers (trackers, Ray's daemons, small Pythons of a script), and
children of a rank, which inherit its environment and so its number.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from rankdbg.process import identity
from rankdbg.roster import generations
from rankdbg.roster.members import Member, Place, by_place

# From the program itself, or its command line. All other sources are variables, which children
# inherit.
_SAID = ("init", "torch", "jax", "monarch", "mpi")
_SCHEDULERS = ("openmpi", "pmi", "slurm")

# The functions of multiprocessing children that are helpers.
_HELPER_TARGETS = (
    "torch.utils.data",
    "multiprocessing.pool",
    "multiprocessing.managers",
    "concurrent.futures",
    "joblib.",
    "loky.",
)


def classify(members: Sequence[Member]) -> None:
    """Sets `kind`, `number` and `generation` of each process."""
    jobs: dict[str, list[Member]] = defaultdict(list)
    for process in members:
        process.kind = _kind_by_itself(process)
        process.number = _own_number(process)
        process.generation = 1
        jobs[process.job].append(process)
    known = by_place([*members])
    for job in jobs.values():
        _Job(job, known).classify()


def _kind_by_itself(process: Member) -> str:
    """The kind of a process, as far as it does not depend on the others."""
    if "engine" in process.labels:
        return "helper" if identity.is_engine_helper(process.labels) else "rank"
    place = _multiprocessing(process)
    if place:
        # Not by command line: a fork has that of its launcher or fork server.
        return "child" if str(place.get("target")).startswith(_HELPER_TARGETS) else "rank"
    return identity.known_kind(process.command) or "rank"


def _own_number(process: Member) -> int | None:
    """Its number, unless that is inherited: a process with a title (sglang::scheduler_TP0) was
    started by an engine, and its environment has the number of the engine."""
    engine = process.labels.get("engine")
    inherited = _SCHEDULERS if engine == "ray" else (*_SCHEDULERS, "torchrun")
    if engine and _source(process) in inherited:
        return None
    return process.whole("rank")


class _Job:
    def __init__(self, members: list[Member], known: dict[Place, Member]) -> None:
        self.members = members
        self._known = known

    def classify(self) -> None:
        self._leave_out_earlier_runs()
        self._find_launchers()
        self._find_first_rank()
        self._find_children()
        self._number_engines()
        self._number_the_unnumbered()
        self._name_the_others()
        self._name_steps()
        self._settle_duplicates()

    def ranks(self) -> list[Member]:
        return [process for process in self.members if process.kind == "rank"]

    def numbered(self) -> list[Member]:
        return [process for process in self.ranks() if process.number is not None]

    def unnumbered(self) -> list[Member]:
        return [process for process in self.ranks() if process.number is None]

    def _above(self, process: Member) -> Iterator[Member]:
        """Its ancestors in this job, nearest first."""
        for place in process.places_above:
            ancestor = self._known.get(place)
            if ancestor is not None and ancestor.job == process.job:
                yield ancestor

    def _leave_out_earlier_runs(self) -> None:
        """A job of Ray may be started again under its name: what has ended with an earlier driver is
        no rank. Its numbers say nothing, since those of Ray are counted. (What Ray itself tells of has
        a reason, and is of this run.)"""
        ray = [process for process in self.members if process.labels.get("engine") == "ray"]
        drivers = [process for process in ray if process.labels.get("part") == "driver"]
        for host in {driver.host for driver in drivers if driver.alive}:
            here = [driver for driver in drivers if driver.host == host]
            living = [driver for driver in here if driver.alive]
            began = min(driver.start for driver in living)
            launchers = {driver.ppid for driver in living if driver.ppid > 1}
            if any(d.start < began and d.ppid not in launchers for d in here if not d.alive):
                for process in ray:
                    dead = not process.alive and "dead" not in process.labels
                    if dead and process.host == host and process.start < began:
                        process.kind = "helper"

    def _find_launchers(self) -> None:
        """Processes whose number is from a weaker source than those of their children: from the
        scheduler, with children that have a RANK; or the RANK of a machine, with children to
        which torch gave other numbers."""
        for process in self.numbered():
            for ancestor in self._above(process):
                if _strength(ancestor) < _strength(process) and (
                    _source(ancestor) in _SCHEDULERS
                    or (ancestor.number != process.number and process.labels.get("world") != 1)
                ):
                    ancestor.kind = "launcher"
        self._find_those_with_the_last_number()

    def _find_those_with_the_last_number(self) -> None:
        """A launcher that sets its own RANK before it starts each rank keeps the last number. The
        last rank has loaded at least as much; a helper started by a rank has loaded less."""
        started = self._started()
        for process in self.numbered():
            below = started[process.place]
            if (
                _source(process) not in _SAID
                and len({each.number for each in below}) > 1
                and any(
                    each.number == process.number and each.modules >= process.modules > 0
                    for each in below
                )
            ):
                process.kind = "launcher"

    def _started(self) -> dict[Place, list[Member]]:
        """The numbered processes by their parent."""
        started: dict[Place, list[Member]] = defaultdict(list)
        for process in self.numbered():
            started[process.host, process.ppid].append(process)
        return started

    def _find_first_rank(self) -> None:
        """A program that starts itself again for the other ranks is their first (Lightning)."""
        started = self._started()
        for process in self.unnumbered():
            started_here = started[process.place]
            same = [p for p in started_here if identity.runs_again(p.command, process.command)]
            if same and min(p.number for p in same if p.number is not None) == 1:
                process.number = 0
                shared = {name: same[0].labels.get(name) for name in ("world", "source")}
                process.labels = {**process.labels, **shared, "rank": 0, "local_rank": 0}

    def _find_children(self) -> None:
        """A process with the number of an ancestor has inherited it."""
        for process in self.numbered():
            if any(
                a.kind != "launcher" and a.number == process.number for a in self._above(process)
            ):
                process.kind = "child"

    def _number_engines(self) -> None:
        """The innermost processes of an engine are its ranks: vLLM's EngineCore is a rank if it has
        no workers."""
        engines = [process for process in self.ranks() if "engine" in process.labels]
        for process in engines:
            for ancestor in self._above(process):
                by_scheduler = ancestor.number is not None and _source(ancestor) in _SCHEDULERS
                if by_scheduler or ancestor.labels.get("engine", "ray") != "ray":
                    ancestor.kind = "launcher"
        chosen = [p for p in engines if p.kind == "rank" and p.number is None]
        groups: dict[str, list[Member]] = defaultdict(list)
        for process in chosen:
            # Each class of Ray actors is numbered separately, like a mesh.
            group = process.labels.get("role") if process.labels["engine"] == "ray" else ""
            groups[str(group)].append(process)
        for members in groups.values():
            _give_numbers(members, itertools.count())
        spark = [p for p in self.members if p.labels.get("engine") == "spark"]
        if spark:
            self._settle_spark(spark)

    def _settle_spark(self, spark: Sequence[Member]) -> None:
        """A Spark worker that has ended keeps its number and is no rank: Spark ends workers that have
        nothing to do, and tells the driver of those that die. The driver, which waits for the workers,
        is above them, or was started by the same Java (spark-submit)."""
        above = {place for process in spark for place in process.places_above}
        started = {(p.host, a.pid) for p in spark for a in p.above if a.program == "spark"}
        for process in spark:
            if process.kind == "rank" and not process.alive:
                process.kind = "helper"
            elif process.kind == "launcher":
                process.labels = {**process.labels, "role": ""}
        for process in self.unnumbered():
            is_java = identity.is_spark_java(process.command) or not process.alive
            if (
                not is_java
                and "engine" not in process.labels
                and (process.place in above or (process.host, process.ppid) in started)
                and not any(a.kind == "rank" for a in self._above(process))
            ):
                process.number = 0
                process.labels = {**process.labels, "role": process.text("role") or "driver"}

    def _number_the_unnumbered(self) -> None:
        """Without any numbers, multiprocessing children are the ranks, otherwise the topmost
        processes. If some have numbers, their siblings continue them."""
        numbered = self.numbered()
        workers = [p for p in self.unnumbered() if _is_worker(p) and not self._worker_above(p)]
        if numbered:
            families = {(p.host, p.ppid) for p in numbered if _is_worker(p)}
            workers = [process for process in workers if (process.host, process.ppid) in families]
            world = max(process.whole("world") or 0 for process in numbered)
            taken = {process.number for process in numbered}
            _give_numbers(workers, (number for number in range(world) if number not in taken))
        else:
            topmost = [
                p for p in self.unnumbered() if not any(a.kind == "rank" for a in self._above(p))
            ]
            _give_numbers(workers or topmost, itertools.count())

    def _worker_above(self, process: Member) -> bool:
        """The child of a worker that called os.fork() has the labels of that worker."""
        return any(_is_worker(ancestor) for ancestor in self._above(process))

    def _name_the_others(self) -> None:
        ranks = {process.place for process in self.numbered()}
        starters = {ancestor.place for rank in self.numbered() for ancestor in self._above(rank)}
        for process in self.unnumbered():
            if process.place in starters:
                process.kind = "launcher"
            elif any(ancestor.place in ranks for ancestor in self._above(process)):
                process.kind = "child"
            else:
                process.kind = "helper"

    def _name_steps(self) -> None:
        """Ranks of several Slurm steps have the same numbers: the step is their role."""
        steps = {generations.step_of(process) for process in self.numbered()}
        if len(steps) < 2:
            return
        for process in self.numbered():
            if not process.text("role") and (step := generations.step_of(process)):
                process.labels = {**process.labels, "role": f"step{step}"}

    def _settle_duplicates(self) -> None:
        """A script that runs as rank 3 may start two Pythons, both with RANK=3. The one that
        reports the number itself, otherwise the one that has loaded most, is the rank."""
        meshes = self._find_meshes()
        places: dict[tuple[object, ...], list[Member]] = defaultdict(list)
        for process in self.numbered():
            if process.alive and process.number == process.labels.get("rank"):
                mesh = meshes[id(process)]
                if mesh is None and generations.lost_launcher(process):
                    mesh = process.host, process.ppid  # as its agent knows it
                group = process.text("role"), generations.step_of(process), mesh
                places[process.number, process.host, group].append(process)
        for same in places.values():
            for process in sorted(same, key=_importance, reverse=True)[1:]:
                if _source(process) not in _SAID:
                    process.kind = "helper"
        generations.number_generations(self.numbered(), meshes)

    def _find_meshes(self) -> dict[int, Place | None]:
        """The launcher of each rank: two torchruns in one job have a rank 3 each. The nearest
        launcher, or the nearest process (mpirun, a shell) with ranks of several numbers among
        its descendants; None if there is none that lives."""
        below: dict[Place, set[int | None]] = defaultdict(set)
        for process in self.numbered():
            for place in process.places_above:
                below[place].add(process.number)
        launchers = {process.place for process in self.members if process.kind == "launcher"}

        def is_starter(place: Place) -> bool:
            return place in launchers or len(below[place]) > 1

        return {
            id(process): next(filter(is_starter, process.places_above), None)
            for process in self.numbered()
        }


def _give_numbers(processes: Iterable[Member], numbers: Iterable[int]) -> None:
    for process, number in zip(sorted(processes, key=_natural_order), numbers, strict=False):
        # Only the launcher knows the positions on all nodes.
        place = process.whole("place")
        process.number = number if place is None else place


def _multiprocessing(process: Member) -> dict[str, object]:
    place = process.labels.get("multiprocessing")
    return place if isinstance(place, dict) else {}


def _is_worker(process: Member) -> bool:
    """A process started with multiprocessing by the main process of a program."""
    return process.kind == "rank" and _multiprocessing(process).get("depth") == 1


def _natural_order(process: Member) -> tuple[object, ...]:
    coordinates = process.labels.get("coordinates")
    places = coordinates if isinstance(coordinates, dict) else {}
    return (
        [_whole(places.get(name)) or 0 for name in ("pp", "dp", "tp", "ep", "cp")],
        _whole(_multiprocessing(process).get("index")) or 0,
        process.start,
        process.pid,
    )


def _whole(value: object) -> int | None:
    return value if type(value) is int else None


def _source(process: Member) -> str:
    return str(process.labels.get("source"))


def _strength(process: Member) -> int:
    source = _source(process)
    return -identity.SOURCES.index(source) if source in identity.SOURCES else 0


def _importance(process: Member) -> tuple[int, int, int]:
    return _strength(process), process.modules, -process.pid
