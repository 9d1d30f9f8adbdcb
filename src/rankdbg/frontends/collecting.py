"""Files of ranks come home: from the nodes' disks into one directory, laid out by node.

Each file is fetched once. What is there already is known by its size and time, what is there
in part goes on where it ended, and whatever was written is compared with the node's file by
its digest. A log that grows is appended to; anything else is left until it rests.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import os
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankdbg.errors import BadInput, DiskFull, NodeFailed, RankdbgError
from rankdbg.session import Session
from rankdbg.types import Rank

PIECE = 4 << 20
PIECE_SECONDS = 60.0
DIGEST_SECONDS = 600.0
# A profile or a dump that was written to within so long is not whole yet.
REST_SECONDS = 2.0
# Nodes that send at the same time.
AT_ONCE = 8


@dataclass(frozen=True)
class Lying:
    """A file on a node's disk."""

    node: str
    path: str
    kind: str
    size: int
    modified: int
    inode: int
    rests: bool


@dataclass(frozen=True)
class Outcome:
    """What became of it: copied, appended, there (before), growing or failed."""

    file: Lying
    state: str
    written: int = 0
    sha256: str = ""
    why: str = ""


class Collector:
    def __init__(self, session: Session, destination: str, include: Sequence[str] = ()) -> None:
        self._session = session
        self.destination = Path(destination)
        self._include = list(include)
        self._places: dict[str, list[Any]] = {}  # also of ranks that are gone by now
        self._verified: dict[tuple[str, str], str] = {}  # node and path -> sha256
        self._full = threading.Event()
        self.busy = 0  # profilers that outlive their ranks, and still write
        self.notes: list[str] = []
        self.lost: dict[str, str] = {}  # nodes that did not answer, and why
        self.end_reached = ""  # why there are no nodes any longer

    def look(self, ranks: Iterable[Rank], nodes: Iterable[str] = ()) -> list[Lying]:
        """All files of these ranks, and what those that were asked about before have left. One
        that several nodes see, on a file system that they share, is the node's that it came
        from before, or else the first's."""
        processes: dict[str, list[tuple[int, int]]] = {node: [] for node in nodes}
        processes.update({node: [] for node in self._places})
        for rank in ranks:
            processes.setdefault(rank.host, []).append((rank.pid, rank.process.start))
        self.notes, self.lost = [], dict(self._session.silent_nodes)
        self.busy = 0
        found: dict[tuple[str, int, int], list[Lying]] = {}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for files in pool.map(self._look_at, processes.items()):
                for file in files:
                    found.setdefault((file.path, file.inode, file.modified), []).append(file)
        chosen = (max(seen, key=self._has_begun) for seen in found.values())
        return sorted(chosen, key=lambda file: (file.node, file.path))

    def _look_at(self, item: tuple[str, list[tuple[int, int]]]) -> list[Lying]:
        node, keys = item
        question = {"do": "find", "processes": keys, "include": self._include}
        try:
            answer = self._ask(
                node, {**question, "places": self._places.get(node, [])}, PIECE_SECONDS
            )
            self._places[node] = list(answer["places"])
            self.notes += [f"{node}: {note}" for note in answer["notes"]]
            self.busy += int(answer["busy"])
            return [
                Lying(
                    node,
                    str(entry["path"]),
                    str(entry["kind"]),
                    int(entry["size"]),
                    int(entry["modified"]),
                    int(entry["inode"]),
                    int(answer["now"]) - int(entry["modified"]) > REST_SECONDS * 1e9,
                )
                for entry in answer["files"]
                if not self._is_ours(str(entry["path"]))
            ]
        except RankdbgError as error:
            self.lost[node] = error.in_one_line()
        except (KeyError, TypeError, ValueError) as error:
            self.lost[node] = f"its answer is damaged ({error!r})"
        return []

    def _is_ours(self, path: str) -> bool:
        """What was collected is not collected again."""
        return path.startswith(f"{os.path.abspath(self.destination)}/")

    def copy(self, files: Sequence[Lying]) -> list[Outcome]:
        """Those of one node after the other, several nodes at once."""
        by_node: dict[str, list[Lying]] = {}
        for file in files:
            by_node.setdefault(file.node, []).append(file)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            parts = list(pool.map(self._copy_from_node, by_node.values()))
        return [outcome for part in parts for outcome in part]

    def _copy_from_node(self, files: Sequence[Lying]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for file in files:
            if self._full.is_set():
                outcomes.append(Outcome(file, "failed", why="there is no room"))
                continue
            try:
                outcomes.append(self._copy(file))
            except RankdbgError as error:
                outcomes.append(Outcome(file, "failed", why=error.in_one_line()))
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    self._full.set()
                why = error.strerror or str(error)
                outcomes.append(Outcome(file, "failed", why=why))
        return outcomes

    def raise_if_full(self, outcomes: Iterable[Outcome]) -> None:
        if self._full.is_set():
            left = sum(outcome.state == "failed" for outcome in outcomes)
            raise DiskFull(
                f"{self.destination} is full: {left} files are left on their nodes",
                "what was copied is whole, and what was begun goes on where it ended",
                hint="make room, and give the same command again",
            )

    # --- one file ---------------------------------------------------------------------

    def place_of(self, file: Lying) -> Path:
        """Where it comes to lie: by node, under the path that it has there."""
        node = file.node.replace("/", "_")
        return self.destination / node / os.path.normpath(f"/{file.path}").lstrip("/")

    def _has_begun(self, file: Lying) -> bool:
        target = self.place_of(file)
        return target.exists() or _unfinished(target).exists()

    def _copy(self, file: Lying) -> Outcome:
        target = self.place_of(file)
        partial = _unfinished(target)
        if _is_same(target, file):
            return Outcome(file, "there", sha256=self._verified.get((file.node, file.path), ""))
        if file.kind != "log" and not file.rests:
            return Outcome(file, "growing", why="it is still being written")
        target.parent.mkdir(parents=True, exist_ok=True)
        before = target if target.exists() and not partial.exists() else partial
        begun, summed = self._what_is_there(file, before)
        if begun and before == target:
            os.replace(target, partial)
        with open(partial, "r+b" if begun else "wb") as local:
            local.truncate(begun)
            local.seek(begun)
            theirs = self._fetch(file, local, begun, summed)
        sha256 = summed.hexdigest()
        if (theirs or self._digest(file, file.size)) != sha256:
            partial.unlink()
            return Outcome(file, "failed", why="it has changed while it was read")
        os.utime(partial, ns=(file.modified, file.modified))
        os.replace(partial, target)
        self._verified[file.node, file.path] = sha256
        state = "appended" if begun and before == target else "copied"
        return Outcome(file, state, file.size - begun, sha256)

    def _what_is_there(self, file: Lying, local: Path) -> tuple[int, Any]:
        """How much of it need not be fetched, and the digest of that."""
        summed = hashlib.sha256()
        size = local.stat().st_size if local.exists() else 0
        if not 0 < size <= file.size:
            return 0, summed
        with open(local, "rb") as opened:
            while data := opened.read(PIECE):
                summed.update(data)
        if self._digest(file, size) == summed.hexdigest():
            return size, summed
        return 0, hashlib.sha256()

    def _fetch(self, file: Lying, local: Any, begun: int, summed: Any) -> str:
        """The node's digest of the file, if it came in one piece: most do, and many are small."""
        theirs = ""
        while begun < file.size:
            length = min(PIECE, file.size - begun)
            question = {"do": "read", "path": file.path, "offset": begun, "length": length}
            answer = self._answer(file, question, PIECE_SECONDS)
            data = base64.b64decode(answer["data"])
            if not data:
                raise NodeFailed("it has become shorter")
            local.write(data)
            summed.update(data)
            theirs = str(answer["sha256"]) if begun == 0 and len(data) == file.size else ""
            begun += len(data)
        return theirs

    def _digest(self, file: Lying, length: int) -> str:
        question = {"do": "digest", "path": file.path, "length": length}
        return str(self._answer(file, question, DIGEST_SECONDS)["sha256"])

    def _answer(self, file: Lying, question: dict[str, Any], seconds: float) -> Any:
        answer = self._ask(file.node, question, seconds)
        if "why" in answer:
            raise NodeFailed(f"it cannot be read: {answer['why']}")
        return answer

    def _ask(self, node: str, question: dict[str, Any], seconds: float) -> Any:
        return self._session.ask_node(node, {"ask": "files", **question}, seconds)


def _unfinished(target: Path) -> Path:
    return target.with_name(target.name + ".part")


def _is_same(target: Path, file: Lying) -> bool:
    try:
        there = target.stat()
    except OSError:
        return False
    return (there.st_size, there.st_mtime_ns) == (file.size, file.modified)


def check_destination(text: str) -> None:
    if not text or (os.path.exists(text) and not os.path.isdir(text)):
        raise BadInput(f"not a directory to collect into: {text!r}")
    try:
        os.makedirs(text, exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot make the directory {text}: {error.strerror}") from None
    if not os.access(text, os.W_OK):
        raise BadInput(f"the directory {text} cannot be written to")
