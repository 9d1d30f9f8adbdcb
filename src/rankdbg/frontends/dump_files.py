"""Dumps of PyTorch's flight recorder, from files of other people's making."""

from __future__ import annotations

import io
import json
import pickle
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from rankdbg.errors import BadInput
from rankdbg.verdicts.traces import NotADump, Trace, read_trace

# 20,000 entries with their stacks are 100 MB.
MOST_BYTES = 2**30
_ENDINGS = re.compile(r"(\.(json|pkl|pickle|pt|bin|dump|txt))+$", re.IGNORECASE)


@dataclass(frozen=True)
class Dumps:
    traces: tuple[Trace, ...]
    skipped: tuple[tuple[str, str], ...]  # file, and why


class _Refused(Exception):
    pass


class _PlainUnpickler(pickle.Unpickler):
    """Containers, numbers and texts. A pickle that names anything else could run it."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise _Refused(f"refused: it is a pickle that would load {module}.{name}")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise _Refused("refused: it is a pickle that refers to something outside of it")


def read_dumps(paths: Sequence[str]) -> Dumps:
    documents: dict[int, list[Any]] = {}
    skipped: list[tuple[str, str]] = []
    for file in _files(paths):
        try:
            document = _read(file)
            rank = _rank(file, document)
            read_trace(rank, [document])
            documents.setdefault(rank, []).append(document)
        except (NotADump, _Refused) as error:
            skipped.append((str(file), str(error)))
        except OSError as error:
            skipped.append((str(file), f"cannot be read: {error.strerror}"))
    traces = tuple(read_trace(rank, documents[rank]) for rank in sorted(documents))
    return Dumps(traces, tuple(skipped))


def _files(paths: Sequence[str]) -> Iterable[Path]:
    """Files as named; of a directory the files in it, not those deeper: they may be of another
    job."""
    found: dict[Path, None] = {}
    for text in paths:
        path = Path(text)
        if path.is_dir():
            inside = sorted(path.iterdir())
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


def _read(file: Path) -> Any:
    size = file.stat().st_size
    if size == 0:
        raise NotADump("it is empty")
    if size > MOST_BYTES:
        raise NotADump(f"it is larger than {MOST_BYTES >> 20} MiB")
    data = file.read_bytes()
    if data.lstrip()[:1] in (b"{", b"["):
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise NotADump("damaged, or no dump: it is not JSON to its end") from None
    if data[:1] != b"\x80":
        raise NotADump("no dump of a flight recorder: neither a pickle nor JSON")
    try:
        return _PlainUnpickler(io.BytesIO(data)).load()
    except _Refused:
        raise
    except Exception:  # whatever a damaged pickle makes of itself
        raise NotADump("damaged: the pickle does not come to its end") from None


def _rank(file: Path, document: Any) -> int:
    """From the dump itself, else from its name: nccl_trace_rank_3, _dump_3, 3.json."""
    said = document.get("rank") if isinstance(document, dict) else None
    if isinstance(said, int) and not isinstance(said, bool) and said >= 0:
        return said
    stem = _ENDINGS.sub("", file.name)
    numbers = re.findall(r"rank[_-]?(\d{1,9})(?!\d)", stem) or re.findall(r"\d+", stem)[-1:]
    if not numbers or len(numbers[-1]) > 9:
        raise NotADump("its name does not end with a rank, as in nccl_trace_rank_3")
    return int(numbers[-1])
