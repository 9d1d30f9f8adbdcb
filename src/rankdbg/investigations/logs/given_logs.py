"""Local log files given by the user, also as pipes: `rankdbg doctor <(zcat x.gz)`.

A pipe can be read only once, but logs are read backwards and repeatedly: its content is kept in
a file until this process ends.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace

from rankdbg.errors import BadInput, NoLogs
from rankdbg.files.foreign_files import copy_pipe, is_pipe
from rankdbg.logs.files import MOST_FILES, find_logs, too_many
from rankdbg.logs.patterns import FileScan
from rankdbg.logs.places import LogFile, ray_worker
from rankdbg.node.logs.ray_sessions import started_for, without_makers

MOST_PIPED = 4 << 30


class GivenFiles:
    """Files and directories on this machine, without a job."""

    session = None
    state = None
    find_every = 0.0

    def __init__(self, paths: Sequence[str]) -> None:
        """`-` is standard input."""
        paths = ["/dev/stdin" if path == "-" else path for path in paths]
        for path in paths:
            if not os.path.exists(path):
                raise BadInput(
                    f"no file or directory {path or repr(path)}",
                    hint="ls " + (os.path.dirname(path) or "."),
                )
        self._paths = paths
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._piped = 0
        self._told = ""
        self.files: list[LogFile] = []

    def find(self) -> None:
        """Adds new files; omitted ones are reported once."""
        found = [*find_logs(self._paths)]
        told = too_many(len(found))
        if told and not self._told:
            sys.stderr.write(f"{told}\n")
        self._told = told
        known = {file.path for file in self.files}
        new = [path for path in found[:MOST_FILES] if path not in known]
        named = {path for path in new if path in self._paths}
        wanted = named.union(without_makers(path for path in new if path not in named))
        self.files += [self._file(path) for path in new if path in wanted]
        if not self.files:
            raise NoLogs(f"no log files in {', '.join(self._paths)}")

    def _file(self, path: str) -> LogFile:
        """A Ray worker writes its identity first."""
        worker = ray_worker(path.rpartition("/")[2])
        role = started_for(path)[1] if worker else ""
        return LogFile("", path, role=role, read_at=self._copy(path) if is_pipe(path) else "")

    def _copy(self, path: str) -> str:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="rankdbg-piped-")
        self._piped += 1
        place = os.path.join(self._folder.name, str(self._piped))
        try:
            with open(place, "wb") as file:
                copy_pipe(path, file, MOST_PIPED)
        except OSError as error:
            sys.stderr.write(f"{path} was read only in part: {error.strerror}\n")
        return place

    def complete(self, scans: Iterable[tuple[LogFile, FileScan]]) -> list[FileScan]:
        return [replace(scan, path=file.path) for file, scan in scans]
