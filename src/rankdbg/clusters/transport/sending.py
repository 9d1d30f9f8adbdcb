"""Sends rankdbg to a node that does not have it, or has another version.

shell_line(python)   what a launcher runs on the node: finds a Python, starts landing.py
landing_opening      how the conversation with it begins
first_words          what landing.py hears first
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import io
import marshal
import os
import platform
import shutil
import struct
import sys
import zipfile
import zlib
from collections.abc import Mapping
from functools import cache
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path
from typing import Any

from rankdbg import _version, wire
from rankdbg.clusters.transport.channel import Opening
from rankdbg.errors import NodeFailed

PACKAGE = Path(_version.__file__).resolve().parent
COMPILED = "rankdbg-compiled"  # for a Python whose bytecode is ours
# A node needs neither what users look at, nor the ways to other nodes, nor what runs in ranks.
_STAYS_HERE = (
    "frontends", "investigations", "session", "clusters", "demo", "verdicts", "profiles", "grouping.py",
    "agent", "selection", "ray.py",
)  # fmt: skip
# What a node starts as programs of their own: not from an archive.
_PROGRAMS = (("probes", "attach_guard.py"), ("machine", "nvml.py"))

# The scope of a remote node: exit if nothing is received for so many seconds (the network may
# be gone without notice); and compress large answers.
REMOTE = {"silence": 20, "packed": True}

# The interpreters that a node may have, after the one that the user has named. What its own
# processes run on comes last, and is often the only one: a conda environment of the job.
_PYTHONS = "python3 python python3.13 python3.12 python3.11 python3.10 /opt/conda/bin/python"
_RUNNING = "$(readlink /proc/[0-9]*/exe 2>/dev/null | grep -E /python3?[.0-9]*$ | sort -u)"
_NEW_ENOUGH = "import sys; sys.exit(sys.version_info < (3, 10))"
# A link such as python3 -> python3.11 tells its version without a start of Python.
_NAMED_NEW = "*/python3.1[0-9]"


# Byte by byte: what follows the program's line is for the program.
_FROM_STDIN = "bytes().join(iter(lambda: os.read(0, 1) or bytes([10]), bytes([10])))"


def shell_line(python: str = "", name: str = "", program_follows: bool = False) -> str:
    """For `sh -c`. One line, without ! and single quotes, which other login shells would
    read in their own way on the way to it. A name, as the shell there finds it ($VARIABLE),
    makes the node heed only what is said `to` it. With `program_follows` it does not contain
    landing.py, but takes it from stdin: `program_line` comes first there."""
    named = _shell_text(python)
    as_argument = f' "{name}"' if name else ""
    text = _FROM_STDIN if program_follows else f'\\"{_program()}\\"'
    start = f"import binascii, os, zlib; exec(zlib.decompress(binascii.a2b_base64({text})))"
    what = (
        f"{named} cannot be used: it is not Python 3.10 or later"
        if named
        else ("no Python 3.10 or later")
    )
    what = f"{what} (there is:${{found:- none}})"
    hint = "name one that is there: --python /path/to/python3"
    failure = f'{{\\"error\\": {{\\"what\\": \\"{what}\\", \\"hint\\": \\"{hint}\\"}}}}'
    # With a name, only that is tried, and the error lists the others.
    tried = f'[ "$p" = "{named}" ] && ' if named else ""
    candidates = f'"{named}" ' * bool(named) + _PYTHONS
    return (
        "RANKDBG=0; export RANKDBG; found=; "
        'start() { command -v "$p" >/dev/null 2>&1 || return; '
        f'{tried}{{ case $(readlink -f "$(command -v "$p")" 2>/dev/null) in {_NAMED_NEW}) :;; '
        f'*) "$p" -c "{_NEW_ENOUGH}" >/dev/null 2>&1;; esac; }} && '
        f'exec "$p" -I -c "{start}" rankdbg.node{as_argument}; '
        'found="$found $p"; }; '
        f"for p in {candidates}; do start; done; for p in {_RUNNING}; do start; done; "
        f'echo "{failure}"; exit 1'
    )


def program_line() -> bytes:
    """The program for a shell line that reads it from stdin."""
    return f"{_program()}\n".encode()


@cache
def _program() -> str:
    text = (PACKAGE / "clusters/transport/landing.py").read_bytes()
    return base64.b64encode(zlib.compress(text, 9)).decode()


def _shell_text(text: str) -> str:
    """Inside double quotes of a shell, and of JSON."""
    return "".join(f"\\{letter}" if letter in '\\"$`' else letter for letter in text)


def first_words() -> dict[str, Any]:
    keep = os.environ.get("RANKDBG_KEEP") == "1"
    return {"land": {"version": _version.__version__, "keep": keep}}


def landing_opening(
    node: str, scope: Mapping[str, Any], lazy: bool = False, guess: bool = False
) -> Opening:
    """With `lazy`, tools are only offered, and sent when a question needs one. (Not where all nodes
    receive the messages to each, nor with RANKDBG_KEEP, which keeps whole packages.) With
    `guess`, questions follow at once, in case the node has rankdbg: that spares a turn. (Not where
    a question may have to be withdrawn.)"""
    first = first_words()
    lazy = lazy and not first["land"]["keep"]

    def hello(found: Mapping[str, Any]) -> wire.Message:
        return wire.hello({**scope, "offers": _lacking_tools(found)} if lazy else scope)

    guessed = _as_here() if lazy and guess else {}
    if guessed:
        first["land"]["guess"] = guessed
        found = yield (first, hello(guessed))
    else:
        found = yield first
    if "landed" not in found:
        raise NodeFailed(f"{node} does not speak rankdbg's protocol")
    if guessed and guessed.items() <= found.items():
        yield ()  # and then it says that it is ready
        reply = yield ()
    elif lazy:
        yield ({"files": _lacking(found, tools=False)}, hello(found))
        reply = yield ()
    else:
        yield {"files": _lacking(found)}
        reply = yield hello(found)
    wire.check_hello(reply, f"the node {node}")


def _as_here() -> dict[str, Any]:
    """A node with the same rankdbg on the same kind of machine."""
    machine, libc = _binaries_here()
    return {"landed": _version.__version__, "machine": machine, "libc": libc}


def give(kind: str) -> dict[str, Any]:
    """A tool that was offered, for a node that needs it."""
    return {"give": kind, "files": _packed(kind)}


def _lacking(found: Mapping[str, Any], tools: bool = True) -> dict[str, str | None] | None:
    """The archives for the node; without content those that it has kept from earlier."""
    rankdbg_ = COMPILED if found.get("magic") == MAGIC_NUMBER.hex() else "rankdbg"
    kinds = [] if found["landed"] == _version.__version__ else [rankdbg_]
    kinds += [kind for kind in _lacking_tools(found) if kind != "pystack"]
    names = {kind: f"{kind}-{_digest(kind)}" for kind in kinds if tools or kind == rankdbg_}
    kept = found.get("kept", ())
    return {name: None if name in kept else _packed(kind) for kind, name in names.items()} or None


def _lacking_tools(found: Mapping[str, Any]) -> list[str]:
    """The tools for which the local ones are compatible."""
    tools: list[str] = []
    if not _fits(found):
        return tools
    if not found.get("py-spy") and _own_pyspy() is not None:
        tools.append("py-spy")
    if _has_our_python(found) and found["landed"] != _version.__version__:
        tools += ["automaton"] if _own_automaton() else []
        tools += ["pystack"] if _own_package("pystack") else []
    return tools


@cache
def _contents(kind: str) -> dict[str, Path]:
    """Place in the archive -> file here. Without the automaton, logs are read at a tenth of the
    speed, which on most of them is not felt."""
    if kind == "py-spy":
        return {"bin/py-spy": Path(_own_pyspy() or "")}
    if kind == "automaton":
        return {f"{path.parent.name}/{path.name}": path for path in _own_automaton()}
    if kind == "pystack":
        return _own_package("pystack")
    places = {path.relative_to(PACKAGE): path for path in sorted(PACKAGE.rglob("*.py"))}
    programs = {f"bin/{name}": PACKAGE / "node" / folder / name for folder, name in _PROGRAMS}
    package = {f"rankdbg/{p}": path for p, path in places.items() if p.parts[0] not in _STAYS_HERE}
    return programs | package


@cache
def _digest(kind: str) -> str:
    """The digest of an archive: a node that has kept it need not get it again."""
    summed = hashlib.sha256()
    for place, path in _contents(kind).items():
        content = path.read_bytes()
        summed.update(f"{place} {len(content)}\n".encode() + content)
    return summed.hexdigest()[:16]


@cache
def _packed(kind: str) -> str:
    """As base64 of a zip."""
    packed = io.BytesIO()
    level = 6 if kind == COMPILED else 1  # small, and sent to many; py-spy would take a second
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as file:
        for place, path in _contents(kind).items():
            if kind == COMPILED and place.startswith("rankdbg/"):
                file.writestr(f"{place}c", _compiled(path, place))
            else:
                file.write(path, place)
    return base64.b64encode(packed.getvalue()).decode()


def _compiled(path: Path, place: str) -> bytes:
    """A .pyc that needs no source: the pod's processor is spared the compiler. Ours too, where
    Python has kept what it compiled before: for all files it takes half a second."""
    source, status = path.read_bytes(), path.stat()
    try:
        kept = Path(cache_from_source(str(path))).read_bytes()
    except (OSError, NotImplementedError):
        kept = b""
    # As Python's own check: no flags, then time and size of the source.
    of_source = struct.pack("<III", 0, int(status.st_mtime) & 0xFFFFFFFF, len(source))
    if kept[:16] == MAGIC_NUMBER + of_source:
        return kept
    code = compile(source, place, "exec", dont_inherit=True)
    return MAGIC_NUMBER + bytes(12) + marshal.dumps(code)


def _fits(found: Mapping[str, Any]) -> bool:
    """Whether binaries for this machine run on the node."""
    return (found.get("machine"), found.get("libc")) == _binaries_here()


def _binaries_here() -> tuple[str, str]:
    return platform.machine(), platform.libc_ver()[0]


def _has_our_python(found: Mapping[str, Any]) -> bool:
    return str(found.get("python")).split(".")[:2] == platform.python_version().split(".")[:2]


def _own_automaton() -> list[Path]:
    """The files of ahocorasick_rs."""
    found = importlib.util.find_spec("ahocorasick_rs")
    package = Path(found.origin).parent if found and found.origin else None
    return [*package.glob("*.py"), *package.glob("*.so")] if package else []


def _own_package(name: str) -> dict[str, Path]:
    """Its files, and the libraries that its wheel has brought; nothing if it is not here."""
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        return {}
    above = Path(found.origin).parent.parent
    files = [*(above / name).rglob("*.py"), *(above / name).rglob("*.so")]
    files += (above / f"{name}.libs").glob("*")
    return {str(path.relative_to(above)): path for path in sorted(files)}


def _own_pyspy() -> str | None:
    beside = Path(sys.executable).parent / "py-spy"
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("py-spy")
