"""What rosters are decided from, as files: recorded from real launchers, and decided anew.

    RECORD_ROSTERS=1 pytest tests/integration/test_who_is_who.py

writes tests/fixtures/rosters/NAME.json for each row of the table. A file has no path and no pid of
the machine, and of each environment only the variables that were read.
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rankdbg.process import identity
from rankdbg.roster.jobs import name_unnamed
from rankdbg.roster.members import Ancestor, Member
from rankdbg.roster.ranks import classify
from rankdbg.session import Session
from rankdbg.session.roster import Roster
from rankdbg.types import Rank
from rankdbg.wire.answers import Labels, ProcessEntry, ProcessList
from rankdbg.wire.decoding import decode

FIXTURES = Path(__file__).parents[1] / "fixtures/rosters"
RECORDING = os.environ.get("RECORD_ROSTERS") == "1"

Document = dict[str, Any]


# --- what was decided -------------------------------------------------------------------------


def summary(processes: Sequence[Rank]) -> dict[str, Any]:
    """Of a job: the numbers of its ranks, by role if there are several, and how many others there
    are of each kind."""
    ranks = [p for p in processes if p.kind == "rank" and p.number is not None]
    roles: dict[str, list[int]] = defaultdict(list)
    for rank in ranks:
        roles[rank.role].append(rank.number or 0)
    found: dict[str, Any] = {role: sorted(numbers) for role, numbers in sorted(roles.items())}
    if [*found] == [""] or not found:
        found = {"ranks": found.get("", [])}
    for kind in ("launcher", "helper", "child"):
        if count := sum(process.kind == kind for process in processes):
            found[kind] = count
    return found


def summaries(
    roster: Roster, is_meant: Callable[[Rank], bool] = lambda process: True
) -> dict[str, dict[str, Any]]:
    """By job, of those with a process that is meant. `inside`: the first word of the name of the
    job around it."""
    meant = {
        job: summary(found)
        for job, found in roster.jobs(everything=True).items()
        if any(map(is_meant, found))
    }
    for job in meant.keys() & roster.inside.keys():
        meant[job]["inside"] = roster.inside[job].partition("-")[0]
    return meant


# --- recording --------------------------------------------------------------------------------


class _Read(dict[str, str]):
    """An environment that notes what is read of it."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(environ)
        self.read: dict[str, str] = {}

    def get(self, name: str, default: Any = None) -> Any:
        if name in self:
            self.read[name] = self[name]
        return super().get(name, default)


def record(
    name: str,
    session: Session,
    paths: Mapping[str, str],
    is_meant: Callable[[Rank], bool] = lambda process: True,
) -> None:
    """Write what these jobs were decided from. `paths`: what stands for each in the file."""
    roster = session.roster(where=False)
    jobs = {process.job for process in roster.processes if is_meant(process)}
    wanted = {p.process for p in roster.processes if p.job in jobs}
    entries = [
        (node, entry)
        for node, _, entry in roster._entries
        if (node, entry.pid, entry.start) in wanted
    ]
    document = {
        "expected": sorted(summaries(roster, is_meant).values(), key=str),
        "processes": _facts(entries),
    }
    text = _text(document)
    for path, stands in sorted({**_machine(), **paths}.items(), key=lambda pair: -len(pair[0])):
        text = text.replace(path, stands)
    FIXTURES.mkdir(parents=True, exist_ok=True)
    (FIXTURES / f"{name.replace(' ', '_')}.json").write_text(text)


def _text(document: Document) -> str:
    """A line for each job and each process."""
    parts = []
    for part, rows in document.items():
        lines = ",\n".join(f"  {json.dumps(row, sort_keys=True)}" for row in rows)
        parts.append(f' "{part}": [\n{lines}\n ]')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _machine() -> dict[str, str]:
    return {sys.prefix: "/venv", sys.base_prefix: "/usr", str(Path(__file__).parents[2]): "/src"}


def _facts(entries: Sequence[tuple[str, ProcessEntry]]) -> list[Document]:
    pids = {e.pid for _, e in entries} | {e.ppid for _, e in entries}
    pids |= {pid for _, e in entries for pid, _ in e.above or ()}
    numbers = {pid: 100 + place for place, pid in enumerate(sorted(pids - {0, 1}))}
    numbers |= {0: 0, 1: 1}
    starts = {start: place for place, start in enumerate(sorted({e.start for _, e in entries}))}
    hosts = {host: f"node-{place}" for place, host in enumerate(sorted({h for h, _ in entries}))}
    return [
        {
            "host": hosts[host],
            "pid": numbers[entry.pid],
            "ppid": numbers[entry.ppid],
            "start": 1000 + starts[entry.start],
            "command": list(entry.command),
            "above": [[numbers[pid], program] for pid, program in entry.above or ()],
            "modules": entry.modules,
            **_identity(entry),
        }
        for host, entry in sorted(entries, key=lambda pair: (pair[0], pair[1].start, pair[1].pid))
    ]


def _identity(entry: ProcessEntry) -> Document:
    """What an agent said, or what can be read from outside."""
    if entry.agent or entry.state in ("gone", "zombie"):
        said = {**entry.labels.as_dict(), **({"job": entry.job} if entry.named else {})}
        return {"alive": entry.state not in ("gone", "zombie"), "labels": said}
    raw = Path(f"/proc/{entry.pid}/environ").read_bytes().decode(errors="replace").split("\0")
    environ = _Read(dict(line.split("=", 1) for line in raw if "=" in line))
    labels = identity.of_process(" ".join(entry.command), entry.command, environ)
    facts: Document = {"alive": True, "environ": environ.read}
    if entry.named and entry.job != labels.get("job"):  # from the log of a Ray worker
        facts["framework_job"] = entry.job
    return facts


# --- deciding anew ----------------------------------------------------------------------------


def decided(document: Document) -> Roster:
    """As nodes and session do, from the facts alone."""
    nodes: dict[str, list[Member]] = defaultdict(list)
    for facts in document["processes"]:
        nodes[facts["host"]].append(_member(facts))
    roster = Roster([])
    for index, (host, members) in enumerate(sorted(nodes.items())):
        name_unnamed(members)
        classify(members)
        roster.add(host, index, ProcessList(tuple(map(_entry, members)), machine=host))
    roster.settle()
    return roster


def _member(facts: Document) -> Member:
    command = facts["command"]
    labels = facts.get("labels")
    if labels is None:
        labels = identity.of_process(" ".join(command), command, facts["environ"])
        if "framework_job" in facts:
            identity.name_job(labels, facts["framework_job"])
    whole = (facts["pid"], facts["start"], facts["ppid"], facts["alive"], dict(labels), command)
    member = Member(*whole, modules=facts["modules"])
    member.above = tuple(Ancestor(*each) for each in facts["above"])
    return member


def _entry(member: Member) -> ProcessEntry:
    return ProcessEntry(
        member.pid,
        member.start,
        member.job,
        member.kind,
        member.number,
        decode(Labels, member.labels),
        state="running" if member.alive else "gone",
        detail="",
        where=None,
        age=1.0,
        agent="agent" in member.labels,
        python="",
        command=tuple(member.command),
        ppid=member.ppid,
        generation=member.generation,
        named=bool(member.given_job),
        modules=member.modules,
        above=tuple((ancestor.pid, ancestor.program) for ancestor in member.above),
    )


def recorded() -> Iterable[tuple[str, Document]]:
    for path in sorted(FIXTURES.glob("*.json")):
        yield path.stem, json.loads(path.read_text())
