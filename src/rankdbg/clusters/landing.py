"""The first thing that runs on a node that rankdbg was not installed on.

It is a program of its own: its text is sent on a command line, and it imports nothing of
rankdbg until it knows which. It says what it has found, takes what it lacks, puts that into
a directory that only its user can enter, and becomes the node process. The node removes the
directory when it ends; what a killed one has left is removed here.

    -> {"land": "0.1.0"}
    <- {"landed": "0.1.0" or null, "machine": "x86_64", "libc": "glibc 2.36", "py-spy": true}
    -> {"files": null}  or  {"files": "<base64 of a zip>"}
    <- {"ready": true}

Where all nodes hear what is said (srun), it has their names: `to`. What all may need is
then offered once, and named by its number: {"offer": 0, "files": "..."}, {"files": 0}.
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
import sys
import tempfile
import zipfile
import zlib
from typing import Any, TextIO

PREFIX = "rankdbg-node-"
SILENCE = 60.0
NAME = sys.argv[2] if len(sys.argv) > 2 else ""

heard = bytearray()
offers: dict[Any, str] = {}


def main() -> None:
    # Only messages may go to stdout: whatever else prints goes to stderr.
    say = os.fdopen(os.dup(1), "w")
    remove_left_overs()
    hear("land")
    tell(say, {"landed": version_here(), "python": platform.python_version(), **what_fits()})
    files = hear("files")
    try:
        if files is not None:
            unpack(base64.b64decode(files))
    except OSError as error:
        tell(say, {"error": {"what": f"rankdbg cannot be put on the node: {error}"}})
        return
    tell(say, {"ready": True})
    given = {"NAME": NAME, "HEARD": bytes(heard)}
    runpy.run_module("rankdbg.node", given, run_name="__main__", alter_sys=True)


def tell(say: TextIO, message: dict[str, Any]) -> None:
    say.write(json.dumps(message) + "\n")
    say.flush()


def hear(key: str) -> Any:
    """What is said to this node under that key. What comes after it is for the node process."""
    while True:
        while b"\n" not in heard:
            # Whoever has started us speaks at once, unless the way here is broken already.
            data = os.read(0, 1 << 16) if select.select([0], [], [], SILENCE)[0] else b""
            if not data:
                sys.exit(0)
            heard.extend(data)
        end = heard.index(b"\n")
        line = json.loads(heard[:end].decode())
        del heard[: end + 1]
        for message in unbundled(line):
            if "offer" in message:
                offers[message["offer"]] = message["files"]
            elif key in message and message.get("to", NAME) == NAME:
                return offers.get(message[key], message[key])


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


def unpack(archive: bytes) -> None:
    directory = make_directory(len(archive))
    os.environ["RANKDBG_LANDED"] = directory
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
