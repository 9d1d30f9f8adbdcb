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
from rankdbg.clusters.transport.first_modules import FIRST_MODULES
from rankdbg.errors import NodeFailed, shortened

PACKAGE = Path(_version.__file__).resolve().parent
# All modules, and those that list ranks and read stacks: as source, or for a Python whose bytecode is
# ours.
SOURCE, COMPILED = "rankdbg", "rankdbg-compiled"
FIRST_SOURCE, FIRST_COMPILED = "first", "first-compiled"
# A node needs neither what users look at, nor the ways to other nodes, nor what runs in ranks.
_STAYS_HERE = (
    "frontends", "investigations", "session", "clusters", "demo", "verdicts", "profiles", "grouping.py",
    "agent", "selection", "ray.py",
)  # fmt: skip
TOOLS = ("py-spy", "automaton", "pystack")
PYC_HEADER = 16
# What a node starts as programs of their own: not from an archive.
_PROGRAMS = (("probes", "attach_guard.py"), ("machine", "nvml.py"))

# The scope of a remote node: exit if nothing is received for so many seconds (the network may
# be gone without notice); and compress large answers.
REMOTE = {"silence": 20, "packed": True}

# The interpreters that a node may have, after the one that the user has named. What its own
# processes run on comes last, and is often the only one: a conda environment of the job.
_PYTHONS = (
    "python3 python python3.14 python3.13 python3.12 python3.11 python3.10 /opt/conda/bin/python"
)
_RUNNING = "$(readlink /proc/[0-9]*/exe 2>/dev/null | grep -E /python3?[.0-9]*$ | sort -u)"
_NEW_ENOUGH = "import sys; sys.exit(sys.version_info < (3, 10))"
# A link such as python3 -> python3.11 tells its version without a start of Python.
_NAMED_NEW = "*/python3.1[0-9]"


# landing.py for any Python, and compiled for one whose bytecode is ours: compiling takes 3 ms there.
_START = (
    "import binascii, marshal, os, zlib; from _frozen_importlib_external import MAGIC_NUMBER as magic; "
    "text = bytearray(); {get}; compiled = list(magic) == {magic}; "
    "text = text[:{length}] if compiled else text[{length}:]; "
    "text = zlib.decompress(binascii.a2b_base64(text)); "
    "exec(marshal.loads(text) if compiled else text)"
)
# Up to its end and no further: what follows the program is for the program.
_FROM_STDIN = (
    "[text.extend(part) for part in iter(lambda: os.read(0, {length} - len(text)), bytes())]"
)


def shell_line(python: str = "", name: str = "", program_follows: bool = False) -> str:
    """For `sh -c`. One line, without ! and single quotes, which other login shells would
    read in their own way on the way to it. A name, as the shell there finds it ($VARIABLE),
    makes the node heed only what is said `to` it. With `program_follows` it does not contain
    landing.py, but takes it from stdin: `program_text` comes first there."""
    named = _shell_text(python)
    as_argument = f' "{name}"' if name else ""
    compiled, source = _programs()
    text = compiled + source
    from_stdin = _FROM_STDIN.format(length=len(text))
    get = from_stdin if program_follows else f'text.extend(\\"{text}\\".encode())'
    start = _START.format(get=get, magic=list(MAGIC_NUMBER), length=len(compiled))
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
        f'*) "$p" -I -S -c "{_NEW_ENOUGH}" >/dev/null 2>&1;; esac; }} && '
        f'exec "$p" -I -S -c "{start}" rankdbg.node{as_argument}; '
        'found="$found $p"; }; '
        f"for p in {candidates}; do start; done; for p in {_RUNNING}; do start; done; "
        f'echo "{failure}"; exit 1'
    )


def program_text() -> bytes:
    """The program for a shell line that reads it from stdin."""
    return "".join(_programs()).encode()


@cache
def _programs() -> tuple[str, str]:
    """landing.py, compiled and as source, in letters that every shell passes on as they are."""
    source = (PACKAGE / "clusters/transport/landing.py").read_bytes()
    compiled = marshal.dumps(compile(source, "<rankdbg>", "exec", dont_inherit=True, optimize=2))
    return _as_letters(compiled), _as_letters(source)


