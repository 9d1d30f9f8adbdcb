"""A snapshot of three ranks over gloo of which one has left out an all_reduce, as `rankdbg save` wrote
it, and their dumps of the flight recorder; without the paths of the machine that made them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parents[1] / "fixtures/fuzz"
SNAPSHOT = FIXTURES / "snapshot"
FILES = {
    str(path.relative_to(SNAPSHOT)): path.read_bytes() for path in sorted(SNAPSHOT.rglob("*.json"))
}
HEAD = "snapshot.json"
_saved = [json.loads(content) for name, content in FILES.items() if name != HEAD]
QUESTIONS: list[tuple[dict[str, Any], Any]] = [
    (each["question"], each["answer"]) for each in _saved
]
DUMPS = [json.loads(path.read_bytes()) for path in sorted(FIXTURES.glob("dumps/*.json"))]
