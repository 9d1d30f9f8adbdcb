"""The first thing that runs on a node that rankdbg was not installed on.

It is a program of its own: its text is sent on a command line, and it imports nothing of
rankdbg until it knows which. It says what it has found, takes what it lacks, puts that into
a directory that only its user can enter, and becomes the node process. The node removes the
directory when it ends; what a killed one has left is removed here. If the client wishes it, what
was sent is kept, as it came, beside the agents' sockets: the next need not send it again.

    -> {"land": {"version": "0.1.0", "keep": false}}
    <- {"landed": "0.1.0" or null, "machine": "x86_64", "libc": "glibc 2.36", "py-spy": true,
        "kept": ["rankdbg-0a1b", ...]}
    -> {"files": null}  or  {"files": {"rankdbg-0a1b": null, "py-spy-2c3d": "<base64 of a zip>"}}
    <- {"coming": 65536}    every few seconds, while that takes its time
    <- {"ready": true}

Where all nodes hear what is said (srun), it has their names: `to`. What all may need is
then offered once: {"offer": "py-spy-2c3d", "files": "..."}, {"files": {"py-spy-2c3d": null}}.
"""

from __future__ import annotations

import base64
import glob
import io
import json
import os
import platform
import runpy
import select
import shutil
import stat
import sys
import tempfile
import time
import zipfile
import zlib
from typing import Any, TextIO

PREFIX = "rankdbg-node-"
SILENCE = 60.0
SIGN_EVERY = 2.0
# What no client has asked for in so many seconds is of an old version.
KEEP_SECONDS = 30 * 86400.0
NAME = sys.argv[2] if len(sys.argv) > 2 else ""

heard = bytearray()
offers: dict[str, str] = {}


def main() -> None:
    # Only messages may go to stdout: whatever else prints goes to stderr.
    say = os.fdopen(os.dup(1), "w")
    remove_left_overs()
    keep = hear("land", say)["keep"]
    found = {"landed": version_here(), "python": platform.python_version(), **what_fits()}
    tell(say, {**found, "kept": kept()})
    files = hear("files", say)
    try:
        if files is not None:
            unpack({name: content(name, files[name], keep) for name in files})
    except OSError as error:
        tell(say, {"error": {"what": f"rankdbg cannot be put on the node: {error}"}})
        return
    tell(say, {"ready": True})
    given = {"NAME": NAME, "HEARD": bytes(heard)}
    runpy.run_module("rankdbg.node", given, run_name="__main__", alter_sys=True)


def tell(say: TextIO, message: dict[str, Any]) -> None:
    say.write(json.dumps(message) + "\n")
    say.flush()


def hear(key: str, say: TextIO) -> Any:
    """What is said to this node under that key. What comes after it is for the node process."""
    told = time.monotonic()
    while True:
        while b"\n" not in heard:
            # Whoever has started us speaks at once, unless the way here is broken already.
            data = os.read(0, 1 << 16) if select.select([0], [], [], SILENCE)[0] else b""
            if not data:
                sys.exit(0)
            heard.extend(data)
            if time.monotonic() > told + SIGN_EVERY:
                told = time.monotonic()
                tell(say, {"coming": len(heard)})
        end = heard.index(b"\n")
        line = json.loads(heard[:end].decode())
        del heard[: end + 1]
        for message in unbundled(line):
            if "offer" in message:
                offers[message["offer"]] = message["files"]
            elif key in message and message.get("to", NAME) == NAME:
                return message[key]


def unbundled(message: dict[str, Any]) -> list[dict[str, Any]]:
    if "packed" in message:
        message = json.loads(zlib.decompress(base64.b64decode(message["packed"])))
    messages: list[dict[str, Any]] = message.get("all", [message])
    return messages


def version_here() -> str | None:
    try:
        import rankdbg

        return rankdbg.__version__
    except Exception:
        return None


def what_fits() -> dict[str, Any]:
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):
        libc = None
    beside = os.path.join(os.path.dirname(sys.executable), "py-spy")
    has = os.path.exists(beside) or shutil.which("py-spy") is not None
    return {"machine": platform.machine(), "libc": (libc or "").split(" ")[0], "py-spy": has}


