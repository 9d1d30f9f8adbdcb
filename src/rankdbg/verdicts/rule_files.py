"""Rule files: TOML, rankdbg's own and those of users, checked before they are used.

docs/reference/rules.md describes the format. One file may hold rules of every kind.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from importlib import import_module, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankdbg.errors import RuleError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

TABLES = ("failure", "harmless", "phase", "hang")


def own_texts() -> list[tuple[str, str]]:
    """The name and text of each file that comes with rankdbg."""
    folder = resources.files("rankdbg.verdicts").joinpath("rules")
    own = sorted((path for path in folder.iterdir() if path.name.endswith(".toml")), key=str)
    return [(path.name, path.read_text("utf-8")) for path in own]


def in_directories(names: Sequence[str]) -> list[str]:
    """Each directory replaced by the rule files in it."""
    found: list[str] = []
    for name in names:
        inside = sorted(map(str, Path(name).glob("*.toml"))) if Path(name).is_dir() else [name]
        if not inside:
            raise RuleError(f"no rule file (*.toml) is in {name}")
        found += inside
    return found


def read(name: str) -> str:
    try:
        return Path(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not UTF-8"
        raise RuleError(f"cannot read the rules in {name}: {reason}") from None


def parse(name: str, text: str) -> dict[str, Any]:
    # `tomllib` came with Python 3.11; `tomli` is the same before that.
    toml: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        content: dict[str, Any] = toml.loads(text)
    except toml.TOMLDecodeError as error:
        raise RuleError(f"{name} is not TOML: {error}") from None
    for table, rules in content.items():
        if table not in TABLES:
            names = ", ".join(f"[[{known}]]" for known in TABLES)
            raise RuleError(
                f"{name}: no rules are called [[{table}]]",
                hint=f"there are {names}: docs/reference/rules.md",
            )
        if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
            raise RuleError(f"{name}: rules are written [[{table}]], in two brackets")
    return content


def checked(
    kind: type[DataclassInstance], entry: Mapping[str, Any], where: str, needed: Sequence[str]
) -> dict[str, Any]:
    """The keys of one rule, each known and of the right type, lists made tuples."""
    defaults = {field.name: field.default for field in fields(kind)}
    for key, value in entry.items():
        if key not in defaults:
            raise RuleError(f"{where}: no key {key!r}", f"keys: {', '.join(defaults)}")
        _check_type(f"{where}: {key}", value, type(defaults[key]))
    for key in needed:
        if not entry.get(key):
            raise RuleError(f"{where}: {key} is missing")
    return {key: tuple(v) if isinstance(v, list) else v for key, v in entry.items()}


def _check_type(where: str, value: object, wanted: type) -> None:
    """TOML's lists become tuples, a whole number is a number of seconds too, and a key whose
    default is None is true or false, or not asked about."""
    wanted = bool if wanted is type(None) else wanted
    accepted = {tuple: (list,), float: (int, float)}.get(wanted, (wanted,))
    if not isinstance(value, accepted) or (isinstance(value, bool) and wanted is not bool):
        shown = {tuple: "a list", str: "a text", float: "a number", int: "a whole number"}
        raise RuleError(f"{where} must be {shown.get(wanted, 'true or false')}, not {value!r}")


def check_choice(where: str, value: object, choices: Sequence[str]) -> None:
    if value not in choices:
        raise RuleError(f"{where} must be one of {', '.join(choices)}")


def check_regex(regex: object, where: str) -> None:
    try:
        re.compile(str(regex))
    except re.error as error:
        raise RuleError(f"{where}: {regex!r} is no regular expression: {error}") from None
