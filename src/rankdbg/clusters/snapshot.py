"""What was seen earlier, saved in a directory: a cluster like any other.

DIR/snapshot.json               version, time, target, nodes
DIR/nodes/NODE/roster.json      {"question": {...}, "answer": {...}}, as they went
DIR/nodes/NODE/stacks-1.json    over the wire; one file for each question
DIR/nodes/NODE/...

Where ranks have saved their uncaught exceptions (agent/saving.py), DIR/nodes has a folder
for each process, and the head lists none: more may come at any time.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rankdbg import __version__, wire
from rankdbg.clusters import NO_OPTIONS, Options
from rankdbg.clusters.merging import Asked, merge
from rankdbg.errors import BadInput, SnapshotError
from rankdbg.streams import Stream
from rankdbg.user_code import innermost_user_frame

VERSION = 1


# --- writing ------------------------------------------------------------------------------


def save(directory: Path, target: str, asked: Mapping[str, Iterable[Asked]]) -> None:
    """Write a snapshot, whole or not at all. Nobody else can read it."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise SnapshotError(f"{directory} is already there", hint="name a new directory")
    partial = directory.with_name(f".{directory.name}.partial-{os.getpid()}")
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        partial.mkdir(mode=0o700)
        _write_all(partial, target, asked)
        if directory.exists():
            directory.rmdir()
        partial.rename(directory)
    except OSError as error:
        raise SnapshotError(f"cannot write {directory}: {error.strerror}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write_all(partial: Path, target: str, asked: Mapping[str, Iterable[Asked]]) -> None:
    folders = [f"{index}-{_safe(node)}" for index, node in enumerate(asked)]
    head = {
        "snapshot": VERSION,
        "version": __version__,
        "saved": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "target": target,
        "nodes": dict(zip(folders, asked, strict=True)),
    }
    _write(partial / "snapshot.json", head)
    (partial / "nodes").mkdir(mode=0o700)
    for folder, node in zip(folders, asked, strict=True):
        place = partial / "nodes" / folder
        place.mkdir(mode=0o700)
        for number, (question, answer) in enumerate(asked[node], 1):
            path = place / f"{question['ask']}-{number}.json"
            _write(path, {"question": question, "answer": answer})


def _safe(node: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in node)[:100]


def _write(path: Path, content: Any) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w") as file:
        json.dump(content, file, indent=1)
        file.write("\n")


# --- reading ------------------------------------------------------------------------------


class Snapshot:
    def __init__(self, rest: str, options: Options = NO_OPTIONS) -> None:
        if not rest:
            raise BadInput("which snapshot?", hint="rankdbg ps -t snapshot:DIR")
        self.target = f"snapshot:{rest}"
        self._directory = Path(rest)
        head = _read(self._directory / "snapshot.json", self._directory)
        version = head.get("snapshot")
        if not isinstance(version, int) or not isinstance(head.get("nodes"), dict):
            raise SnapshotError(f"{rest} is damaged: snapshot.json is not the head of a snapshot")
        if version > VERSION:
            raise SnapshotError(
                f"{rest} was saved by rankdbg {head.get('version')}, which is newer than this one",
                hint="pip install --upgrade rankdbg",
            )
        self._folders = {str(node): [str(folder)] for folder, node in head["nodes"].items()}
        self._by_process = not self._folders
        if self._by_process:
            self._find_processes()
        self.origin = f"snapshot of {head.get('target')} at {head.get('saved')}"

    def nodes(self) -> list[str]:
        return list(self._folders)

    def open(self, node: str) -> SavedChannel:
        parts = [self._read_folder(folder) for folder in self._folders[node]]
        try:
            return SavedChannel(merge(parts) if self._by_process else parts[0])
        except (KeyError, TypeError, AttributeError) as error:
            raise SnapshotError(f"{self._directory} is damaged: {error!r}") from None

    def _find_processes(self) -> None:
        """The folders of single processes, by the node they ran on."""
        for path in sorted((self._directory / "nodes").glob("*/roster.json")):
            answer = _read(path, self._directory).get("answer")
            node = str(answer.get("host")) if isinstance(answer, dict) else ""
            self._folders.setdefault(node, []).append(path.parent.name)

    def _read_folder(self, name: str) -> list[Asked]:
        asked: list[Asked] = []
        files = (self._directory / "nodes" / name).glob("*.json")
        for path in sorted(files, key=_in_order):
            content = _read(path, self._directory)
            question, answer = content.get("question"), content.get("answer")
            if not isinstance(question, dict) or not isinstance(answer, dict):
                raise SnapshotError(f"{self._directory} is damaged: {path.name} holds no answer")
            asked.append((question, answer))
        return asked


def _in_order(path: Path) -> tuple[int, str]:
    """stacks-2 was asked before stacks-10."""
    number = path.stem.rpartition("-")[2]
    return int(number) if number.isdigit() else 0, path.name


def _read(path: Path, directory: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        if directory.exists():
            raise SnapshotError(
                f"{directory} is not a snapshot: it has no {path.relative_to(directory)}"
            ) from None
        raise SnapshotError(f"no snapshot at {directory}: there is no such directory") from None
    except OSError as error:
        raise SnapshotError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise SnapshotError(f"{directory} is damaged: {path.name}: {error}") from None
    if not isinstance(content, dict):
        raise SnapshotError(f"{directory} is damaged: {path.name} holds no object")
    return content


class Found:
    def __init__(self, found: Any) -> None:
        self._found = found

    def answer(self, seconds: float, reach: float | None = None) -> Any:
        return self._found

    def open_stream(self, seconds: float) -> tuple[Stream, Any]:
        raise SnapshotError("nothing runs in a snapshot")


class SavedChannel:
    """Answers from what was asked then."""

    def __init__(self, asked: list[Asked]) -> None:
        self._asked = asked
        self._again: Counter[str] = Counter()

    usable = True

    def hang_up(self) -> None:
        pass

    def close(self, deadline: float) -> None:
        pass

    def begin(self, message: wire.Message) -> Found:
        return Found(self._find(message))

    def _find(self, message: wire.Message) -> Any:
        saved = [pair for pair in self._asked if pair[0].get("ask") == message["ask"]]
        match message["ask"]:
            case "roster":
                return self._last(saved, "roster")
            case "stacks":
                fitting = [p for p in saved if _covers(p[0], message)]
                # Of several looks the one of the same kind, whenever that was.
                fitting.sort(key=lambda pair: _is_native(pair[0]) == _is_native(message))
                return self._last(fitting, _options(message))
            case "evaluate":
                return self._evaluate(saved, message)
            case "vitals" | "collectives" as asked:
                # What was asked twice to see what changes is answered in that order.
                self._again[asked] += 1
                saved = saved[: self._again[asked]]
        if message["ask"] == "stream":
            raise SnapshotError("a snapshot can be looked at, not entered: nothing runs in it")
        return self._last(saved, str(message["ask"]))

    def _last(self, saved: list[Asked], what: str) -> Any:
        if saved:
            return saved[-1][1]
        have = sorted({_options(question) for question, _ in self._asked})
        raise SnapshotError(f"the snapshot holds no {what}", f"it has: {', '.join(have)}")

    def _evaluate(self, saved: list[Asked], message: wire.Message) -> Any:
        same = ("expression", "frame", "thread")
        for question, answer in reversed(saved):
            if all(question.get(name) == message.get(name) for name in same):
                return answer
        return self._look_up(message)

    def _look_up(self, message: wire.Message) -> Any:
        """A plain name may be among the saved locals."""
        name = str(message.get("expression")).strip()
        wanted = {tuple(process) for process in message["processes"]}
        found: list[Any] = []
        silent: list[Any] = []
        reason = "not in the snapshot"
        if name.isidentifier():
            reason = f"the snapshot has no variable {name!r} in that frame"
            for process, threads in self._saved_locals():
                text = _local_value(threads, name, message)
                if process in wanted and text is not None:
                    value = {"kind": "text", "text": text, "length": len(text)}
                    found.append({"process": process, "value": value})
        answered = {entry["process"] for entry in found}
        silent = [{"process": p, "reason": reason} for p in sorted(wanted - answered)]
        return {"answers": found, "silent": silent}

    def _saved_locals(self) -> Iterable[tuple[tuple[int, int], Any]]:
        for question, answer in reversed(self._asked):
            if question.get("ask") == "stacks" and question.get("locals"):
                for entry in answer["processes"]:
                    samples = [answer["distinct"][index] for index in entry["samples"]]
                    # A rank that was slow has left them out of one or the other.
                    whole = [s for s in samples if all("locals" in thread for thread in s)]
                    yield tuple(entry["process"]), (whole or samples)[-1]
                return


def _covers(saved: wire.Message, wanted: wire.Message) -> bool:
    """Whether the answer to one question about stacks holds that to another."""
    threads = saved.get("threads") == "all" or wanted.get("threads") != "all"
    if _is_native(wanted) and saved.get("engine") != wanted.get("engine"):
        return False
    return threads and bool(saved.get("locals")) >= bool(wanted.get("locals"))


def _is_native(question: wire.Message) -> bool:
    return question.get("engine", "agent") not in ("agent", "py-spy")


def _options(question: wire.Message) -> str:
    match question.get("ask"):
        case "stacks":
            threads = "all threads" if question.get("threads") == "all" else "the main thread"
            engine = f" by {question['engine']}" if _is_native(question) else ""
            values = " with locals" if question.get("locals") else ""
            return f"stacks of {threads}{engine}{values}"
        case "evaluate":
            return f"values of {question.get('expression')!r}"
    return str(question.get("ask"))


def _local_value(threads: Any, name: str, message: wire.Message) -> str | None:
    """The saved text of a variable in the frame that the live question would have chosen."""
    thread = message.get("thread")
    for candidate in threads:
        if candidate["name"] != thread and not (thread in (None, "main") and candidate["main"]):
            continue
        frames = candidate["frames"]
        wanted = message.get("frame")
        if wanted is None:
            index = innermost_user_frame(frame[1] for frame in frames)
        elif isinstance(wanted, int):
            index = wanted
        else:
            names = [frame[0].rpartition(".")[2] for frame in frames]
            index = names.index(wanted) if wanted in names else -1
        if 0 <= index < len(candidate.get("locals", ())):
            return candidate["locals"][index].get(name)  # type: ignore[no-any-return]
    return None
