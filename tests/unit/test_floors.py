"""Folders are floors: imports go down only, and the agent stands on next to nothing."""

from __future__ import annotations

import ast
import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rankdbg

SOURCE = Path(rankdbg.__file__).parent

# Parts of one floor never import each other.
FLOORS = [
    {"types", "errors", "_version"},
    {"files", "text"},
    {"wire", "selection", "grouping"},
    {"process"},
    {"logs", "profiles", "roster"},
    {"dumps"},
    {"ray"},
    {"agent", "node", "clusters", "verdicts"},
    {"session"},
    {"investigations"},
    {"frontends"},
    {"__main__"},
]
LEVEL = {part: level for level, floor in enumerate(FLOORS) for part in floor}
# Programs of their own, which import nothing of rankdbg.
APART = {"demo", "bootstrap"}
# The folders of frontends/ that are no front ends.
SHARED = {"reports", "commands", "html"}
# What a front end never reaches past its investigations for.
BELOW_INVESTIGATIONS = {"agent", "node", "clusters"}


@functools.cache
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


def test_front_ends_stand_on_investigations() -> None:
    """They know neither ranks, nodes nor clusters, but what a session and an investigation say."""
    wrong = [
        f"{path.relative_to(SOURCE)} imports {module}"
        for part, path, module in parts_and_imports()
        if part == "frontends" and imported_part(module) in BELOW_INVESTIGATIONS
    ]
    assert wrong == []


def test_front_ends_do_not_lean_on_each_other() -> None:
    """Each stands on what all share; the command line alone starts the others."""
    wrong = []
    for part, path, module in parts_and_imports():
        target = module.split(".")
        if part != "frontends" or target[:2] != ["rankdbg", "frontends"] or len(target) < 3:
            continue
        own = path.relative_to(SOURCE).parts[1]
        is_folder = (SOURCE / "frontends" / target[2]).is_dir()
        if is_folder and own not in (target[2], "cli") and target[2] not in SHARED:
            wrong.append(f"{path.relative_to(SOURCE)} imports {module}")
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


def test_no_module_imports_itself_through_others() -> None:
    """A circle of imports works by luck: by the order in which they happen."""
    imports: dict[str, set[str]] = {}
    names = {module_name(path): path for path in SOURCE.rglob("*.py")}
    for _, path, module in parts_and_imports():
        own = module_name(path)
        target = module if module in names else module.rpartition(".")[0]
        found = imports.setdefault(own, set())
        if target in names and target != own:
            found.add(target)
        # Whoever imports a module runs the packages around it first.
        while (target := target.rpartition(".")[0]) and not f"{own}.".startswith(f"{target}."):
            found.add(target)
    assert circles(imports) == []


def module_name(path: Path) -> str:
    words = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(words).removesuffix(".__init__")


def circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Modules that are left when all that import none of the others are taken away, and all
    that none of them imports."""
    left = {name: {*targets} for name, targets in imports.items()}
    while True:
        imported = {target for targets in left.values() for target in targets}
        kept = {
            name: {t for t in targets if t in left}
            for name, targets in left.items()
            if targets & left.keys() and name in imported
        }
        if kept == left:
            return [[name, *sorted(targets)] for name, targets in sorted(kept.items())]
        left = kept


def test_agent_does_not_search_its_own_modules() -> None:
    """A module that becomes active registers itself in agent/active.py. A search in sys.modules
    finds modules that another thread has half imported, and breaks silently when one is moved."""
    found = [
        f"{path.relative_to(SOURCE)}:{number}"
        for path in sorted((SOURCE / "agent").rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if "sys.modules" in line and '"rankdbg.' in line
    ]
    assert found == []


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
    assert ("rankdbg.agent.nsys.under_nsys" in loaded) == bool(profile)
    assert "rankdbg.agent.listener" in loaded
    others = {name for name in loaded if name.split(".")[0] != "rankdbg"}
    assert {name for name in others if not name.startswith("_")} <= set(sys.builtin_module_names)
    assert others <= set(sys.stdlib_module_names)


def test_node_process_loads_little() -> None:
    """In every pod it starts anew: modules that take long and that its first answers do not need."""
    code = "import sys, rankdbg.node.__main__; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    slow = {"typing", "dataclasses", "json", "socket", "subprocess", "base64", "queue", "shutil"}
    assert "rankdbg.node.service" in loaded
    assert slow & {*loaded} == set()


def test_connect_is_loaded_by_those_who_call_it_alone() -> None:
    """`import rankdbg` in a rank loads nothing of what a user's machine needs."""
    code = "import sys, rankdbg; print(*sys.modules); rankdbg.connect; print(*sys.modules)"
    environment = {**os.environ, "RANKDBG": "0"}
    told = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)
    before, after = told.splitlines()
    assert "rankdbg.investigations" not in before and "rankdbg.session" not in before
    assert "rankdbg.investigations.connection" in after
    assert "rankdbg.frontends" not in after and "pandas" not in after
