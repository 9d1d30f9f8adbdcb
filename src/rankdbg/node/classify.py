"""Which processes of a job are ranks, and their numbers.

Not ranks are: launchers (torchrun, and whatever started ranks and got its own number
from the scheduler only), helpers (trackers, Ray's daemons, a script's small Pythons),
and the children of a rank, which inherit its environment and so its number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from rankdbg import identity
from rankdbg.node.discovery import Process

Parent = Callable[[int], int]  # the parent of any process of the machine, 0 if unknown

_SCHEDULERS = ("slurm", "openmpi", "pmi")

# What multiprocessing's children run when they are somebody's helpers.
_HELPER_TARGETS = (
    "torch.utils.data",
    "multiprocessing.pool",
    "multiprocessing.managers",
    "concurrent.futures",
    "joblib.",
)


def classify(found: list[Process], parent: Parent) -> None:
    """Sets `kind` and `number` of each process."""
    jobs: dict[str, list[Process]] = defaultdict(list)
    for process in found:
        process.kind = identity.known_kind(process.command) or "rank"
        process.number = process.labels.get("rank")
        jobs[process.job].append(process)
    known = {process.pid: process for process in found}
    for job in jobs.values():
        _Job(job, known, parent).classify()


class _Job:
    def __init__(self, members: list[Process], known: dict[int, Process], parent: Parent) -> None:
        self.members = members
        self._known = known
        self._parent = parent

    def classify(self) -> None:
        self._find_launchers()
        self._find_children()
        if not any(process.number is not None for process in self.ranks()):
            self._number_the_unnumbered()
        else:
            for process in list(self.ranks()):
                if process.number is None:
                    process.kind = "child" if self._rank_above(process) else "helper"
        self._settle_duplicates()

    def ranks(self) -> Iterator[Process]:
        return (process for process in self.members if process.kind == "rank")

    def _above(self, process: Process) -> Iterator[Process]:
        """The processes of this job from which this one descends, nearest first."""
        seen = {process.pid}
        pid = process.ppid
        while pid > 1 and pid not in seen:
            seen.add(pid)
            ancestor = self._known.get(pid)
            if ancestor is not None and ancestor.job == process.job:
                yield ancestor
            pid = self._parent(pid)

    def _rank_above(self, process: Process) -> bool:
        return any(ancestor.kind == "rank" for ancestor in self._above(process))

    def _find_launchers(self) -> None:
        """What got its number from the scheduler, and started something with a RANK."""
        for process in self.ranks():
            if process.labels.get("source") in ("init", "torch", "torchrun"):
                for ancestor in self._above(process):
                    if ancestor.labels.get("source") in _SCHEDULERS:
                        ancestor.kind = "launcher"

    def _find_children(self) -> None:
        for process in list(self.ranks()):
            if process.number is None or process.labels.get("source") == "init":
                continue
            for ancestor in self._above(process):
                if ancestor.kind != "launcher" and ancestor.number == process.number:
                    process.kind = "child"

    def _number_the_unnumbered(self) -> None:
        """No process has a number: titles, then multiprocessing's children, then the
        topmost processes are the ranks."""
        engines = [p for p in self.ranks() if "engine" in p.labels]
        workers = [p for p in self.ranks() if _is_worker(p)]
        if engines:
            chosen = [p for p in engines if "coordinates" in p.labels] or engines
        elif workers:
            chosen = workers
        else:
            chosen = [p for p in self.ranks() if not self._rank_above(p)]
        for process in list(self.ranks()):
            if process not in chosen:
                below = any(process in self._above(other) for other in chosen)
                above = self._rank_above(process)
                process.kind = "launcher" if below else "child" if above else "helper"
        for number, process in enumerate(sorted(chosen, key=_natural_order)):
            process.number = number

    def _settle_duplicates(self) -> None:
        """A script that runs as rank 3 may start two Pythons, and both see RANK=3. The one
        that says so itself, or else the one that has loaded most, is the rank."""
        places: dict[tuple[object, ...], list[Process]] = defaultdict(list)
        for process in self.ranks():
            if process.alive and process.labels.get("source") not in ("init", None):
                places[process.number, process.labels.get("role")].append(process)
        for same in places.values():
            for process in sorted(same, key=_importance, reverse=True)[1:]:
                process.kind = "helper"
        self._drop_replaced()

    def _drop_replaced(self) -> None:
        """A dead rank whose place a living one has taken (a restart) is history."""
        living = {process.number for process in self.ranks() if process.alive}
        for process in list(self.ranks()):
            if not process.alive and process.number in living:
                process.kind = "helper"


def _is_worker(process: Process) -> bool:
    place = process.labels.get("multiprocessing")
    if not isinstance(place, dict) or place.get("depth") != 1:
        return False
    return not str(place.get("target", "")).startswith(_HELPER_TARGETS)


def _natural_order(process: Process) -> tuple[object, ...]:
    place = process.labels.get("multiprocessing") or {}
    coordinates = process.labels.get("coordinates") or {}
    return (
        [coordinates.get(name, 0) for name in ("pp", "dp", "tp", "ep", "cp")],
        place.get("index", 0),
        process.start,
        process.pid,
    )


def _importance(process: Process) -> tuple[int, int, int]:
    source = process.labels.get("source")
    strength = -identity.SOURCES.index(source) if source in identity.SOURCES else -99
    return strength, process.modules, -process.pid
