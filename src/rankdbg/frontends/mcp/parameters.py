"""What a tool takes: as a JSON schema for clients, and checked with one sentence for each mistake."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rankdbg.errors import BadInput, shortened

LONGEST_TEXT = 4000


@dataclass(frozen=True)
class Parameter:
    """`kind`: `string`, `integer`, `number` or `boolean`."""

    name: str
    kind: str
    description: str
    default: Any = None
    required: bool = False
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None

    def schema(self) -> dict[str, Any]:
        made: dict[str, Any] = {"type": self.kind, "description": self.description}
        if self.default is not None:
            made["default"] = self.default
        if self.choices:
            made["enum"] = [*self.choices]
        if self.least is not None:
            made["minimum"] = self.least
        if self.most is not None:
            made["maximum"] = self.most
        return made

    def check(self, value: Any) -> Any:
        if self.kind == "string":
            return self._check_text(value)
        if self.kind == "boolean":
            if not isinstance(value, bool):
                raise self._invalid(value, "true or false")
            return value
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        whole = self.kind == "integer"
        # Of a float: nan and the infinities are no whole numbers either.
        is_whole = isinstance(value, int) or (is_number and value.is_integer())
        if not is_number or (whole and not is_whole):
            raise self._invalid(value, "a whole number" if whole else "a number")
        least, most = self.least, self.most
        if (least is not None and value < least) or (most is not None and not value <= most):
            raise self._invalid(value, f"a number from {least:g} to {most:g}")
        return int(value) if whole else float(value)

    def _check_text(self, value: Any) -> str:
        if not isinstance(value, str):
            raise self._invalid(value, "a text")
        if len(value) > LONGEST_TEXT:
            raise BadInput(f"{self.name} is longer than {LONGEST_TEXT} characters")
        if "\0" in value:
            raise BadInput(f"{self.name} contains a null character")
        if self.choices and value not in self.choices:
            raise self._invalid(value, f"one of {', '.join(self.choices)}")
        return value

    def _invalid(self, value: Any, expected: str) -> BadInput:
        return BadInput(f"invalid {self.name} {shortened(repr(value))}: expected {expected}")


TARGET = Parameter(
    "target",
    "string",
    "where the job runs: local, ssh:HOST,HOST, slurm:JOB, k8s:NAMESPACE/POD, ray:auto, monarch, "
    "snapshot:DIR; several with spaces between them; default: what the server was started with",
)
JOB = Parameter("job", "string", "name of the job, needed only where several run")
RANKS = Parameter(
    "ranks", "string", "which ranks: all, 3, 0-6,9, tp=0, role=policy*, host=node-3", default="all"
)
ROOM = Parameter(
    "max_chars",
    "integer",
    "most characters of the structured answer; what does not fit is counted in left_out",
    default=6000,
    least=1000,
    most=100_000,
)
CURSOR = Parameter(
    "cursor", "string", "next_cursor of the last answer: returns the next part of the same answer"
)


def input_schema(parameters: Sequence[Parameter]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {each.name: each.schema() for each in parameters},
        "required": [each.name for each in parameters if each.required],
        "additionalProperties": False,
    }


def check_arguments(
    parameters: Sequence[Parameter], given: Mapping[str, Any] | None
) -> dict[str, Any]:
    """All parameters with their values. Raises BadInput with one sentence. With a cursor nothing
    else is needed."""
    known = {each.name: each for each in parameters}
    given = {name: value for name, value in (given or {}).items() if value is not None}
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1)
            hint = f"did you mean {near[0]}" if near else f"there are: {', '.join(known)}"
            raise BadInput(f"unknown argument {shortened(repr(name))}", hint=hint)
    for name, each in known.items():
        if each.required and name not in given and "cursor" not in given:
            raise BadInput(f"{name} is missing: {each.description}")
    return {
        name: each.check(given[name]) if name in given else each.default
        for name, each in known.items()
    }
