"""Flight recorder dumps of PyTorch, read from untrusted files."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from rankdbg.errors import BadInput
from rankdbg.files.foreign_files import read_bytes
from rankdbg.investigations.confined import ConfinedFailed, confined
from rankdbg.types import Frame
from rankdbg.verdicts.collectives.traces import NotADump, Operation, Trace, read_trace

# 20,000 entries with their stacks are 100 MB.
MOST_BYTES = 2**30
# A generous limit: reading takes 5 to 15 bytes of memory per byte, and a second per 20 MB.
LEAST_MEMORY, MEMORY_A_BYTE = 256 << 20, 40
LEAST_SECONDS, BYTES_A_SECOND = 10.0, 1e6
_ENDINGS = re.compile(r"(\.(json|pkl|pickle|pt|bin|dump|txt))+$", re.IGNORECASE)


@dataclass(frozen=True)
class Dumps:
    traces: tuple[Trace, ...]
    skipped: tuple[tuple[str, str], ...]  # file, and why


class _PlainUnpickler(pickle.Unpickler):
    """Containers, numbers and strings only: other objects in a pickle could run code."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise ConfinedFailed(f"refused: it is a pickle that would load {module}.{name}")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise ConfinedFailed("refused: it is a pickle with references to external objects")


def read_dumps(paths: Sequence[str]) -> Dumps:
    by_rank: dict[int, list[Path]] = {}
    traces: dict[int, Trace] = {}
    skipped: list[tuple[str, str]] = []
    for file in _files(paths):
        try:
            trace = _read_confined([file])
        except ConfinedFailed as refused:
            skipped.append((str(file), str(refused)))
            continue
        by_rank.setdefault(trace.rank, []).append(file)
        traces[trace.rank] = trace
    for rank, files in by_rank.items():
        if len(files) > 1:
            try:
                traces[rank] = _read_confined(files)
            except ConfinedFailed as refused:
                skipped += [(str(file), str(refused)) for file in files]
                del traces[rank]
    return Dumps(tuple(traces[rank] for rank in sorted(traces)), tuple(skipped))


def _read_confined(files: Sequence[Path]) -> Trace:
    """The dump of one rank. Raises ConfinedFailed."""
    try:
        size = sum(file.stat().st_size for file in files)
    except OSError as error:
        raise ConfinedFailed(f"cannot be read: {error.strerror}") from None
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    memory = min(pages // 2, LEAST_MEMORY + MEMORY_A_BYTE * size)
    seconds = LEAST_SECONDS + size / BYTES_A_SECOND
    return _trace(confined(lambda: _read_all(files), seconds, memory))


def _read_all(files: Sequence[Path]) -> Any:
    """Runs in the child; returns plain values."""
    try:
        documents = [(file, _read(file)) for file in files]
        rank = _rank(*documents[0])
        trace = read_trace(rank, [document for _, document in documents])
    except NotADump as error:
        raise ConfinedFailed(str(error)) from None
    except OSError as error:
        raise ConfinedFailed(f"cannot be read: {error.strerror}") from None
    except RecursionError:
        raise ConfinedFailed("not a flight recorder dump: it is nested too deeply") from None
    plain = {**vars(trace), "operations": [_plain(op) for op in trace.operations]}
    return {key: dict(v) if isinstance(v, Mapping) else v for key, v in plain.items()}


def _plain(operation: Operation) -> dict[str, Any]:
    return {**vars(operation), "frames": [tuple(frame) for frame in operation.frames]}


def _trace(plain: dict[str, Any]) -> Trace:
    known: dict[Any, Any] = {}
    operations = []
    for values in plain["operations"]:
        frames = (Frame(*frame) for frame in values["frames"])
        once = tuple(known.setdefault(frame, frame) for frame in frames)
        operations.append(Operation(**{**values, "frames": known.setdefault(once, once)}))
    return Trace(**{**plain, "operations": tuple(operations)})


def _files(paths: Sequence[str]) -> Iterable[Path]:
    """The given files, and the files of given directories; not of subdirectories, which may
    belong to another job."""
    found: dict[Path, None] = {}
    for text in paths:
        path = Path(text)
        if path.is_dir():
            inside = _inside(path)
            files = [file for file in inside if file.is_file() and not file.name.startswith(".")]
            folders = [folder.name for folder in inside if folder.is_dir()]
            if not files:
                hint = f"--dumps {path / folders[0]}" if folders else ""
                raise BadInput(f"no files in {text}", hint=hint)
            found |= dict.fromkeys(files)
        elif path.exists():
            found[path] = None
        else:
            raise BadInput(f"no file or directory {text}")
    return found


def _inside(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise BadInput(f"cannot read {folder}: {error.strerror}") from None


def _read(file: Path) -> Any:
    data = read_bytes(file, MOST_BYTES, named=True)
    if not data:
        raise NotADump("it is empty")
    if data.lstrip()[:1] in (b"{", b"["):
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise NotADump("damaged, or not a dump: incomplete JSON") from None
    if data[:1] != b"\x80":
        raise NotADump("not a flight recorder dump: neither a pickle nor JSON")
    try:
        return _PlainUnpickler(io.BytesIO(data)).load()
    except (ConfinedFailed, MemoryError):
        raise
    except Exception:  # a damaged pickle can raise anything
        raise NotADump("damaged: the pickle is incomplete") from None


def _rank(file: Path, document: Any) -> int:
    """From the dump itself, otherwise from its name: nccl_trace_rank_3, _dump_3, 3.json."""
    said = document.get("rank") if isinstance(document, dict) else None
    if isinstance(said, int) and not isinstance(said, bool) and said >= 0:
        return said
    stem = _ENDINGS.sub("", file.name)
    numbers = re.findall(r"rank[_-]?(\d{1,9})(?!\d)", stem) or re.findall(r"\d+", stem)[-1:]
    if not numbers or len(numbers[-1]) > 9:
        raise NotADump("its name does not end with a rank number, as in nccl_trace_rank_3")
    return int(numbers[-1])
