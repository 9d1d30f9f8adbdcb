"""The histories of ranks on this node, from their files: of living ranks, whatever they do, and of
those that were killed."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import IO, Any

from rankdbg.node.machine import processes
from rankdbg.node.roster import containers
from rankdbg.node.roster.labels import is_number, sound_labels
from rankdbg.process import rendezvous
from rankdbg.process.history_layout import (
    FOLDER,
    HEADER_BYTES,
    LARGEST,
    BadHistory,
    History,
    identity_in,
)

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
Files = Iterable[tuple[str, IO[bytes]]]


def read(
    files: Files,
    job: str,
    ranks: Collection[tuple[int, int]],
    steps: tuple[int, int] | None,
    last: int,
) -> dict[str, Any]:
    """Of a job, by its name or by processes that are known to be its ranks (without a name: of all):
    the events of these steps; otherwise hashes of all steps, and the newest events."""
    known = {tuple(each) for each in ranks}
    found, damaged = [], []
    sequences: dict[tuple[Any, ...], int] = {}  # of hashes; most ranks have the same
    for path, file in files:
        try:
            # Files of other jobs are not read beyond their headers.
            header = file.read(HEADER_BYTES)
            identity = _identity(header)
            who, labels = _who(identity, path), identity["labels"]
            if job and job != labels.get("job") and who["process"] not in known:
                continue
            history = History(header + file.read())
        except (BadHistory, OSError) as error:
            damaged.append(f"{path}: {error}")
            continue
        digests = [*history.digests()]
        kept = tuple(digest[:4] for digest in digests) if steps is None else ()
        found.append(
            {
                **who,
                "labels": labels,
                "digests": sequences.setdefault(kept, len(sequences)),
                "events": _events(history, digests, steps, last),
            }
        )
    return {"histories": found, "digests": [*sequences], "damaged": damaged}


def of_agents(directories: Iterable[str]) -> Files:
    """In the agents' directories: other users must not be able to write there."""
    for directory in directories:
        contained = rendezvous.pid_of_root(directory)
        try:
            if contained:
                outer = containers.open_without_links(contained, directory)
            else:
                outer = rendezvous.open_checked(directory)
        except (OSError, rendezvous.DirectoryRefused):
            continue  # the roster says so
        try:
            folder = os.open(FOLDER, _FLAGS | os.O_DIRECTORY, dir_fd=outer)
        except OSError:
            continue  # no process has a history there
        finally:
            os.close(outer)
        yield from _files_in(os.path.join(directory, FOLDER), folder)


def in_folder(path: str) -> Files:
    """Files that were copied somewhere, or an agents' directory with its folder of them. Raises
    OSError."""
    below = os.path.join(path, FOLDER)
    place = below if os.path.isdir(below) else path
    yield from _files_in(place, os.open(place, os.O_RDONLY | os.O_DIRECTORY))


def _files_in(place: str, folder: int) -> Iterator[tuple[str, IO[bytes]]]:
    try:
        for name in sorted(each for each in os.listdir(folder) if each.endswith(".history")):
            try:
                with open(os.open(name, _FLAGS, dir_fd=folder), "rb") as file:
                    status = os.fstat(file.fileno())
                    if stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST:
                        yield os.path.join(place, name), file
            except OSError:
                continue
    finally:
        os.close(folder)


def _identity(header: bytes) -> dict[str, Any]:
    """Raises BadHistory."""
    try:
        said = json.loads(identity_in(header) or b"{}")
    except (ValueError, RecursionError):
        said = None
    match said:
        case {"pid": pid, "start": start, "labels": dict(labels)} if is_number(pid) and is_number(
            start
        ):
            return {**said, "labels": sound_labels(labels)}
        case {} if not said:  # its rank had no time to say it
            return {"labels": {}}
    raise BadHistory("its header is damaged: it does not say whose it is")


def _who(identity: Mapping[str, Any], path: str) -> dict[str, Any]:
    pid, start = identity.get("pid", 0), identity.get("start", 0)
    contained = rendezvous.pid_of_root(path)
    return {
        "process": (contained or pid, start),
        "alive": processes.is_alive(contained or pid, start),
        "host": str(identity.get("host") or ""),
    }


def _events(
    history: History,
    digests: list[tuple[int, int, int, int, int]],
    steps: tuple[int, int] | None,
    last: int,
) -> list[dict[str, Any]]:
    if steps is None:
        return [*history.events()][-last:] if last else []
    # After the last digest is the step that is under way: its number is in its first event.
    under_way = digests[-1][4] + digests[-1][3] if digests else 0
    begins = [begin for step, _, _, _, begin in digests if step >= steps[0]]
    ends = [begin + count for step, _, _, count, begin in digests if step <= steps[1]]
    later = [step for step, *_ in digests if step > steps[1]]
    end = max(ends, default=0) if later else None
    return [*history.events(min(begins, default=under_way), end)]
