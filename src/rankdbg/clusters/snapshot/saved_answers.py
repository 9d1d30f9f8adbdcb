"""The questions to a node that were saved in a folder, with their answers."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rankdbg.clusters.snapshot.merged_parts import Asked
from rankdbg.errors import DamagedSnapshot, SnapshotError
from rankdbg.files import foreign_files
from rankdbg.wire.decoding import BadField
from rankdbg.wire.questions import name_in
from rankdbg.wire.table import check_answer

MOST_BYTES = 2**30  # of one file; the stacks of 1,000 ranks with their variables are 100 MB


class SavedAnswers:
    """In the order in which they were given."""

    def __init__(self, asked: Sequence[Asked]) -> None:
        self._asked = asked

    def of(self, name: str) -> list[Asked]:
        """To one kind of question."""
        return [pair for pair in self._asked if name_in(pair[0]) == name]

    def last_of(self, name: str, among: int | None = None) -> Asked | None:
        """The one that was given last; `among`: of the first ones to this question."""
        return next(iter(self.of(name)[:among][::-1]), None)

    def kinds(self) -> set[str]:
        return {name_in(question) for question, _ in self._asked}

    def all(self) -> list[Asked]:
        return [*self._asked]


class SavedFolder(SavedAnswers):
    """Files have the names of their questions, and are read when they are needed: a snapshot of 10,000
    ranks has 100 MB of answers."""

    def __init__(self, snapshot: Path, folder: Path) -> None:
        self._snapshot = snapshot
        self._paths: dict[str, list[Path]] = defaultdict(list)
        for name in sorted(_json_files(folder), key=_number_and_name):
            self._paths[_question_of(name)].append(folder / name)
        self._read: dict[Path, Asked] = {}

    def of(self, name: str) -> list[Asked]:
        asked = name.partition(" ")[0]  # what may be asked to `do` several things
        found = [self._read_once(path) for path in self._paths.get(asked, ())]
        return [pair for pair in found if name_in(pair[0]) == name]

    def last_of(self, name: str, among: int | None = None) -> Asked | None:
        """Reads one file, unless it is about another thing to `do`."""
        paths = self._paths.get(name, [])[:among]
        last = self._read_once(paths[-1]) if paths else None
        is_it = last is not None and name_in(last[0]) == name
        return last if is_it else super().last_of(name, among)

    def kinds(self) -> set[str]:
        return {*self._paths}

    def _read_once(self, path: Path) -> Asked:
        if path not in self._read:
            self._read[path] = self._read_one(path)
        return self._read[path]

    def all(self) -> list[Asked]:
        paths = [path for paths in self._paths.values() for path in paths]
        return [self._read_one(p) for p in sorted(paths, key=lambda p: _number_and_name(p.name))]

    def _read_one(self, path: Path) -> Asked:
        content = read_json(path, self._snapshot)
        question, answer = content.get("question"), content.get("answer")
        if not isinstance(question, dict) or not isinstance(answer, dict):
            raise DamagedSnapshot(f"{self._snapshot} is damaged: {path.name} contains no answer")
        if question.get("ask") != _question_of(path.name):
            what = f"{path.name} contains the answer to another question"
            raise DamagedSnapshot(f"{self._snapshot} is damaged: {what}")
        try:
            return question, check_answer(question, answer)
        except BadField as error:
            raise DamagedSnapshot(f"{self._snapshot} is damaged: {path.name}: {error}") from None


def read_json(path: Path, snapshot: Path) -> dict[str, Any]:
    try:
        content = json.loads(foreign_files.read_bytes(path, MOST_BYTES))
    except FileNotFoundError:
        if snapshot.exists():
            raise SnapshotError(
                f"{snapshot} is not a snapshot: {path.relative_to(snapshot)} is missing"
            ) from None
        raise SnapshotError(f"no snapshot at {snapshot}: there is no such directory") from None
    except OSError as error:
        raise SnapshotError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise DamagedSnapshot(f"{snapshot} is damaged: {path.name}: {error}") from None
    if not isinstance(content, dict):
        raise DamagedSnapshot(f"{snapshot} is damaged: {path.name} is not a JSON object")
    return content


def _json_files(folder: Path) -> list[str]:
    """By name: a path for each of the 20,000 files of 1,250 nodes takes longer than what is read."""
    try:
        return [name for name in os.listdir(folder) if name.endswith(".json")]
    except OSError:  # damaged: nothing was saved here
        return []


def _question_of(name: str) -> str:
    """stacks-1.json, roster.json."""
    return name.removesuffix(".json").partition("-")[0]


def _number_and_name(name: str) -> tuple[int, str]:
    """stacks-2 was asked before stacks-10."""
    number = name.removesuffix(".json").rpartition("-")[2]
    is_number = number.isascii() and number.isdigit() and len(number) < 10
    return int(number) if is_number else 0, name
