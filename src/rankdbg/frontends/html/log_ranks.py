"""The ranks of a job of which there are only logs, for a page: by role and number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rankdbg.frontends.html.document import RankSet
from rankdbg.frontends.html.rank_table import RankTable
from rankdbg.investigations.logs.job_files import JobState
from rankdbg.types import ProcessKey, Rank
from rankdbg.verdicts.failures.job_phases import Course
from rankdbg.verdicts.failures.root_causes import Diagnosis

# Those that write for the ranks, and are none.
_NO_ROLES = ("", "driver", "launcher")


def table_of_logs(
    courses: Sequence[Course], diagnosis: Diagnosis | None = None, state: JobState | None = None
) -> RankTable:
    """Of the job's own ranks, where they are known."""
    known = [rank for rank in state.ranks if rank.kind == "rank"] if state is not None else []
    return RankTable(known or _named(courses, diagnosis))


class LogRanks:
    """Ranks as logs name them: by their numbers, and Ray's actors by their class and number."""

    def __init__(self, table: RankTable) -> None:
        self.table = table
        self._by_number: dict[int, list[Rank]] = {}
        for rank in self.table.ranks:
            if rank.number is not None:
                self._by_number.setdefault(rank.number, []).append(rank)
        roles = Counter(rank.role for rank in self.table.ranks)
        self._role = max(roles, key=lambda role: roles[role], default="")

    def set_of(self, numbers: Iterable[int], role: str = "") -> RankSet:
        return self.table.set_of(self.ranks_of(numbers, role))

    def ranks_of(self, numbers: Iterable[int], role: str = "") -> list[Rank]:
        """Where several roles have such a number: those of this role, or of the largest."""
        return [rank for number in numbers for rank in self._of(number, role)]

    def set_of_courses(self, courses: Iterable[Course]) -> RankSet:
        return self.table.set_of(self._writers(courses))

    def others_than(self, courses: Iterable[Course]) -> RankSet:
        told = {rank.process for rank in self._writers(courses)}
        return self.table.set_of(rank for rank in self.table.ranks if rank.process not in told)

    def _writers(self, courses: Iterable[Course]) -> list[Rank]:
        """The ranks that they are about."""
        found = []
        for course in courses:
            numbers = course.writers if course.who.rank is None else (course.who.rank,)
            found += [rank for n in numbers for rank in self._of(n, course.who.actor)]
        return found

    def _of(self, number: int, role: str) -> list[Rank]:
        found = self._by_number.get(number, [])
        if len(found) < 2:
            return found
        for wanted in (role, self._role):
            if those := [rank for rank in found if rank.role == wanted]:
                return those
        return found[:1]


def _in_roles(ranks: Mapping[tuple[str, int], str]) -> dict[tuple[str, int], str]:
    """Lines that do not name an actor's class are of the class that has most ranks, unless that has
    another with this number."""
    counts = Counter(role for role, _ in ranks if role)
    if not counts:
        return {**ranks}
    largest = counts.most_common(1)[0][0]
    found = {(role, number): host for (role, number), host in ranks.items() if role}
    for (role, number), host in ranks.items():
        if not role:
            found.setdefault((largest, number), host)
    return found


def _named(courses: Sequence[Course], diagnosis: Diagnosis | None) -> list[Rank]:
    """Those of which a phase or any line tells."""
    hosts = dict(diagnosis.hosts) if diagnosis is not None else {}
    roles: dict[tuple[str, int], str] = {}
    for course in courses:
        numbers = course.writers if course.who.rank is None else (course.who.rank,)
        role = "" if course.who.actor in _NO_ROLES else course.who.actor
        for number in numbers:
            roles[role, number] = course.host or hosts.get(number, "")
    for failure in diagnosis.failures if diagnosis is not None else ():
        for number in failure.ranks:
            hosts.setdefault(number, failure.host)
    told = {number for _, number in roles}
    roles |= {("", number): host for number, host in hosts.items() if number not in told}
    roles = _in_roles(roles)
    return [
        Rank(ProcessKey(host, 0, place), "", number, role=role)
        for place, ((role, number), host) in enumerate(sorted(roles.items()))
    ]
