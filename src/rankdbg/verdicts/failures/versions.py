"""A host with other versions than all others: where what fails can come of that, it is the cause.

    node-1:4711:4711 [0] NCCL INFO NCCL version 2.27.3+cuda12.9
    node-3:4713:4713 [0] NCCL INFO NCCL version 2.26.2+cuda12.8      the odd one out

By itself it is no failure: many jobs run on mixed drivers. It counts if the job has hardly begun, and if
what has failed is of that host, or is what ranks say that do not understand each other.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rankdbg.logs.patterns import FileScan, Hit
from rankdbg.verdicts.failures.events import Event
from rankdbg.verdicts.failures.findings import PYTHON_ERROR, Finding
from rankdbg.verdicts.failures.identities import Identities
from rankdbg.verdicts.failures.log_lines import Origin
from rankdbg.verdicts.rules import clues
from rankdbg.verdicts.rules.log_rules import LogRules

FEWEST_PLACES = 3
MODES = {"nccl": "nccl_version_mismatch", "driver": "driver_version_mismatch"}
ANY = "version_mismatch"
# What ranks of two versions say of each other, whoever says it: drivers do not talk to each other.
_OF_PAIRS = {
    "nccl": {"nccl_error", "nccl_system_error", "nccl_watchdog_timeout", "collective_mismatch"},
    "torch": {"nccl_error", "collective_mismatch", "model_mismatch"},
}
_OF_HOST = {
    "nccl_error", "segfault", "cuda_illegal_access", "abi_undefined_symbol", "import_failed",
    "checkpoint_mismatch", "model_mismatch",
}  # fmt: skip
# Errors of Python that another version of a package raises.
_OF_PACKAGES = re.compile(
    r"(?i)ImportError|has no attribute|unexpected keyword|positional argument|unpickl|undefined symbol|version"
    r"|protocol|Unrecognized|Unexpected key"
)


@dataclass(frozen=True)
class OddVersion:
    """Of one host; `usual` is that of the others."""

    what: str
    host: str
    version: str
    usual: str
    path: str
    hit: Hit


def odd_versions(scans: Sequence[FileScan], identities: Identities) -> list[OddVersion]:
    """Of each package at most one host, where clearly most others agree."""
    told: dict[str, dict[str, tuple[str, str, Hit]]] = {}  # by package and host
    for scan in scans:
        for hit in scan.hits:
            found = clues.find(clues.VERSION, hit.text) if hit.pattern == clues.VERSIONS else None
            if found:
                host = identities.speaker(scan.path, hit).host or identities.place_of_path(
                    scan.path
                )
                what = found["what"].lower().removeprefix("py")
                told.setdefault(what, {}).setdefault(host, (found["version"], scan.path, hit))
    return [odd for what, hosts in told.items() if (odd := _odd_one(what, hosts))]


def _odd_one(what: str, hosts: dict[str, tuple[str, str, Hit]]) -> OddVersion | None:
    hosts = {host: told for host, told in hosts.items() if host}
    counts = Counter(version for version, _, _ in hosts.values())
    if len(hosts) < FEWEST_PLACES or len(counts) != 2:
        return None
    (usual, _), (version, few) = counts.most_common()
    if few != 1:
        return None
    host = next(host for host, told in hosts.items() if told[0] == version)
    return OddVersion(what, host, version, usual, *hosts[host][1:])


def can_come_of_versions(root: Event, has_begun: bool) -> bool:
    """Whether it is worth to compare versions. `has_begun`: the job has done steps with these."""
    if root.mode == PYTHON_ERROR:
        return bool(_OF_PACKAGES.search(root.first.text))
    return not has_begun and root.mode in _OF_HOST.union(*_OF_PAIRS.values())


def event_of_version(root: Event, odd: Sequence[OddVersion], rules: LogRules) -> Event | None:
    """The cause of this event, if it can have come of another version."""
    fitting = [each for each in odd if _can_have_brought(each, root)]
    rule = rules.failures.get(MODES.get(fitting[0].what, ANY)) if fitting else None
    if not fitting or rule is None or root.mode == rule.mode:
        return None
    first, of_root = fitting[0], root.first
    text = f"{first.hit.text.strip()}   ({first.usual} on the other hosts)"
    finding = Finding(
        rule=replace(rule, role="root", brings=(*rule.brings, root.mode), differ=""),
        path=first.path,
        line=first.hit.line,
        text=text,
        ranks=(),
        origin=Origin(),
        time=root.time,
        modified=of_root.modified,
        host=first.host,
        comparable=of_root.comparable,
        exact=of_root.exact,
        until=of_root.until,
        offset=first.hit.offset,
    )
    return Event(finding.rule, (finding,), (), first.host)


def _can_have_brought(odd: OddVersion, root: Event) -> bool:
    is_there = root.host == odd.host or odd.host in root.peers
    of_host = root.mode == PYTHON_ERROR or root.mode in _OF_HOST
    return (is_there and of_host) or root.mode in _OF_PAIRS.get(odd.what, ())
