"""Profiles of the ranks of this node: started, stopped, and sent in pieces.

Results are kept until the next profile begins: in memory or in deleted files, so that a killed
node process leaves nothing behind. They may be larger than a message, so the client requests
one piece after the other.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import zlib
from binascii import b2a_base64
from collections.abc import Mapping
from typing import Any

from rankdbg import wire
from rankdbg.node.inquiry import Key
from rankdbg.node.machine import processes
from rankdbg.node.profiles import folded_memory
from rankdbg.node.profiles.spies import STARTING_SECONDS, Spy, affordable_rate
from rankdbg.node.profiles.stopped_time import Standstill
from rankdbg.node.roster.found_processes import Process
from rankdbg.wire.node_questions import BeginProfile, ReadProfile

PIECE = 4 << 20
# Of processor time, for py-spy to read the symbols of an interpreter: many share few processors.
EACH_SECONDS = 0.2
# What agents call their files, after the pid of the process.
ENDINGS = {
    ".trace.json": "trace",
    ".memray": "memray",
    ".pickle": "snapshot",
    ".folded": "gpu",
    ".nsys-rep": "nsys",
    ".qdstrm": "qdstrm",
}

Contents = dict[str, int]  # what it is -> an open file


class Profiles:
    """One profile at a time: starting another discards the last."""

    def __init__(self) -> None:
        self._spies: dict[Key, Spy] = {}
        self._standstill: Standstill | None = None
        self._directory = ""
        self._kept: dict[Key, Contents] = {}

    # --- from outside -----------------------------------------------------------------

    def begin_spies(self, wanted: Mapping[Key, Process], question: BeginProfile) -> Any:
        self.drop()
        seconds = min(3600.0, max(0.1, question.seconds))
        rate = min(1000, max(1, question.rate))
        native, most = question.native, question.most_stopped or 1.0
        rates = {key: affordable_rate(key[0], rate, most) if native else rate for key in wanted}
        if native:
            self._standstill = Standstill(pid for pid, _ in wanted)
        self._spies = {key: Spy(*key, seconds, rates[key], native) for key in wanted}
        deadline = time.monotonic() + STARTING_SECONDS + EACH_SECONDS * len(wanted)
        reasons = {key: spy.wait_until_begun(deadline) for key, spy in self._spies.items()}
        return _outcome({key: reason or {} for key, reason in reasons.items()})

    def end_spies(self) -> Any:
        found: dict[Key, Any] = {}
        stopped = self._end_standstill()
        for spy in self._spies.values():
            spy.interrupt()
        for key, spy in self._spies.items():
            seen = spy.end()
            spy.close()
            if isinstance(seen, str):
                found[key] = seen
                continue
            self._kept[key] = {"folded": _in_memory(wire.encode(seen))}
            found[key] = {**self._value(key, {}, _note(key)), "stopped": stopped.get(key[0])}
        self._spies = {}
        return _outcome(found)

    def _end_standstill(self) -> dict[int, float]:
        seen = self._standstill.end() if self._standstill else {}
        self._standstill = None
        return seen

    # --- by agents --------------------------------------------------------------------

    def new_directory(self, wanted: Mapping[Key, Process]) -> str:
        """A private directory that agents write to. Raises OSError."""
        self.drop()
        self._directory = tempfile.mkdtemp(prefix="rankdbg-profile-")
        owner = next((uid for pid, _ in wanted if (uid := _owner(pid)) is not None), None)
        if owner is not None and os.geteuid() == 0:
            os.chown(self._directory, owner, -1)
        return self._directory

    def take(self, wanted: Mapping[Key, Process], relayed: Any) -> Any:
        """What agents have said at the end, and what they have written; also what one has left
        behind whose process has ended."""
        said = {tuple(entry["process"]): entry["value"] for entry in relayed["answers"]}
        silent = {tuple(entry["process"]): entry["reason"] for entry in relayed["silent"]}
        found: dict[Key, Any] = {}
        for key in wanted:
            value = said.get(key, {})
            why = str(value.get("why") or silent.get(key, ""))
            contents = self._take_files(key[0])
            if "memray" in contents:
                folded = folded_memory.fold_memray(contents["memray"], value.get("python"))
                if folded is not None:
                    contents["folded"] = _in_memory(folded)
            if not contents:
                found[key] = why or "it wrote no data"
                continue
            self._kept[key] = contents
            note = f"it ended while recording ({silent[key]})" if key in silent else why
            found[key] = self._value(key, value, note)
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory = ""
        return _outcome(found)

    def _take_files(self, pid: int) -> Contents:
        contents: Contents = {}
        if not self._directory:
            return contents
        for ending, content in ENDINGS.items():
            path = os.path.join(self._directory, f"{pid}{ending}")
            try:
                contents[content] = os.open(path, os.O_RDONLY)
                os.unlink(path)
            except OSError:
                continue
        return contents

    # --- handing over -----------------------------------------------------------------

    def _value(self, key: Key, value: Mapping[str, Any], note: str) -> dict[str, Any]:
        sizes = {name: os.fstat(file).st_size for name, file in self._kept[key].items()}
        notes = [*value.get("notes", ()), *([note] if note else [])]
        return {"contents": sizes, "notes": notes}

    def piece(self, question: ReadProfile) -> Any:
        """From `offset` on, and how many bytes it is when it is unpacked."""
        file = self._kept.get(question.process, {}).get(question.content)
        if file is None:
            raise LookupError("no such profile on this node")
        data = os.pread(file, PIECE, max(0, question.offset))
        packed = b2a_base64(zlib.compress(data, 3), newline=False).decode("ascii")
        return {"data": packed, "size": len(data)}

    def drop(self) -> None:
        self._end_standstill()
        for spy in self._spies.values():
            spy.close()
        for contents in self._kept.values():
            for file in contents.values():
                os.close(file)
        if self._directory:
            shutil.rmtree(self._directory, ignore_errors=True)
        self._spies, self._kept, self._directory = {}, {}, ""


def _note(key: Key) -> str:
    stat = processes.read_stat(key[0])
    if stat is None or stat.start != key[1] or stat.state in "ZX":
        return "it ended while recording"
    return processes.explain_state(stat)


def _in_memory(data: bytes) -> int:
    file = os.memfd_create("profile")
    while data:
        data = data[os.write(file, data) :]
    return file


def _owner(pid: int) -> int | None:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None


def _outcome(found: Mapping[Key, Any]) -> Any:
    """A text instead of a value is the reason why there is none."""
    return {
        "answers": [
            {"process": key, "value": value}
            for key, value in found.items()
            if not isinstance(value, str)
        ],
        "silent": [
            {"process": key, "reason": value}
            for key, value in found.items()
            if isinstance(value, str)
        ],
    }
