"""Whose OOM kill it is of which the kernel of a node tells: this job's, another's, or unknown.

oom-kill:constraint=CONSTRAINT_MEMCG,…,oom_memcg=/kubepods/podA,task_memcg=/kubepods/podA/c1,
task=python,pid=4711,uid=1000
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

Whose = Literal["ours", "others", "unknown"]

_IS_KILL = re.compile(
    r"oom-kill:|invoked oom-killer|oom_reaper:|ut of memory|Killed process \d+|"
    r"killed as a result of limit of|[Mm]emory cgroup stats"
)
_VICTIM = re.compile(r"\btask_memcg=([^,\s]+)|\bTask in (/\S*) killed as a result")
_LIMITED = re.compile(r"\boom_memcg=([^,\s]+)|killed as a result of limit of (/\S*)")
_USER = re.compile(r"\buid=(\d+)|\bUID:(\d+)")


def is_kill(text: str) -> bool:
    return bool(_IS_KILL.search(text))


def whose_kill(
    texts: Sequence[str], pid: int | None, pids: Collection[int], job: Mapping[str, Any]
) -> Whose:
    """`texts`: all lines about one kill. `pid`: whom it is about, and `pids` those of the job, where
    the kernel's numbers are known here. `job`: what node/machine/job_traces.py tells."""
    if pid is not None and pid in pids:
        return "ours"
    victims, limited = _values(_VICTIM, texts), _values(_LIMITED, texts)
    if victims or limited:
        told = _by_groups(victims, limited, job)
        if told != "unknown":
            return told
    users = {int(user) for user in _values(_USER, texts)}
    # root's processes are of every job and of the machine: only another user's are told apart.
    if users and job.get("uids") and users.isdisjoint(job["uids"]):
        return "others"
    return "unknown"


def _by_groups(victims: Iterable[str], limited: Iterable[str], job: Mapping[str, Any]) -> Whose:
    named = [_plain(group) for group in (*victims, *limited)]
    containers = [_plain(name) for name in job.get("containers", ())]
    if any(container in group for group in named for container in containers):
        return "ours"
    groups = job.get("cgroups", ())
    if any(_is_in(victim, group) for victim in victims for group in groups):
        return "ours"
    # What the limit of a group above the job's has killed may be the job's process.
    if any(limit != "/" and _is_in(group, limit) for limit in limited for group in groups):
        return "ours"
    return "others" if groups or containers else "unknown"


def _is_in(group: str, above: str) -> bool:
    """All groups are in `/`, which therefore tells nothing."""
    return group == above or (above != "/" and group.startswith(above.rstrip("/") + "/"))


def _plain(text: str) -> str:
    """systemd writes the identifier of a pod with underscores."""
    return text.replace("_", "-")


def _values(pattern: re.Pattern[str], texts: Iterable[str]) -> list[str]:
    return [next(filter(None, match.groups())) for t in texts for match in pattern.finditer(t)]