def _as_letters(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 9)).decode()


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
        offered = [*_lacking_modules(found)[1:], *_lacking_tools(found)]
        return wire.hello({**scope, "offers": offered} if lazy else scope)

    guessed = _as_here() if lazy and guess else {}
    if guessed:
        first["land"]["guess"] = guessed
        found = yield (first, hello(guessed))
    else:
        found = yield first
    if "landed" not in found or not isinstance(found.get("kept", []), list):
        raise NodeFailed(f"{node} does not speak rankdbg's protocol")
    if guessed and guessed.items() <= found.items():
        yield ()  # and then it says that it is ready
        reply = yield ()
    elif lazy:
        yield ({"files": _lacking(found, lazy=True)}, hello(found))
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
    """A tool that was offered, for a node that needs it. Raises NodeFailed."""
    if kind not in (*TOOLS, SOURCE, COMPILED) or (kind == "py-spy" and _own_pyspy() is None):
        raise NodeFailed(f"a node asks for {shortened(kind)!r}, which was not offered")
    return {"give": kind, "files": _packed(kind)}


def _lacking(found: Mapping[str, Any], lazy: bool = False) -> dict[str, str | None] | None:
    """The archives for the node; without content those that it has kept from earlier. If `lazy`, only
    what it cannot begin without."""
    modules = _lacking_modules(found)
    tools = [kind for kind in _lacking_tools(found) if kind != "pystack"]
    kinds = modules[:1] if lazy else [*modules, *tools]
    names = {kind: f"{kind}-{_digest(kind)}" for kind in kinds}
    kept = found.get("kept", ())
    return {name: None if name in kept else _packed(kind) for kind, name in names.items()} or None


def _lacking_modules(found: Mapping[str, Any]) -> list[str]:
    """Of rankdbg: the first ones, and all."""
    if found["landed"] == _version.__version__:
        return []
    is_ours = found.get("magic") == MAGIC_NUMBER.hex()
    return [FIRST_COMPILED, COMPILED] if is_ours else [FIRST_SOURCE, SOURCE]


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
    if kind in (FIRST_SOURCE, FIRST_COMPILED):
        return {f"rankdbg/{place}": PACKAGE / place for place in FIRST_MODULES}
    places = {path.relative_to(PACKAGE): path for path in sorted(PACKAGE.rglob("*.py"))}
    programs = {f"bin/{name}": PACKAGE / "node" / folder / name for folder, name in _PROGRAMS}
    package = {f"rankdbg/{p}": path for p, path in places.items() if p.parts[0] not in _STAYS_HERE}
    return programs | package


@cache
def _digest(kind: str) -> str:
    """The digest of an archive: a node that has kept it need not get it again."""
    summed = hashlib.sha256(MAGIC_NUMBER if kind in (COMPILED, FIRST_COMPILED) else b"")
    for place, path in _contents(kind).items():
        content = path.read_bytes()
        summed.update(f"{place} {len(content)}\n".encode() + content)
    return summed.hexdigest()[:16]


@cache
def _packed(kind: str) -> str:
    """As base64."""
    packed = _zip(kind) if kind in (SOURCE, COMPILED) else _bundle(kind)
    return base64.b64encode(packed).decode()


def _zip(kind: str) -> bytes:
    packed = io.BytesIO()
    level = 6 if kind == COMPILED else 1
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as file:
        for place, path in _contents(kind).items():
            if kind == COMPILED and place.startswith("rankdbg/"):
                file.writestr(f"{place}c", _compiled(path, place))
            else:
                file.write(path, place)
    return packed.getvalue()


def _bundle(kind: str) -> bytes:
    """What node/offers.py and landing.py read: a line with the size of each file, and their contents."""
    contents = {
        place: _compiled(path, place)[PYC_HEADER:] if kind == FIRST_COMPILED else path.read_bytes()
        for place, path in _contents(kind).items()
    }
    sizes = wire.encode({place: len(content) for place, content in contents.items()})
    level = 1 if kind in TOOLS else 6  # py-spy would take a second
    return zlib.compress(b"".join([sizes, *contents.values()]), level)


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
