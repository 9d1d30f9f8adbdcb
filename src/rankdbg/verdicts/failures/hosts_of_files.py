"""The host that a log file is of, by its path and by the labels of its lines.

gpu-3/attempt_0/4/stderr.log, dmesg-gpu-3.txt, trainer-0.log beside trainer-1.log
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from rankdbg.logs.patterns import FileScan
from rankdbg.logs.speakers import rank_of_file

# Folders and files that are called after what is in them, not after the host that wrote them.
_NO_HOST = re.compile(
    r"(?i)^(rank|local_?rank|global_?rank|worker|task|proc|process|attempt|step|epoch|shard|replica"
    r"|logs?|output|outputs|out|err|run|runs|exp|job|session|train|trainer|training|inference|actor"
    r"|engine|driver|tp|pp|dp|slurm|torchrun|part|tmp|version|stdout|stderr|none|default)"
    r"([-_.]?[\d.]+)*(_latest)?$"
)
# Logs of machines, which tell of all that ran on them: kernels' and those of their controllers (BMC).
_KERNEL_FILE = re.compile(
    r"(?i)(^|[-_./])(dmesg|kern|kernel|syslog|messages|journal|journalctl|xid|sel|elist|bmc|ipmi\w*)([-_.]|$)"
)
_KERNEL_FOLDER = re.compile(
    r"(?i)(^|[-_.])(dmesg|kern|syslog|journal|journalctl|bmc|ipmi)([-_.]|$)"
)
_AROUND_HOST = re.compile(
    r"(?i)(^|[-_.])(dmesg|kern(el)?|syslog|messages|journal(ctl)?(-kb?|-bk?)?|kubectl|logs?|describe|events?|pod"
    r"|auth|kubelet|containerd|sel|elist|bmc|ipmi(tool)?|run|train|stdout|stderr|nvidia|smi|out|err|txt|xid|jsonl?|ndjson|gz|zst|bz2|xz)(?=[-_.]|$)"
)
# One file for each rank of a host: gpu3-r5.log, gpu3_rank5.log, gpu3-gpu5.log
_RANK_BEHIND_HOST = re.compile(r"(?i)^(.*\d.*?)[-_.](?:r|rank|gpu|lr|local_?rank)[-_.]?\d+$")
# What Kubernetes adds to the name of a pod: trainer-7c9f4d-x2xkq
_RANDOM = re.compile(r"-(?![a-z]*\d+$)(?=[a-z]*\d|[^aeiouy]{4})[a-z0-9]{3,10}$")
_OWN_WORDS = re.compile(
    r"(?i)^(launcher|main|console|nohup|combined|all|job|sacct|scontrol|events?|pods?|nodes?|nvidia|smi|dcgm|env|pip"
    r"|requirements|metrics|monitor|watch|readme|notes?|stats?|config|version|info)$"
)
_POD_FOLDER = re.compile(r"[a-z0-9][a-z0-9-]*_(?P<pod>[a-z0-9][a-z0-9.-]*)_[0-9a-f-]{4,36}$")
_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}$")
LABEL = re.compile(r"^([A-Za-z][\w.-]*?): ")
_LEAST_HOSTS = 2


def is_kernel_file(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    return bool(_KERNEL_FILE.search(name) or _KERNEL_FOLDER.search(folder.rpartition("/")[2]))


def hosts_of_paths(
    paths: Sequence[str], named: set[str], told: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The host in each path: one that lines name, else folders that are called alike. `told`: the one
    host that the lines of a file name as their own."""
    found: dict[str, str] = {}
    folders_alike = _alike_folders(paths)
    alike = folders_alike or _alike_files(paths)
    real = {} if folders_alike else _real_names(paths, told or {})
    forms = {_form(name) for name in named if re.search(r"\d", name)}
    above = _folders_of_all(paths) if named else set()
    for path in paths:
        parts = [part for part in path.split("/") if part]
        stem = _stem(path)
        if ":" in path and "/" not in path.partition(":")[0]:  # node:/path, of several nodes
            found[path] = path.partition(":")[0]
            continue
        bare = parts[-1].partition(".")[0] if parts else ""
        known = [part for part in [*parts[:-1], bare, stem] if part in named]
        known = known or [name for name in _beginnings(stem) if name in named]
        folders = [part for part in [*parts[:-1], stem] if part in alike]
        if pod := _pod_of_folder(parts):
            found[path] = pod
        elif not known and stem in real:
            found[path] = real[stem]
        elif known or folders:
            found[path] = (known or folders)[-1]
        elif is_kernel_file(path) and not stem and _is_folder_of_host(parts, above):
            found[path] = parts[-2]
        elif _form(stem) in forms:
            # Files side by side, one a host, of which lines name only some.
            found[path] = stem
        elif stem and is_kernel_file(path) and _is_name(stem) and stem != parts[-1]:
            found[path] = stem
    return found


def labels_of_paths(paths: Sequence[str]) -> dict[str, str]:
    """What tells files apart that are of several servers or roles of one job: vllm-a.log and vllm-b.log,
    prefill/server.log and decode/server.log. Not the hosts, but all that says where it was."""
    own = [path for path in paths if not is_kernel_file(path)]
    return _labels_by_folders(own) or _labels_by_names(own)


