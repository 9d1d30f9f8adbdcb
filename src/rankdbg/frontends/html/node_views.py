"""Node health and GPUs as the page shows them, beside the ranks."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from rankdbg.errors import RankdbgError
from rankdbg.frontends.html.document import Colouring, GpuColumns, NodeHealth, NodesView
from rankdbg.frontends.html.plain_pages import by_percent
from rankdbg.frontends.html.rank_table import RankTable
from rankdbg.investigations.nodes.node_states import NodeStates
from rankdbg.investigations.watch.live_jobs import gpu_use
from rankdbg.selection import format_numbers
from rankdbg.verdicts.hangs.gpu_signs import signs
from rankdbg.verdicts.node_health import GPU_COMPLAINTS
from rankdbg.wire.node_answers import Disk, Gpu, GpuFigures, NodeFigures

GPU_USE = "GPU use"  # the name of the colouring
# GPUs that are used so many percent more or less than those of most nodes; of fewer nodes, none is
# the odd one.
APART, FEWEST = 30.0, 4
_WELL: NodeHealth = {"kind": "", "text": "healthy", "more": 0, "next": ""}


def node_view(states: NodeStates | None, table: RankTable, time: str) -> NodesView | None:
    """None where nothing is known of any node."""
    if states is None or not (states.well or any(states.with_gpus.values())):
        return None
    ranks = _ranks_on(table)
    hosts = sorted({*states.health, *states.gpus}, key=lambda host: _order(host, ranks))
    gpus = [states.with_gpus.get(host, ()) for host in hosts]
    health = _health(states, hosts, gpus)
    distinct = {_key(each): each for each in (_WELL, *health)}
    places = {key: place for place, key in enumerate(distinct)}
    figures = [states.well.get(host) for host in hosts]
    fullest = [_fullest(told.disks) if told is not None else None for told in figures]
    names = list(dict.fromkeys(place for place, _ in filter(None, fullest)))
    return {
        "time": time,
        "hosts": hosts,
        "ranks": [format_numbers(ranks.get(host, ())) for host in hosts],
        "health": [*distinct.values()],
        "of": [places[_key(each)] for each in health],
        "load": [_load(told) for told in figures],
        "processors": [told.processors if told is not None else 0 for told in figures],
        "memory": [_memory_used(told) for told in figures],
        "memory_size": [told.memory.size if told is not None else 0 for told in figures],
        "disk": [share for _, share in (each or ("", None) for each in fullest)],
        "disks": names,
        "fullest": [names.index(each[0]) if each else -1 for each in fullest],
        "gpus": _gpus(gpus),
    }


def by_gpu_use(states: NodeStates | None, table: RankTable) -> list[Colouring]:
    """Of ranks of which the nodes tell on which GPUs they compute."""
    if states is None:
        return []
    known = {n: told for n, told in states.gpus.items() if isinstance(told, GpuFigures)}
    use = gpu_use(known, table.ranks).ranks
    if not use:
        return []
    return [by_percent(GPU_USE, (use.get(rank.process) for rank in table.ranks))]


# --- health --------------------------------------------------------------------------------


def _key(health: NodeHealth) -> tuple[str, str, int, str]:
    return health["kind"], health["text"], health["more"], health["next"]


def _health(
    states: NodeStates, hosts: Sequence[str], gpus: Sequence[Sequence[Gpu]]
) -> list[NodeHealth]:
    apart = _apart(dict(zip(hosts, map(_mean_use, gpus), strict=True)))
    return [_health_of(states, host, apart.get(host, "")) for host in hosts]


def _health_of(states: NodeStates, host: str, apart: str) -> NodeHealth:
    told = states.complaints.get(host, ())
    if told:
        first = told[0]
        text = f"{first.about}: {first.text}" if first.about != "gpu" else first.text
        return {"kind": "complaint", "text": text, "more": len(told) - 1, "next": first.fix}
    why = _why_not(states, host)
    if why:
        return {"kind": "unknown", "text": why, "more": 0, "next": ""}
    return {**_WELL, "kind": "apart", "text": apart} if apart else _WELL


def _why_not(states: NodeStates, host: str) -> str:
    """Why nothing, or not all, is known of it."""
    if host in states.no_response_nodes:
        return f"no response: {states.no_response_nodes[host]}"
    told = states.gpus.get(host)
    if isinstance(told, RankdbgError):
        return f"GPUs: no response: {told.in_one_line()}"
    return f"GPUs: {told.why}" if told is not None and told.gpus and told.why else ""


def _apart(use: Mapping[str, float | None]) -> dict[str, str]:
    """Few nodes, of which the GPUs are used much more or less than those of the others."""
    known = {host: value for host, value in use.items() if value is not None}
    if len(known) < FEWEST:
        return {}
    median = statistics.median(known.values())
    found = {host: value for host, value in known.items() if abs(value - median) >= APART}
    if 4 * len(found) > len(known):
        return {}
    return {
        host: f"GPU use {value:.0f} %, of most nodes {median:.0f} %"
        for host, value in found.items()
    }


def _mean_use(gpus: Iterable[Gpu]) -> float | None:
    known = [gpu.utilization for gpu in gpus if gpu.utilization is not None]
    return statistics.fmean(known) if known else None


# --- figures --------------------------------------------------------------------------------


def _ranks_on(table: RankTable) -> dict[str, list[int]]:
    places: dict[str, list[int]] = defaultdict(list)
    for place, rank in enumerate(table.ranks):
        places[rank.host].append(place)
    return places


def _order(host: str, ranks: Mapping[str, Sequence[int]]) -> tuple[bool, int, str]:
    """By its first rank: node-9 is before node-10."""
    places = ranks.get(host, ())
    return not places, min(places, default=0), host


def _gpus(nodes: Sequence[Sequence[Gpu]]) -> GpuColumns:
    """Of all nodes, one after the other: short columns, of which a live page is sent what changes."""
    found = [(node, gpu) for node, gpus in enumerate(nodes) for gpu in gpus]
    return {
        "node": [node for node, _ in found],
        "index": [gpu.index for _, gpu in found],
        "use": [_rounded(gpu.utilization) for _, gpu in found],
        "memory": [_percent(gpu.memory_used, gpu.memory_total) for _, gpu in found],
        "temperature": [_rounded(gpu.temperature) for _, gpu in found],
        "troubled": format_numbers(p for p, (_, gpu) in enumerate(found) if _is_troubled(gpu)),
        "names": list(dict.fromkeys(gpu.name for _, gpu in found if gpu.name)),
    }


def _is_troubled(gpu: Gpu) -> bool:
    return any(sign.name in GPU_COMPLAINTS for sign in signs(gpu))


def _fullest(disks: Iterable[Disk]) -> tuple[str, float] | None:
    """The place with the least room, and how full it is in percent."""
    told = [(disk.place, share) for disk in disks if (share := _disk_used(disk)) is not None]
    return max(told, key=lambda each: each[1], default=None)


def _disk_used(disk: Disk) -> float | None:
    if disk.size is None:
        return None
    return _percent(disk.size - disk.free, disk.size)


def _memory_used(told: NodeFigures | None) -> float | None:
    if told is None:
        return None
    return _percent(told.memory.size - told.memory.available, told.memory.size)


def _load(told: NodeFigures | None) -> float | None:
    """In percent of its processors."""
    if told is None or told.load is None:
        return None
    return _percent(told.load, told.processors)


def _percent(part: float | None, whole: float | None) -> float | None:
    return _rounded(100 * part / whole) if part is not None and whole else None


def _rounded(value: float | None) -> float | None:
    """Whole numbers: a bar shows no more, and what is sent stays short."""
    return None if value is None else round(value)