# --- what was sent ------------------------------------------------------------------------------


def keeping_place(make: bool = False) -> str:
    """Beside the agents' sockets, where only this user can write; `` if there is no such."""
    above = os.environ.get("RANKDBG_DIR") or f"/tmp/rankdbg-{os.geteuid()}"
    place = os.path.join(above, "sent")
    try:
        for folder in (above, place):
            if make and not os.path.isdir(folder):
                os.mkdir(folder, 0o700)
            status = os.lstat(folder)
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
                return ""
            if status.st_mode & 0o022:
                return ""
    except OSError:
        return ""
    return place


def kept() -> list[str]:
    """The names of what earlier clients have sent, and is whole."""
    place = keeping_place()
    names = []
    for name in os.listdir(place) if place else ():
        path = os.path.join(place, name)
        try:
            if time.time() - os.stat(path).st_mtime > KEEP_SECONDS:
                os.unlink(path)
            elif is_whole(path):
                names.append(name)
        except OSError:  # another client was quicker
            continue
    return names


def is_whole(path: str) -> bool:
    try:
        with zipfile.ZipFile(path) as packed:
            return packed.testzip() is None
    except (zipfile.BadZipFile, zlib.error, EOFError):
        return False


def content(name: str, sent: str | None, keep: bool) -> bytes:
    """Of what is to be unpacked: as it was sent, or offered, or kept."""
    came = sent or offers.get(name)
    if came is None:
        path = os.path.join(keeping_place(), name)
        os.utime(path)
        with open(path, "rb") as file:
            return file.read()
    archive = base64.b64decode(came)
    place = keeping_place(make=True) if keep else ""
    if place:
        put(archive, os.path.join(place, name))
    return archive


def put(archive: bytes, path: str) -> None:
    partial = f"{path}.{os.getpid()}"
    try:
        with open(partial, "xb") as file:
            file.write(archive)
        os.rename(partial, path)
    except OSError:  # no room: then it is sent again next time
        if os.path.exists(partial):
            os.unlink(partial)


def unpack(archives: dict[str, bytes]) -> None:
    directory = make_directory(sum(map(len, archives.values())))
    os.environ["RANKDBG_LANDED"] = directory
    for archive in archives.values():
        with zipfile.ZipFile(io.BytesIO(archive)) as packed:
            packed.extractall(directory)
            for name in packed.namelist():
                if name.startswith("bin/"):
                    os.chmod(os.path.join(directory, name), 0o700)
    for name in [name for name in sys.modules if name.partition(".")[0] == "rankdbg"]:
        del sys.modules[name]
    sys.path.insert(0, directory)


def make_directory(size: int) -> str:
    """Where there is room: the temporary directory of a container may be tiny, or missing."""
    refusal = OSError("there is no temporary directory")
    prefix = f"{PREFIX}{os.getpid()}-{namespace()}-"
    for place in (None, "/dev/shm", "/var/tmp"):
        try:
            directory = tempfile.mkdtemp(prefix=prefix, dir=place)
        except OSError as error:
            refusal = error
            continue
        free = os.statvfs(directory)
        if free.f_bavail * free.f_frsize > 8 * size:
            return directory
        os.rmdir(directory)
        refusal = OSError(f"no room left in {os.path.dirname(directory)}")
    raise refusal


def namespace() -> str:
    """Of process ids: two containers that share a temporary directory do not share those."""
    try:
        return os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        return "0"


def remove_left_overs() -> None:
    for place in (tempfile.gettempdir(), "/dev/shm", "/var/tmp"):
        for directory in glob.glob(os.path.join(glob.escape(place), PREFIX + "*")):
            pid, _, rest = os.path.basename(directory)[len(PREFIX) :].partition("-")
            ours = rest.startswith(f"{namespace()}-") and pid.isdigit()
            if ours and not runs(pid):
                shutil.rmtree(directory, ignore_errors=True)


def runs(pid: str) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(") ")[2][:1] not in "ZX"
    except OSError:
        return False


main()