def _labels_by_names(paths: Sequence[str]) -> dict[str, str]:
    beside: dict[str, dict[str, str]] = {}
    for path in paths:
        stem = _stem(path)
        if _is_name(stem) and not _OWN_WORDS.match(stem):
            beside.setdefault(path.rpartition("/")[0], {})[path] = stem
    return {
        path: stem
        for stems in beside.values()
        if len({*stems.values()}) >= _LEAST_HOSTS
        for path, stem in stems.items()
    }


def _labels_by_folders(paths: Sequence[str]) -> dict[str, str]:
    """Folders side by side that have files of the same names."""
    beside: dict[tuple[str, str], dict[str, str]] = {}
    for path in paths:
        above, _, name = path.rpartition("/")
        above, _, folder = above.rpartition("/")
        if _is_name(folder):
            beside.setdefault((above, name), {})[path] = folder
    return {
        path: folder
        for folders in beside.values()
        if len(folders) >= _LEAST_HOSTS
        for path, folder in folders.items()
    }


def _pod_of_folder(parts: Sequence[str]) -> str:
    """As a kubelet keeps logs: pods/NAMESPACE_POD_UID/container/0.log"""
    folders = (part for above, part in pairwise(parts) if above == "pods")
    found = next(filter(None, map(_POD_FOLDER.match, folders)), None)
    return found["pod"] if found else ""


def _folders_of_all(paths: Sequence[str]) -> set[str]:
    """Folders in which all files are: the folder of a job, not of one of its hosts."""
    folders = [{*path.split("/")[:-1]} for path in paths]
    return set.intersection(*folders) if folders else set()


def _is_folder_of_host(parts: Sequence[str], above: set[str]) -> bool:
    return len(parts) > 1 and _is_hosts_name(parts[-2]) and parts[-2] not in above


def _stem(path: str) -> str:
    stem = _AROUND_HOST.sub("", path.rstrip("/").rpartition("/")[2]).strip("-_.")
    found = _RANK_BEHIND_HOST.match(stem)
    return found[1] if found and _is_hosts_name(found[1]) else stem


def _real_names(paths: Sequence[str], told: Mapping[str, str]) -> dict[str, str]:
    """node_4.log, of which all lines of NCCL are nd5's, and no other file's are, is the file of nd5."""
    hosts: dict[str, set[str]] = {}
    for path in paths:
        if path in told:
            hosts.setdefault(_stem(path), set()).add(told[path])
    count = Counter(host for each in hosts.values() for host in each)
    return {
        stem: next(iter(each))
        for stem, each in hosts.items()
        if len(each) == 1 and count[next(iter(each))] == 1
    }


def _beginnings(stem: str) -> list[str]:
    """What stands before a number at the end: node-2 of node-2-7, the eighth rank of that host."""
    found = re.match(r"(.+?)[-_.]\d+$", stem)
    return [found[1]] if found else []


def _form(name: str) -> str:
    """The same for the hosts of one job: gpu-3 and gpu-4, and pods of which the ends are random."""
    bare = _RANDOM.sub("", name)
    end = "-*" if bare != name else ""
    return re.sub(r"\d+", "#", _RANDOM.sub("", bare)) + end


def _is_name(part: str) -> bool:
    return bool(re.match(r"[A-Za-z]", part)) and not _NO_HOST.match(part)


def _is_hosts_name(part: str) -> bool:
    return bool(_ADDRESS.match(part)) or (_is_name(part) and bool(re.search(r"\d", part)))


def labelled_hosts(scan: FileScan) -> set[str]:
    """Hosts that pdsh puts before each line, if most lines have such a label."""
    heads = [*scan.beginning.split("\n")[:-1], *(hit.head for hit in scan.hits[:400])]
    labels = Counter(found[1] for head in heads if (found := LABEL.match(head)))
    hosts = {name for name in labels if re.search(r"\d", name) and _is_name(name)}
    told = sum(labels[name] for name in hosts)
    alike = len({_form(name) for name in hosts}) < len(hosts)
    return hosts if alike and 2 * told > len(heads) else set()


def _alike_files(paths: Sequence[str]) -> set[str]:
    """Files side by side, one a host: trainer-0.log, trainer-1.log"""
    beside: dict[tuple[str, str], set[str]] = {}
    for path in paths:
        stem = _stem(path)
        is_host = _is_hosts_name(stem) or (_is_name(stem) and _form(stem).endswith("*"))
        if is_host and rank_of_file(path) is None:
            beside.setdefault((path.rpartition("/")[0], _form(stem)), set()).add(stem)
    return {name for names in beside.values() if len(names) >= _LEAST_HOSTS for name in names}


def _alike_folders(paths: Sequence[str]) -> set[str]:
    """Folders side by side whose names differ only in a number, or that have files of the same names:
    gpu-a03/…, gpu-a04/…; prefill0/server.log, decode0/server.log. With them those beside them that
    are called otherwise, as of the server of another role."""
    names: dict[str, set[str]] = {}  # by the folder in which they are
    beside: dict[tuple[str, str], set[str]] = {}
    for path in paths:
        parts = path.split("/")
        for place, part in enumerate(parts[:-1]):
            if _is_hosts_name(part):
                level = "/".join(parts[:place])
                names.setdefault(level, set()).add(part)
                beside.setdefault((level, _form(part)), set()).add(part)
                beside.setdefault((level, "/".join(parts[place + 1 :])), set()).add(part)
    levels = {level for (level, _), found in beside.items() if len(found) >= _LEAST_HOSTS}
    return {name for level in levels for name in names[level]}
