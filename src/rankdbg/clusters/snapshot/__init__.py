"""A snapshot: state saved in a directory, used like any other cluster.

DIR/snapshot.json               version, time, target, nodes
DIR/nodes/NODE/roster.json      {"question": {...}, "answer": {...}}, as they went
DIR/nodes/NODE/stacks-1.json    over the wire; one file for each question
DIR/nodes/NODE/...

Where ranks have saved their uncaught exceptions (agent/stops/crash_snapshots.py), DIR/nodes has a folder
for each process, and snapshot.json lists no nodes: processes may be added at any time.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, ClassVar

from rankdbg import wire
from rankdbg._version import __version__
from rankdbg.clusters import NO_OPTIONS, Cluster, Options
from rankdbg.clusters.snapshot.merged_parts import Asked, merge
from rankdbg.clusters.snapshot.saved_answers import SavedAnswers, SavedFolder, read_json
from rankdbg.errors import BadInput, SnapshotError
from rankdbg.files import private_files
from rankdbg.files.safe_names import component
from rankdbg.process.user_code import innermost_user_frame
from rankdbg.wire.node_questions import ASKED
from rankdbg.wire.questions import name_in
from rankdbg.wire.ray_tables import RAY_TABLES
from rankdbg.wire.streams import Stream

VERSION = 1


# --- writing ------------------------------------------------------------------------------


def require_new(directory: Path) -> None:
    """Raises an error if no snapshot can be written there."""
    if not directory.name:
        raise SnapshotError(f"cannot write to {str(directory)!r}", hint="use a new directory")
    try:
        there = directory.exists() and (not directory.is_dir() or any(directory.iterdir()))
    except OSError as error:
        raise SnapshotError(f"cannot write {directory}: {error.strerror}") from None
    if there:
        raise SnapshotError(f"{directory} already exists", hint="use a new directory")


def save(directory: Path, target: str, asked: Mapping[str, Iterable[Asked]]) -> None:
    """Write a snapshot atomically; only this user can read it."""
    require_new(directory)
    partial = directory.with_name(f".{directory.name}.partial-{os.getpid()}")
    try:
        private_files.make_directory(directory.parent)
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
    folders = [f"{index}-{component(node, 100)}" for index, node in enumerate(asked)]
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


def _write(path: Path, content: Any) -> None:
    with private_files.open_file(path, "x") as file:
        json.dump(content, file, indent=1)
        file.write("\n")


# --- reading ------------------------------------------------------------------------------


class Snapshot(Cluster):
    def __init__(self, rest: str, options: Options = NO_OPTIONS) -> None:
        if not rest:
            raise BadInput("snapshot: names no directory", hint="rankdbg ps -t snapshot:DIR")
        self.target = f"snapshot:{rest}"
        self._directory = Path(rest)
        head = read_json(self._directory / "snapshot.json", self._directory)
        version = head.get("snapshot")
        if not isinstance(version, int) or not isinstance(head.get("nodes"), dict):
            raise SnapshotError(f"{rest} is damaged: snapshot.json is invalid")
        if version > VERSION:
            raise SnapshotError(
                f"{rest} was saved by rankdbg {head.get('version')}, which is newer than this one",
                hint="pip install --upgrade rankdbg",
            )
        self._folders = {str(node): [_folder(rest, f)] for f, node in head["nodes"].items()}
        self._by_process = not self._folders
        if self._by_process:
            self._find_processes()
        self.origin = f"snapshot of {head.get('target')} at {head.get('saved')}"
        self.saved = str(head.get("saved") or "")

    def nodes(self) -> list[str]:
        return list(self._folders)

    def open(self, node: str) -> SavedChannel:
        parts = [self._saved_in(folder) for folder in self._folders[node]]
        if not self._by_process:
            return SavedChannel(parts[0])
        try:
            return SavedChannel(SavedAnswers(merge([part.all() for part in parts])))
        except (KeyError, TypeError, AttributeError) as error:
            raise SnapshotError(f"{self._directory} is damaged: {error!r}") from None

    def ray_tables(self, job: str) -> dict[str, Any] | None:
        """Those that were saved last: a snapshot is of one job."""
        for folder in (folder for folders in self._folders.values() for folder in folders):
            if saved := self._saved_in(folder).last_of(RAY_TABLES):
                return dict(saved[1])
        return None

    def _find_processes(self) -> None:
        """The folders of single processes, by the node they ran on."""
        for path in sorted((self._directory / "nodes").glob("*/roster.json")):
            answer = read_json(path, self._directory).get("answer")
            node = str(answer.get("host")) if isinstance(answer, dict) else ""
            self._folders.setdefault(node, []).append(path.parent.name)

    def _saved_in(self, folder: str) -> SavedFolder:
        return SavedFolder(self._directory, self._directory / "nodes" / folder)


def _folder(directory: str, name: Any) -> str:
    """A safe folder name: a snapshot may come from another user."""
    if not isinstance(name, str) or "/" in name or "\0" in name or name in ("", ".", ".."):
        raise SnapshotError(f"{directory} is damaged: snapshot.json names the folder {name!r}")
    return name


class SavedAnswer:
    def __init__(self, found: Any) -> None:
        self._found = found

    def answer(self, seconds: float, reach: float | None = None) -> Any:
        return self._found

    def open_stream(self, seconds: float) -> tuple[Stream, Any]:
        raise SnapshotError("a snapshot has no running processes")


class SavedChannel:
    """Answers questions from the saved answers."""

    def __init__(self, asked: SavedAnswers) -> None:
        self._asked = asked
        self._again: Counter[str] = Counter()

    usable = True
    failure = None

    def hang_up(self) -> None:
        pass

    def close(self, deadline: float) -> None:
        pass

    def begin(self, message: wire.Message) -> SavedAnswer:
        return SavedAnswer(self._find(message))

    def _find(self, message: wire.Message) -> Any:
        name = name_in(message)
        if name == "stream":
            raise SnapshotError("cannot attach to a snapshot: it has no running processes")
        among = None
        match ASKED[name].saved:
            case "fitting":
                return self._fitting[name](self, self._asked.of(name), message)
            case "in order":  # asked twice, to see changes
                self._again[name] += 1
                among = self._again[name]
        last = self._asked.last_of(name, among)
        return self._last([last] if last else [], message)

    def _last(self, saved: list[Asked], message: wire.Message) -> Any:
        if saved:
            return saved[-1][1]
        name = name_in(message)
        have = {*self._asked.kinds(), *(_options(question) for question, _ in self._asked.of(name))}
        there = ", ".join(sorted(have - {name}))
        raise SnapshotError(
            f"the snapshot contains no {_options(message)}", f"it contains: {there}"
        )

    def _stacks(self, saved: list[Asked], message: wire.Message) -> Any:
        fitting = [pair for pair in saved if _covers(pair[0], message)]
        # Prefer an answer of the same kind, whenever it was saved.
        fitting.sort(key=lambda pair: _is_native(pair[0]) == _is_native(message))
        return self._last(fitting, message)

    def _evaluate(self, saved: list[Asked], message: wire.Message) -> Any:
        same = ("expression", "frame", "thread")
        for question, answer in reversed(saved):
            if all(question.get(name) == message.get(name) for name in same):
                return answer
        return self._look_up(message)

    def _owners(self, saved: list[Asked], message: wire.Message) -> Any:
        same = ("connections", "threads")
        fitting = [
            pair
            for pair in saved
            if all(bool(pair[0].get(name)) == bool(message.get(name)) for name in same)
        ]
        return self._last(fitting, message)

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
        for question, answer in reversed(self._asked.of("stacks")):
            if question.get("locals"):
                for entry in answer["processes"]:
                    distinct = answer["distinct"]
                    samples = [distinct[n] for n in entry["samples"] if 0 <= n < len(distinct)]
                    # A slow rank may have omitted them in some samples.
                    whole = [s for s in samples if all("locals" in thread for thread in s)]
                    if samples:
                        yield tuple(entry["process"]), (whole or samples)[-1]
                return

    _fitting: ClassVar = {
        "stacks": _stacks,
        "evaluate": _evaluate,
        "owners": _owners,
    }


def _covers(saved: wire.Message, wanted: wire.Message) -> bool:
    """Whether a saved answer about stacks also answers another question."""
    threads = saved.get("threads") == "all" or wanted.get("threads") != "all"
    if _is_native(wanted) and saved.get("engine") != wanted.get("engine"):
        return False
    also = ("locals", "tasks")
    return threads and all(bool(saved.get(name)) >= bool(wanted.get(name)) for name in also)


def _is_native(question: wire.Message) -> bool:
    return question.get("engine", "agent") not in ("agent", "py-spy")


def _options(question: wire.Message) -> str:
    match question.get("ask"):
        case "stacks":
            threads = "all threads" if question.get("threads") == "all" else "the main thread"
            engine = f" by {question['engine']}" if _is_native(question) else ""
            tasks = " and tasks" if question.get("tasks") else ""
            values = " with locals" if question.get("locals") else ""
            return f"stacks of {threads}{tasks}{engine}{values}"
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
