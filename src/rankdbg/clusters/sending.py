"""Getting rankdbg to a node that has none, or another version: the client sends itself.

shell_line(python)   what a launcher runs on the node: finds a Python, starts landing.py
landing_opening      how the conversation with it begins
first_words          what landing.py hears first
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import io
import os
import platform
import shutil
import sys
import zipfile
import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import rankdbg
from rankdbg import wire
from rankdbg.clusters.channel import Opening
from rankdbg.errors import NodeFailed

PACKAGE = Path(rankdbg.__file__).resolve().parent
# A node needs neither what users look at nor the ways to other nodes.
_STAYS_HERE = ("frontends", "clusters", "demo", "verdicts", "session.py", "grouping.py")

# What a node elsewhere is told: end, if nothing is heard for so many seconds (the network may
# be gone, and nobody tells); and make large answers small.
REMOTE = {"silence": 20, "packed": True}

# The interpreters that a node may have, after the one that the user has named. What its own
# processes run on comes last, and is often the only one: a conda environment of the job.
_PYTHONS = "python3 python python3.13 python3.12 python3.11 python3.10 /opt/conda/bin/python"
_RUNNING = "$(readlink /proc/[0-9]*/exe 2>/dev/null | grep -E /python3?[.0-9]*$ | sort -u)"
_NEW_ENOUGH = "import sys; sys.exit(sys.version_info < (3, 10))"


def shell_line(python: str = "", name: str = "") -> str:
    """For `sh -c`. One line, without ! and single quotes, which other login shells would
    read in their own way on the way to it. A name, as the shell there finds it ($VARIABLE),
    makes the node heed only what is said `to` it."""
    named = _shell_text(python)
    as_argument = f' "{name}"' if name else ""
    program = base64.b64encode(zlib.compress((PACKAGE / "clusters/landing.py").read_bytes(), 9))
    text = f'\\"{program.decode()}\\"'
    start = f"import base64, zlib; exec(zlib.decompress(base64.b64decode({text})))"
    what = (
        f"{named} cannot be used: it is not Python 3.10 or later"
        if named
        else ("no Python 3.10 or later")
    )
    what = f"{what} (there is:${{found:- none}})"
    hint = "name one that is there: --python /path/to/python3"
    failure = f'{{\\"error\\": {{\\"what\\": \\"{what}\\", \\"hint\\": \\"{hint}\\"}}}}'
    # With a name, only that is tried, and the others are told of.
    tried = f'[ "$p" = "{named}" ] && ' if named else ""
    candidates = f'"{named}" ' * bool(named) + f"{_PYTHONS} {_RUNNING}"
    return (
        "RANKDBG=0; export RANKDBG; found=; "
        f"for p in {candidates}; do "
        'command -v "$p" >/dev/null 2>&1 || continue; '
        f'{tried}"$p" -c "{_NEW_ENOUGH}" >/dev/null 2>&1 && '
        f'exec "$p" -I -c "{start}" rankdbg.node{as_argument}; '
        'found="$found $p"; done; '
        f'echo "{failure}"; exit 1'
    )


def _shell_text(text: str) -> str:
    """Inside double quotes of a shell, and of JSON."""
    return "".join(f"\\{letter}" if letter in '\\"$`' else letter for letter in text)


def first_words() -> dict[str, Any]:
    keep = os.environ.get("RANKDBG_KEEP") == "1"
    return {"land": {"version": rankdbg.__version__, "keep": keep}}


def landing_opening(node: str, scope: Mapping[str, Any]) -> Opening:
    found = yield first_words()
    if "landed" not in found:
        raise NodeFailed(f"{node} does not speak rankdbg's protocol")
    yield {"files": _lacking(found)}
    reply = yield wire.hello(scope)
    wire.check_hello(reply, f"the node {node}")


def _lacking(found: Mapping[str, Any]) -> dict[str, str | None] | None:
    """What the node is to unpack; without its content what it has kept of an earlier time."""
    same, kept = found["landed"] == rankdbg.__version__, found.get("kept", ())
    kinds = []
    if not same:
        kinds.append("rankdbg")
    if not found.get("py-spy") and _fits(found) and _own_pyspy() is not None:
        kinds.append("py-spy")
    if not same and _fits(found) and _has_our_python(found) and _own_automaton():
        kinds.append("automaton")
    names = {kind: f"{kind}-{_digest(kind)}" for kind in kinds}
    return {name: None if name in kept else _packed(kind) for kind, name in names.items()} or None


@cache
def _contents(kind: str) -> dict[str, Path]:
    """Place in the archive -> file here. Without the automaton, logs are read at a tenth of the
    speed, which on most of them is not felt."""
    if kind == "py-spy":
        return {"bin/py-spy": Path(_own_pyspy() or "")}
    if kind == "automaton":
        return {f"{path.parent.name}/{path.name}": path for path in _own_automaton()}
    places = {path.relative_to(PACKAGE): path for path in sorted(PACKAGE.rglob("*.py"))}
    return {f"rankdbg/{p}": path for p, path in places.items() if p.parts[0] not in _STAYS_HERE}


@cache
def _digest(kind: str) -> str:
    """Of what would be sent: a node that has kept the same need not be sent it again."""
    summed = hashlib.sha256()
    for place, path in _contents(kind).items():
        content = path.read_bytes()
        summed.update(f"{place} {len(content)}\n".encode() + content)
    return summed.hexdigest()[:16]


@cache
def _packed(kind: str) -> str:
    """As base64 of a zip."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for place, path in _contents(kind).items():
            file.write(path, place)
    return base64.b64encode(packed.getvalue()).decode()


def _fits(found: Mapping[str, Any]) -> bool:
    """Whether what was compiled for this machine can run there."""
    here = platform.machine(), platform.libc_ver()[0]
    return (found.get("machine"), found.get("libc")) == here


def _has_our_python(found: Mapping[str, Any]) -> bool:
    return str(found.get("python")).split(".")[:2] == platform.python_version().split(".")[:2]


def _own_automaton() -> list[Path]:
    """The files of ahocorasick_rs."""
    found = importlib.util.find_spec("ahocorasick_rs")
    package = Path(found.origin).parent if found and found.origin else None
    return [*package.glob("*.py"), *package.glob("*.so")] if package else []


def _own_pyspy() -> str | None:
    beside = Path(sys.executable).parent / "py-spy"
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("py-spy")
