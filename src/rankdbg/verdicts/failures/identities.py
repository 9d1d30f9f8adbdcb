"""Who is who in a job's logs.

Kernels speak of pids and bus addresses, NCCL of peers' addresses, Ray of node ids, launchers of
local ranks. The logs themselves tell how these belong together:

    gpu-3:4711:4790 [4] NCCL INFO … rank 36 nranks 64 … busId 91000     pid and GPU -> rank 36
    Registering node info, address = 10.12.0.7 … node_id=5f…            address and node -> a host
    gpu-3/attempt_0/4/stderr.log                                        the folder is the host's
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from rankdbg.logs.patterns import FileScan, Hit
from rankdbg.logs.places import ray_worker
from rankdbg.verdicts.failures.hosts_of_files import (
    LABEL,
    hosts_of_paths,
    labelled_hosts,
    labels_of_paths,
)
from rankdbg.verdicts.failures.log_lines import Origins
from rankdbg.verdicts.failures.pod_rows import pods_of_rows
from rankdbg.verdicts.failures.slurm_records import NodeRecords, host_of_row
from rankdbg.verdicts.rules import clues

_BUS = re.compile(r"^(?:0000|00000000)?:?([0-9a-f]{2}):([0-9a-f]{2})", re.IGNORECASE)
_SYSLOG = re.compile(
    r"^(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?"
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)"  # journalctl -o short-iso
    r" ([A-Za-z][\w.-]*) [\w./@-]+(?:\[\d+\])?: "
)
# A record of a structured log, or of what collects the output of containers.
_RECORD_HOST = re.compile(
    r'(?<!\\)"(?:host|hostname|host_name|node|nodename|node_name)": ?"(?P<host>[A-Za-z0-9][\w.-]*)"'
)
_GPUS = (8, 16)  # of a machine; jobs that use 4 or fewer may have others of the machine's
_MOST_RECORDS = 400  # of a file, that are asked who is where
_FIRST_WORD = re.compile(r"^([A-Za-z][\w.-]*)\s")


@dataclass(frozen=True)
class Identity:
    """A process, as far as it is known."""

    host: str = ""
    rank: int | None = None
    pid: int | None = None


UNKNOWN_PLACE = Identity()


class Identities:
    def __init__(self, scans: Sequence[FileScan], origins: Origins) -> None:
        self._origins = origins
        self._scans = scans
        self._hosts: set[str] = set()
        self._of_address: dict[str, str] = {}
        self._of_node: dict[str, str] = {}  # Ray's node id -> address
        self._of_actor: dict[str, tuple[str, str]] = {}  # its node and its worker
        self._named: dict[str, str] = {}  # address -> what the node of Ray calls itself
        self._rank_of_pid: dict[tuple[str, int], int] = {}
        self._rank_of_gpu: dict[tuple[str, str], int] = {}
        self._host_of_rank: dict[int, Counter[str]] = {}
        self.pids: set[int] = set()  # of the job
        self._own: set[str] = set()  # files of one process
        self._file_ranks: set[int] = set()
        self._pid_of_worker: dict[str, int] = {}  # Ray's worker id -> pid
        self._tasks: dict[str, set[int]] = {}  # of Slurm, by host
        self._boxed: set[int] = set()  # ranks that torchrun names
        self._told_pids: list[tuple[str, int, int]] = []  # path, pid, rank
        self._sections: dict[str, list[tuple[int, str]]] = {}  # of a file: whom they describe
        self._pods_on: dict[str, set[str]] = {}  # node -> pods that Kubernetes has placed there
        self._records = NodeRecords(scans)
        self._comms: list[tuple[int, str, int, str, int]] = []  # world, host, pid, bus, rank
        own: dict[str, set[str]] = {}  # of a file: the hosts that NCCL's lines in it are of
        for scan in scans:
            for hit in scan.hits:
                if hit.pattern in (clues.IDENTITY, clues.RANK_PLACES):
                    self._learn(scan.path, hit)
                if "NCCL" in hit.text and (found := clues.find(clues.NCCL_PREFIX, hit.head)):
                    own.setdefault(scan.path, set()).add(self._add_host(found["host"]))
            self._hosts |= labelled_hosts(scan)
        self._learn_names()
        told = {path: next(iter(hosts)) for path, hosts in own.items() if len(hosts) == 1}
        named = self._hosts | pods_of_rows(scans)
        paths = hosts_of_paths([scan.path for scan in scans], named, told)
        # A folder may be called by the address of a host whose name is known.
        self._paths = {path: self._of_address.get(host, host) for path, host in paths.items()}
        self._hosts |= {*self._paths.values()} - {""}
        self._at_work = [scan.path for scan in scans if _tells_of_work(scan)]
        self._labels = labels_of_paths(self._at_work)
        if not self.tasks_are_agents:
            for host, ranks in self._tasks.items():
                for rank in ranks:
                    self._on_host(rank, host)
        self._learn_comms(scans)
        self._paths |= self._hosts_of_numbered_files()
        self._learn_files(scans)
        self._learn_records(scans)
        self._learn_labels(scans)
        for path, pid, rank in self._told_pids:
            self._rank_of_pid.setdefault((self.host_of_path(path), pid), rank)

    # --- what the lines tell ----------------------------------------------------------------

    def _learn(self, path: str, hit: Hit) -> None:
        text = hit.text
        if found := clues.find(clues.NCCL_COMM, text):
            host, pid = self._add_host(found["host"]), int(found["pid"])
            self._comms.append(
                (int(found["world"]), host, pid, _bus(found["bus"]), int(found["rank"]))
            )
            self.pids.add(pid)
        elif found := clues.find(clues.NCCL_ADDRESS, text):
            self._of_address.setdefault(found["address"], self._add_host(found["host"]))
        elif found := clues.find(clues.RAYLET, text):
            self._named[found["address"]] = found["host"]
            self._of_node[found["node"]] = found["address"]
        elif found := clues.find(clues.RAY_ACTOR, text):
            self._of_actor[found["actor"]] = found["node"], found["worker"]
        elif found := clues.find(clues.RAY_NODE, text):
            self._of_node.setdefault(found["node"], found["address"])
        elif found := clues.find(clues.BOX_HOST, text):
            self._learn_box(found["host"], hit.after)
        elif found := clues.find(clues.SLURM_TASKS, text):
            self._tasks.setdefault(self._add_host(found["host"]), set()).update(
                _numbers(found["ranks"])
            )
        elif found := clues.find(clues.DESCRIBED, text):
            self._sections.setdefault(path, []).append((hit.offset, self._add_host(found["host"])))
        elif found := clues.find(clues.DESCRIBED_RANK, text):
            if pod := self.described_pod(path, hit.offset):  # else it is a setting in some log
                self._on_host(int(found["rank"]), pod)
        elif clues.find(clues.POD_PLACED, text) or clues.find(clues.POD_NODE, text):
            self._learn_node(path, hit)
        elif found := clues.find(clues.WORKER_DIED, text):
            self.pids.add(int(found["pid"]))
        elif found := clues.find(clues.CHILD_PIDS, text):
            self._learn_children(path, hit, _numbers(found["pids"].replace(" ", "")))
        elif found := clues.find(clues.RANK_ON_HOST, text):
            self._on_host(int(found["rank"]), self._add_host(found["host"]))
        elif found := clues.find(clues.RANK_PID, text):
            self.pids.add(int(found["pid"]))
            self._told_pids.append((path, int(found["pid"]), int(found["rank"])))

    def _learn_node(self, path: str, hit: Hit) -> None:
        """On which node Kubernetes has placed a pod: kernels know nodes, and NCCL knows pods."""
        placed = clues.find(clues.POD_PLACED, hit.text)
        described = clues.find(clues.POD_NODE, hit.text)
        if placed:
            self._pods_on.setdefault(placed["node"], set()).add(placed["pod"])
        elif described and (pod := self.described_pod(path, hit.offset)):
            self._pods_on.setdefault(described["node"], set()).add(pod)

    def _learn_children(self, path: str, hit: Hit, pids: Iterable[int]) -> None:
        """Of a rank that names the processes that it has lost."""
        rank = self.rank_of_line(path, hit)
        self.pids |= {*pids}
        if rank is not None:
            self._told_pids += [(path, pid, rank) for pid in pids]

    def _learn_names(self) -> None:
        """Containers may all have one name: then only their addresses tell nodes apart."""
        count = Counter(self._named.values())
        for address, name in self._named.items():
            self._of_address[address] = self._add_host(name if count[name] == 1 else address)

    def _learn_box(self, name: str, after: Iterable[str]) -> None:
        """torchrun names the host, and below it the rank and the pid."""
        host, lines = self._add_host(name), "\n".join(after)
        rank, pid = clues.find(clues.BOX_RANK, lines), clues.find(clues.BOX_PID, lines)
        if rank:
            self._boxed.add(int(rank["rank"]))
            self._on_host(int(rank["rank"]), host)
        if rank and pid:
            self._rank_of_pid[host, int(pid["pid"])] = int(rank["rank"])
            self.pids.add(int(pid["pid"]))

    def _learn_comms(self, scans: Sequence[FileScan]) -> None:
        """Ranks of communicators are those of the job where the communicator is of all ranks."""
        if not self._comms:
            return
        world = max(comm[0] for comm in self._comms)
        known = (self._origins.of(s.path, hit).rank for s in scans for hit in s.hits[-50:])
        if max((rank for rank in known if rank is not None), default=0) >= world:
            return
        for size, host, pid, bus, rank in self._comms:
            if size == world:
                self._rank_of_pid.setdefault((host, pid), rank)
                self._rank_of_gpu.setdefault((host, bus), rank)
                self._on_host(rank, host)

    def _hosts_of_numbered_files(self) -> dict[str, str]:
        """sft-88-5.err, of rank 5, which some line places on a host, is of that host."""
        found = {}
        for path, name in self._paths.items():
            rank = self._origins.rank_of_path(path)
            told = "" if rank is None else self.host_of_rank(rank)
            if told and told != name and name.endswith(f"-{rank}"):
                found[path] = told
        return found

    def _learn_files(self, scans: Sequence[FileScan]) -> None:
        """A worker's file has its pid in its name, and its rank in its lines."""
        for scan in scans:
            worker = ray_worker(scan.path.rpartition("/")[2])
            pid = worker[2] if worker else scan.file.pid if scan.file else None
            host = self.host_of_path(scan.path)
            rank = self._origins.rank_of_path(scan.path)
            if worker:
                self._pid_of_worker[worker[0]] = worker[2]
            if pid is not None:
                self.pids.add(pid)
                self._own.add(scan.path)
                if rank is not None:
                    self._rank_of_pid.setdefault((host, pid), rank)
            if rank is not None:
                self._file_ranks.add(rank)
            if rank is not None and host:
                self._on_host(rank, host)

    def _learn_records(self, scans: Sequence[FileScan]) -> None:
        """Of records that name their host, and whose text names the rank; and of lines before which
        a launcher puts the host. Lines about a rank's failure are at the end of a file."""
        for scan in scans:
            few = len(scan.hits) <= 2 * _MOST_RECORDS
            for hit in scan.hits if few else _both_ends(scan.hits, _MOST_RECORDS):
                host = _host_of_record(hit.text) or self._host_of_label(hit)
                rank = self._origins.of(scan.path, hit).rank if host else None
                if host and rank is not None:
                    self._on_host(rank, self._add_host(host))

    def _learn_labels(self, scans: Sequence[FileScan]) -> None:
        """Of logs that hosts have written, each with lines of other ranks: a driver's has those of
        all."""
        ranks: dict[str, set[int]] = {}
        for scan in scans:
            host = self.host_of_path(scan.path)
            for hit in scan.hits if host else ():
                if hit.pattern == clues.LABELS and (
                    found := clues.find(clues.RANK_LABEL, hit.text)
                ):
                    ranks.setdefault(host, set()).add(int(found["rank"]))
        known = [rank for own in ranks.values() for rank in own]
        if len(ranks) < 2 or len({*known}) < len(known):
            return
        for host, own in ranks.items():
            for rank in own - self._host_of_rank.keys():
                self._on_host(rank, host)

    def _host_of_label(self, hit: Hit) -> str:
        found = LABEL.match(hit.head)
        return found[1] if found and found[1] in self._hosts else ""

    def _on_host(self, rank: int, host: str) -> None:
        self._host_of_rank.setdefault(rank, Counter())[host] += 1

    def _add_host(self, name: str) -> str:
        self._hosts.add(name)
        return name

    @property
    def tasks_are_agents(self) -> bool:
        """Whether Slurm's tasks are not the ranks, but launchers that start several of them."""
        tasks = {task for known in self._tasks.values() for task in known}
        return bool(tasks and self._boxed) and max(self._boxed) > max(tasks)

    @property
    def ranks(self) -> set[int]:
        """All that any line or file tells of."""
        return {*self._host_of_rank, *self._rank_of_pid.values(), *self._file_ranks}

    @property
    def knows_all_pids(self) -> bool:
        """Of the ranks; their children have others."""
        return bool(self.ranks) and self.ranks <= {*self._rank_of_pid.values()}

    # --- questions --------------------------------------------------------------------------

    def host_of_path(self, path: str) -> str:
        return self._paths.get(path, "")

    def place_of_path(self, path: str) -> str:
        """Its host, or what tells it apart from the files beside it."""
        return self._paths.get(path) or self._labels.get(path, "")

    def rank_of_line(self, path: str, hit: Hit) -> int | None:
        """The rank alone, without a look at the line where the file is one rank's."""
        rank = self._origins.rank_of_path(path)
        return self._origins.of(path, hit).rank if rank is None else rank

    def writers(self, path: str) -> int:
        """Whether one process writes a file, or several."""
        return 1 if self._origins.rank_of_path(path) is not None or path in self._own else 2

    def host_of_rank(self, rank: int) -> str:
        found = self._host_of_rank.get(rank)
        return found.most_common(1)[0][0] if found else ""

    def host_named(self, name: str) -> str:
        """The host that is called so here, or has this address or id; else the name itself."""
        name = self._of_node.get(name, name)
        name = self._of_address.get(name, name)
        if name in self._hosts:
            return name
        short = name.partition(".")[0]
        # A name with its domain, where hosts are called without.
        bare = re.match(r"[A-Za-z]", name) and not any("." in host for host in self._hosts)
        return short if short in self._hosts or bare else name

    @cached_property
    def pods(self) -> set[str]:
        """Those that kubectl describes, where their ranks or logs are known, too."""
        described = {pod for found in self._sections.values() for _, pod in found}
        known = {self.host_of_rank(rank) for rank in self.ranks} | {*self._paths.values()}
        return described & known

    @cached_property
    def rank_of_pod(self) -> dict[str, int]:
        """The ranks of pods that kubectl describes, where each has one."""
        pods = {pod for found in self._sections.values() for _, pod in found}
        count = Counter(map(self.host_of_rank, self.ranks))
        hosts = ((self.host_of_rank(rank), rank) for rank in self.ranks)
        return {host: rank for host, rank in hosts if host in pods and count[host] == 1}

    def is_known(self, host: str) -> bool:
        return host in self._hosts

    def rank_of_pid(self, host: str, pid: int) -> int | None:
        if (rank := self._rank_of_pid.get((host, pid))) is not None:
            return rank
        # The host may be known by another name in one of the two places.
        found = {rank for (_, known), rank in self._rank_of_pid.items() if known == pid}
        found = found or self._origins.ranks_of_pid(pid)
        return found.pop() if len(found) == 1 else None

    def knows_as_rank(self, host: str, pid: int | None) -> bool:
        """Whether it is the number of a rank's process."""
        return pid is not None and self.rank_of_pid(host, pid) is not None

    def place_of_actor(self, actor: str) -> Identity | None:
        """Where one of Ray runs, by its id; None: unknown."""
        if actor not in self._of_actor:
            return None
        node, worker = self._of_actor[actor]
        host, pid = self.host_named(node), self._pid_of_worker.get(worker)
        return Identity(host, None if pid is None else self.rank_of_pid(host, pid), pid)

    def pid_of_worker(self, worker: str) -> int | None:
        return self._pid_of_worker.get(worker)

    def rank_of_gpu(self, host: str, bus: str) -> int | None:
        """Of a GPU of a host, or of a node on which one pod of the job has it."""
        places = [host, *self._pods_on.get(host, ())]
        found = {self._rank_of_gpu.get((place, _bus(bus))) for place in places} - {None}
        return found.pop() if len(found) == 1 else None

    def rank_of_device(self, host: str, device: int) -> int | None:
        """Of the GPU of this number, where the processes of the host have all GPUs of a machine."""
        ranks = sorted(self._ranks_at(host))
        if len(ranks) not in _GPUS or device >= len(ranks) or ranks[0] % len(ranks):
            return None
        return ranks[device] if ranks[-1] - ranks[0] + 1 == len(ranks) else None

    def _ranks_at(self, host: str) -> set[int]:
        """Servers side by side may all have the same ranks."""
        known = {rank for rank, hosts in self._host_of_rank.items() if host in hosts}
        own = [scan for scan in self._scans if host and self.host_of_path(scan.path) == host]
        hits = ((scan.path, hit) for scan in own for hit in scan.hits[:_MOST_RECORDS])
        found = (self._origins.of(path, hit).rank for path, hit in hits)
        return known or {rank for rank in found if rank is not None}

    def speaker(self, path: str, hit: Hit) -> Identity:
        """Who wrote a line."""
        origin = self._origins.of(path, hit)
        host, rank, pid = self._host_in_line(path, hit), origin.rank, origin.pid
        if found := clues.find(clues.NCCL_PREFIX, f"{hit.head} {hit.text[:400]}"):
            host, pid = self.host_named(found["host"]), int(found["pid"])
            # NCCL's own prefix is right where the line begins with the end of another rank's bar.
            if (own := self._rank_of_pid.get((host, pid))) is not None:
                rank = own
        elif origin.address:
            host = self.host_named(origin.address)
        host = host or self.host_of_path(path)
        if rank is None and pid is not None:
            rank = self.rank_of_pid(host, pid)
        if not host and rank is not None:
            host = self.host_of_rank(rank)
        if not host and len(self._hosts) == 1:
            (host,) = self._hosts
        return Identity(host, rank, pid)

    def _host_in_line(self, path: str, hit: Hit) -> str:
        """As kubectl describe puts it above, and syslog, pdsh and tables of kubectl put it before each line."""
        if above := self.described_pod(path, hit.offset):
            return above
        if host := _host_of_record(hit.text) or self._records.host(path, hit.offset):
            return host
        if host := host_of_row(hit.text, self._hosts):
            return host
        if found := _SYSLOG.match(hit.head):
            return found[1]
        if host := self._host_of_label(hit):
            return host
        found = _FIRST_WORD.match(hit.head)
        return found[1] if found and found[1] in self._hosts else ""

    @cached_property
    def own_hosts(self) -> set[str]:
        """Those of the job's ranks and files, not those that some line only names."""
        of_ranks = {self.host_of_rank(rank) for rank in self.ranks}
        return (of_ranks | {*self._paths.values()}) - {""}

    @cached_property
    def hosts_at_work(self) -> set[str]:
        """Those of its ranks, and of the files of its processes, not of machines."""
        of_ranks = {self.host_of_rank(rank) for rank in self.ranks}
        return (of_ranks | {*map(self.host_of_path, self._at_work)}) - {""}

    def is_at_work(self, node: str) -> bool:
        """Whether a node is known as one of the job's, or as that of one of its pods."""
        return node in self.own_hosts or bool(self._pods_on.get(node, set()) & self.own_hosts)

    def described_pod(self, path: str, offset: int) -> str:
        """Whose section of kubectl describe a line is in."""
        sections = self._sections.get(path, [])
        above = bisect_right(sections, offset, key=lambda section: section[0])
        return sections[above - 1][1] if above else ""


def _tells_of_work(scan: FileScan) -> bool:
    """Whether a process of the job writes the file, not something that only watches it."""
    return any(hit.pattern.startswith(("phase:", clues.PROGRESS)) for hit in scan.hits)


def _both_ends(hits: Sequence[Hit], most: int) -> Sequence[Hit]:
    return [*hits[:most], *hits[-most:]]


def _host_of_record(text: str) -> str:
    found = _RECORD_HOST.search(text) if text.startswith("{") else None
    return found["host"] if found else ""


def _bus(text: str) -> str:
    """91000, 0000:91:00 and 0000:91:00.0 are the same place on the bus: 91:00."""
    if found := _BUS.match(text):
        return f"{found[1]}:{found[2]}".lower()
    if re.fullmatch(r"[0-9a-fA-F]{4,6}", text):
        digits = text.lower().zfill(5)
        return f"{digits[-5:-3]}:{digits[-3:-1]}"
    return text.lower()


def _numbers(text: str) -> list[int]:
    """0,2-5 as Slurm writes it."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and len(first) < 7:
            end = int(last) if last.isdigit() else int(first)
            found += range(int(first), min(end, int(first) + 10_000) + 1)
    return found
