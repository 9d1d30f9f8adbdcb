"""Copies files of ranks from the nodes' disks into one directory, by node.

Each file is copied once. Existing files are recognised by size and time, partial files are
resumed, and everything written is compared with the file on the node by digest. A growing log is
appended to; other files are copied when they no longer change.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rankdbg.errors import BadInput, DiskFull, NodeFailed, RankdbgError
from rankdbg.files import private_files
from rankdbg.files.safe_names import below, component
from rankdbg.session import Session
from rankdbg.types import Rank
from rankdbg.wire.node_answers import FilePiece
from rankdbg.wire.node_questions import DigestFile, FindFiles, ReadFile
from rankdbg.wire.questions import Question

PIECE = 4 << 20
PIECE_SECONDS = 60.0
DIGEST_SECONDS = 600.0
# A profile or dump that changed this recently is not complete yet.
REST_SECONDS = 2.0
# Nodes that send in parallel.
AT_ONCE = 8
_I = TypeVar("_I")
_R = TypeVar("_R")


@dataclass(frozen=True)
class NodeFile:
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
    """The result for a file: copied, appended, there (before), growing or failed."""

    file: NodeFile
    state: str
    written: int = 0
    sha256: str = ""
    why: str = ""


class Collector:
    def __init__(self, session: Session, destination: str, include: Sequence[str] = ()) -> None:
        self._session = session
        self.destination = Path(destination)
        self._include = list(include)
        self._places: dict[str, list[Any]] = {}  # also of ranks that have ended
        self._verified: dict[tuple[str, str], str] = {}  # node and path -> sha256
        self._full = threading.Event()
        self._over = threading.Event()  # interrupted by the user
        self.includes_more = bool(include)
        self.busy = 0  # profilers that are still writing after their ranks have ended
        self.finished: list[Outcome] = []
        self.notes: list[str] = []
        self.lost: dict[str, str] = {}  # nodes that did not respond, and why
        self.end_reached = ""  # why there are no nodes any more

    def look(self, ranks: Iterable[Rank], nodes: Iterable[str] = ()) -> list[NodeFile]:
        """All files of these ranks and of earlier ones. A file on a shared file system belongs to
        the node from which it was copied before, otherwise to the first node."""
        processes: dict[str, list[tuple[int, int]]] = {node: [] for node in nodes}
        processes.update({node: [] for node in self._places})
        for rank in ranks:
            processes.setdefault(rank.host, []).append((rank.pid, rank.process.start))
        self.notes, self.lost = [], dict(self._session.silent_nodes)
        self.busy = 0
        found: dict[tuple[str, int, int], list[NodeFile]] = {}
        for files in self._at_once(self._look_at, processes.items()):
            for file in files:
                found.setdefault((file.path, file.inode, file.modified), []).append(file)
        chosen = (max(seen, key=self._has_begun) for seen in found.values())
        return sorted(chosen, key=lambda file: (file.node, file.path))

    def _look_at(self, item: tuple[str, list[tuple[int, int]]]) -> list[NodeFile]:
        node, keys = item
        places = self._places.get(node, [])
        question = FindFiles(processes=keys, include=self._include, places=places)
        try:
            answer = self._session.ask_node(node, question, PIECE_SECONDS)
        except RankdbgError as error:
            self.lost[node] = error.in_one_line()
            return []
        self._places[node] = answer.places
        self.notes += [f"{node}: {note}" for note in answer.notes]
        self.busy += answer.busy
        return [
            NodeFile(node, **vars(file), rests=answer.now - file.modified > REST_SECONDS * 1e9)
            for file in answer.files
            if not self._is_ours(file.path)
        ]

    def _is_ours(self, path: str) -> bool:
        """Whether it is in the destination: collected files are not collected again."""
        return path.startswith(f"{os.path.abspath(self.destination)}/")

    def copy(self, files: Sequence[NodeFile]) -> list[Outcome]:
        """One file of a node at a time, several nodes in parallel. If interrupted, `finished` has
        the results so far."""
        self.finished = []
        by_node: dict[str, list[NodeFile]] = {}
        for file in files:
            by_node.setdefault(file.node, []).append(file)
        self._at_once(self._copy_from_node, by_node.values())
        return self.finished

    def _at_once(self, work: Callable[[_I], _R], items: Iterable[_I]) -> list[_R]:
        """Ctrl-C does not wait for the other threads, which may hang."""
        pool = ThreadPoolExecutor(AT_ONCE)
        try:
            return list(pool.map(work, items))
        except BaseException:
            self._over.set()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _copy_from_node(self, files: Sequence[NodeFile]) -> None:
        outcomes = self.finished
        for file in files:
            if self._over.is_set():
                return
            if self._full.is_set():
                outcomes.append(Outcome(file, "failed", why="no space left"))
                continue
            try:
                outcomes.append(self._copy(file))
            except RankdbgError as error:
                outcomes.append(Outcome(file, "failed", why=error.in_one_line()))
            except (ValueError, OverflowError) as error:  # no base64, no time
                why = f"its node's answer is damaged ({type(error).__name__})"
                outcomes.append(Outcome(file, "failed", why=why))
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    self._full.set()
                why = error.strerror or str(error)
                outcomes.append(Outcome(file, "failed", why=why))

    def raise_if_full(self, outcomes: Iterable[Outcome]) -> None:
        if self._full.is_set():
            left = sum(outcome.state == "failed" for outcome in outcomes)
            raise DiskFull(
                f"no space left in {self.destination}: {left} files were not copied",
                "copied files are complete; partial files are resumed",
                hint="free some space and run the same command again",
            )

    # --- one file ---------------------------------------------------------------------

    def _has_begun(self, file: NodeFile) -> bool:
        target = place_of(self.destination, file)
        return target.exists() or _unfinished(target).exists()

    def _copy(self, file: NodeFile) -> Outcome:
        target = place_of(self.destination, file)
        partial = _unfinished(target)
        if _is_same(target, file):
            return Outcome(file, "there", sha256=self._verified.get((file.node, file.path), ""))
        if file.kind != "log" and not file.rests:
            return Outcome(file, "growing", why="it is still being written")
        private_files.make_directory(target.parent)
        before = target if target.exists() and not partial.exists() else partial
        begun, summed = self._what_is_there(file, before)
        if begun and before == target:
            os.replace(target, partial)
        with private_files.open_file(partial, "r+b" if begun else "wb") as local:
            local.truncate(begun)
            local.seek(begun)
            theirs = self._fetch(file, local, begun, summed)
        sha256 = summed.hexdigest()
        if (theirs or self._digest(file, file.size)) != sha256:
            partial.unlink()
            return Outcome(file, "failed", why="it changed while it was read")
        os.utime(partial, ns=(file.modified, file.modified))
        os.replace(partial, target)
        self._verified[file.node, file.path] = sha256
        state = "appended" if begun and before == target else "copied"
        return Outcome(file, state, file.size - begun, sha256)

    def _what_is_there(self, file: NodeFile, local: Path) -> tuple[int, Any]:
        """How many bytes are already present, and their digest."""
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

    def _fetch(self, file: NodeFile, local: Any, begun: int, summed: Any) -> str:
        """The node's digest of the file if it arrived in one piece, as most do."""
        theirs = ""
        while begun < file.size:
            if self._over.is_set():
                raise NodeFailed("it was interrupted")
            length = min(PIECE, file.size - begun)
            question = ReadFile(path=file.path, offset=begun, length=length)
            answer = self._answer(file, question, PIECE_SECONDS)
            data = base64.b64decode(answer.data)
            if not data:
                raise NodeFailed("it has become shorter")
            local.write(data)
            summed.update(data)
            theirs = answer.sha256 if begun == 0 and len(data) == file.size else ""
            begun += len(data)
        return theirs

    def _digest(self, file: NodeFile, length: int) -> str:
        question = DigestFile(path=file.path, length=length)
        return self._answer(file, question, DIGEST_SECONDS).sha256

    def _answer(self, file: NodeFile, question: Question[FilePiece], seconds: float) -> FilePiece:
        answer = self._session.ask_node(file.node, question, seconds)
        if answer.why:
            raise NodeFailed(f"it cannot be read: {answer.why}")
        return answer


def place_of(destination: Path, file: NodeFile) -> Path:
    """Where a file is copied to: by node, with its path there."""
    return destination / component(file.node) / below(file.path)


def _unfinished(target: Path) -> Path:
    return target.with_name(target.name + ".part")


def _is_same(target: Path, file: NodeFile) -> bool:
    try:
        there = target.stat()
    except OSError:
        return False
    return (there.st_size, there.st_mtime_ns) == (file.size, file.modified)


def check_destination(text: str) -> None:
    try:
        if not text or (os.path.exists(text) and not os.path.isdir(text)):
            raise BadInput(f"invalid destination {text!r}: not a directory")
        private_files.make_directory(text)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadInput(f"cannot make the directory {text!r}: {reason}") from None
    if not os.access(text, os.W_OK):
        raise BadInput(f"the directory {text} cannot be written to")
