"""Folders are floors: imports go down only, and the agent stands on next to nothing."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rankdbg

SOURCE = Path(rankdbg.__file__).parent

FLOORS = [
    {"types", "errors"},
    {
        "wire",
        "streams",
        "mesh",
        "selection",
        "grouping",
        "identity",
        "rendezvous",
        "user_code",
        "masking",
        "logs",
        "path_maps",
        "amounts",
    },
    {"nsys", "answers"},
    {"ray"},
    {"agent", "node", "clusters", "verdicts", "log_answers", "profiles"},
    {"session"},
    {"frontends"},
    {"__main__"},
]
LEVEL = {part: level for level, floor in enumerate(FLOORS) for part in floor}
# Programs of their own, which import nothing of rankdbg.
APART = {"demo", "bootstrap"}


def parts_and_imports() -> list[tuple[str, Path, str]]:
    """(the part of rankdbg, its file, a module that is imported there)."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        part = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found += [(part, path, alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{path}:{node.lineno}: a relative import"
                for alias in node.names:
                    found.append((part, path, f"{node.module}.{alias.name}"))
    return found


def imported_part(module: str) -> str:
    """`agent` for rankdbg.agent.card; `` for what is not rankdbg's or no part of it."""
    words = module.split(".")
    return words[1] if words[0] == "rankdbg" and words[1:] not in ([], ["__version__"]) else ""


def test_every_part_has_its_floor() -> None:
    """A new module or folder of rankdbg must be given its floor here."""
    parts = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in SOURCE.rglob("*.py")}
    assert parts - {"__init__"} - APART <= LEVEL.keys()


def test_imports_go_down_only() -> None:
    """A part imports only from floors below its own, or from itself."""
    wrong = [
        f"{path.relative_to(SOURCE)} imports {module}"
        for part, path, module in parts_and_imports()
        if (target := imported_part(module)) not in ("", part) and part != "__init__"
        if part in APART or LEVEL[target] >= LEVEL[part]
    ]
    assert wrong == []


def test_agent_imports_standard_library_only() -> None:
    """No file of agent/ imports anything but rankdbg and the standard library."""
    foreign = [
        f"{path.relative_to(SOURCE)} imports {module}"
        for part, path, module in parts_and_imports()
        if part == "agent" and module.split(".")[0] not in {*sys.stdlib_module_names, "rankdbg"}
        if module != "sitecustomize"  # bootstrap runs the one that it hides
    ]
    assert foreign == []


def modules_of_bare_python(**changes: str) -> set[str]:
    code = "import sys; print(*sys.modules)"
    environment = {**os.environ, **changes}
    words = [sys.executable, "-c", code]
    return set(subprocess.check_output(words, env=environment, text=True).split())


@pytest.mark.parametrize("profile", [{}, {"RANKDBG_NSYS_WORKERS": "other*", "RANK": "1"}])
def test_started_agent_loads_next_to_nothing(tmp_path: Path, profile: dict[str, str]) -> None:
    """Beside rankdbg, only what no program can shadow: built-in and underscored modules. Also
    in a rank that has to know whether it is one to be profiled."""
    bare = modules_of_bare_python(RANKDBG="0")
    loaded = modules_of_bare_python(RANKDBG="1", RANKDBG_DIR=str(tmp_path), **profile) - bare
    assert ("rankdbg.agent.under_nsys" in loaded) == bool(profile)
    assert "rankdbg.agent.listener" in loaded
    others = {name for name in loaded if name.split(".")[0] != "rankdbg"}
    assert {name for name in others if not name.startswith("_")} <= set(sys.builtin_module_names)
    assert others <= set(sys.stdlib_module_names)
