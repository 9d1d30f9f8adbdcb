"""Rule files: TOML, rankdbg's own and those of users, checked before they are used.

docs/reference/rules.md describes the format. One file may hold rules of every kind.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from importlib import import_module, metadata, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rankdbg.errors import RuleError, shortened
from rankdbg.files import foreign_files
from rankdbg.logs.expressions import BadExpression, expression

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

TABLES = ("failure", "harmless", "recovery", "phase", "hang", "profile")
MOST_BYTES = 16 << 20
# Other packages name a package of theirs, of which each *.toml is a rule file.
ENTRY_POINTS = "rankdbg.rules"

T = TypeVar("T")
Text = tuple[str, str]  # the name of a file, and what is in it


def own_texts() -> list[Text]:
    """The files that come with rankdbg."""
    return _texts_in("rankdbg.verdicts.rules")


def plugin_texts(name: str, package: str) -> list[Text]:
    """The files of a package that another distribution adds."""
    try:
        return [(f"{name}/{file}", text) for file, text in _texts_in(package)]
    except (ImportError, OSError, ValueError, TypeError) as error:
        raise RuleError(f"the rules of the plug-in {name} cannot be read: {error}") from None


@cache
def plugins() -> list[tuple[str, str]]:
    """The names of plug-ins, and their packages."""
    entries = metadata.entry_points(group=ENTRY_POINTS)
    return sorted((entry.name, entry.value) for entry in entries)


def of_plugins(load: Callable[[list[Text]], T]) -> Iterator[T]:
    """What `load` makes of each plug-in. One that is faulty is left out, since it must not keep
    a user from the answer; `rankdbg rules` names it."""
    for name, package in plugins():
        try:
            yield load(plugin_texts(name, package))
        except RuleError:
            continue


def _texts_in(package: str) -> list[Text]:
    folder = resources.files(package)
    paths = sorted((path for path in folder.iterdir() if path.name.endswith(".toml")), key=str)
    return [(path.name, path.read_text("utf-8")) for path in paths]


def in_directories(names: Sequence[str]) -> list[str]:
    """Each directory replaced by the rule files in it."""
    found: list[str] = []
    for name in names:
        inside = sorted(map(str, Path(name).glob("*.toml"))) if os.path.isdir(name) else [name]
        if not inside:
            raise RuleError(f"no rule file (*.toml) is in {name}")
        found += inside
    return found


Make = Callable[[Mapping[str, Any], str], T]  # of one entry, and the name of its file


def load(table: str, files: Sequence[str], make: Make[T]) -> list[T]:
    """The rules of one kind. The user's first: users know their own programs better; then those
    of plug-ins, then rankdbg's own."""

    def made(texts: Sequence[Text]) -> list[T]:
        return rules_in(table, texts, make)

    given = made([(name, read(name)) for name in in_directories(files)])
    added = [rule for rules in of_plugins(made) for rule in rules]
    own = [(name, text) for name, text in own_texts() if f"[[{table}]]" in text]  # TOML is slow
    return [*given, *added, *made(own)]


def load_file(table: str, name: str, make: Make[T]) -> list[T]:
    """The rules of one kind in one file alone."""
    return rules_in(table, [(name, read(name))], make)


def rules_in(table: str, texts: Sequence[Text], make: Make[T]) -> list[T]:
    return [make(entry, name) for name, text in texts for entry in parse(name, text).get(table, [])]


def read(name: str) -> str:
    try:
        return foreign_files.read_bytes(name, MOST_BYTES, named=True).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not UTF-8"
        raise RuleError(f"cannot read the rules in {name}: {reason}") from None


@cache  # each kind of rules is read from all files
def parse(name: str, text: str) -> Mapping[str, Any]:
    # `tomllib` came with Python 3.11; `tomli` is the same before that.
    toml: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        content: dict[str, Any] = toml.loads(text)
    except toml.TOMLDecodeError as error:
        raise RuleError(f"{name} is not TOML: {error}") from None
    except RecursionError:
        raise RuleError(f"{name} is not a rule file: it is nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits
        raise RuleError(f"{name}: {error}") from None
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
        expression(str(regex), where)
    except BadExpression as error:
        shown = shortened(str(regex))
        raise RuleError(f"{where}: invalid regular expression {shown!r}: {error}") from None
