"""The first program that runs on a node without rankdbg.

It is a separate program: its text is sent on a command line, and it imports nothing of rankdbg
until it knows which version to use. It reports what it has found, receives what is missing, puts
that into a directory that only its user can access, and becomes the node process. The node
removes the directory when it exits; directories of killed nodes are removed here. On request,
received files are kept next to the agents' sockets, so that they are not sent again.

    -> {"land": {"version": "0.1.0", "keep": false, "guess": {"landed": "0.1.0", ...} or null}}
    <- {"landed": "0.1.0" or null, "machine": "x86_64", "libc": "glibc 2.36", "py-spy": true,
        "kept": ["rankdbg-0a1b", ...]}
    -> {"files": null}  or  {"files": {"rankdbg-0a1b": null, "py-spy-2c3d": "<base64 of a zip>"}}
    <- {"coming": 65536}    every few seconds, while receiving
    <- {"ready": true}

Of rankdbg, the modules that list ranks and read stacks come first, as one bundle that is never a file
(first-…). All modules are an archive (rankdbg-…), which the client may only have offered: then a
module that is not in the bundle makes the node ask for it (node/offers.py).

A client that guesses what is here goes on without waiting for the answer: with a right guess, no
files follow, and the next message is for the node; with a wrong one, what came before the files is
dropped, and the client says it again.

If all nodes receive every message (srun), messages name the node: `to`. Content for all is
then sent once: {"offer": "py-spy-2c3d", "files": "..."}, {"files": {"py-spy-2c3d": null}}.
"""

from __future__ import annotations

# It runs in every pod, on a share of a CPU: rarely used modules are imported where needed, and of
# json only the half in C, as in wire/: json, base64 and typing take 14 ms.
import gc
import os
import select
import stat
import sys
import time
import zlib
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER
from _json import encode_basestring_ascii, make_encoder, make_scanner
from binascii import a2b_base64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO

PREFIX = "rankdbg-node-"
SILENCE = 60.0
SIGN_EVERY = 2.0
# Files that no client has used for this long are from an old version.
KEEP_SECONDS = 30 * 86400.0
NAME = sys.argv[2] if len(sys.argv) > 2 else ""

heard = bytearray()
offers: dict[str, str] = {}


class ScannerSettings:
    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float
    memo: dict[str, str] = {}  # noqa: RUF012 - the scanner clears it itself


encode = make_encoder(None, repr, encode_basestring_ascii, None, ": ", ", ", False, False, True)
scan = make_scanner(ScannerSettings)  # type: ignore[arg-type]


def main() -> None:
    gc.disable()  # while modules are loaded; the node enables it
    # stdout is for messages only: other output goes to stderr.
    say = os.fdopen(os.dup(1), "w")
    remove_left_overs()
    land = hear("land", say)
    keep, guess = land["keep"], land.get("guess")
    found = {"landed": version_here(), "python": sys.version.split()[0], **what_fits()}
    tell(say, {**found, "kept": kept()})
    files = None if guess and guess.items() <= found.items() else hear("files", say)
    try:
        if files is not None:
            unpack({name: content(name, files[name], keep) for name in files})
    except OSError as error:
        what = f"cannot copy rankdbg to the node: {error}"
        hint = (
            "a few MB are needed in /tmp, /dev/shm or /var/tmp; in a pod mount an emptyDir at /tmp"
        )
        tell(say, {"error": {"what": what, "hint": hint}})
        return
    tell(say, {"ready": True})
    imported("rankdbg.node.__main__").main(NAME, bytes(heard))  # of the right version now


def imported(name: str) -> Any:
    """As importlib.import_module, which takes a millisecond to load, does it."""
    __import__(name)
    return sys.modules[name]


def tell(say: TextIO, message: dict[str, Any]) -> None:
    say.write("".join(encode(message, 0)) + "\n")
    say.flush()


def hear(key: str, say: TextIO) -> Any:
    """The next message for this node with that key. Later data is for the node process."""
    told = time.monotonic()
    while True:
        while b"\n" not in heard:
            # The client sends at once, unless the connection is already broken.
            data = os.read(0, 1 << 16) if select.select([0], [], [], SILENCE)[0] else b""
            if not data:
                sys.exit(0)
            heard.extend(data)
            if time.monotonic() > told + SIGN_EVERY:
                told = time.monotonic()
                tell(say, {"coming": len(heard)})
        end = heard.index(b"\n")
        line, _ = scan(heard[:end].decode().strip(), 0)
        del heard[: end + 1]
        for message in unbundled(line):
            if "offer" in message:
                offers[message["offer"]] = message["files"]
            elif key in message and message.get("to", NAME) == NAME:
                return message[key]


def unbundled(message: dict[str, Any]) -> list[dict[str, Any]]:
    if "packed" in message:
        message, _ = scan(zlib.decompress(a2b_base64(message["packed"])).decode().strip(), 0)
    messages: list[dict[str, Any]] = message.get("all", [message])
    return messages


def version_here() -> str | None:
    """Python was started without `site`, which takes 4 ms, and longer where many packages have a .pth
    file. It is needed only if rankdbg is installed in place. (node/programs.py loads it for the rest.)"""
    folder = next(filter(has_rankdbg, packages()), None)
    if folder is None:
        return None
    try:
        if os.path.isdir(os.path.join(folder, "rankdbg")):
            sys.path.append(folder)
        else:
            import site

            site.main()
        import rankdbg

        return rankdbg.__version__
    except Exception:
        return None


def packages() -> list[str]:
    """Where this Python has its packages, as far as that is known without `site`, and nothing that `site`
    would not use. If rankdbg is elsewhere, it is sent."""
    library = os.path.dirname(os.__file__)
    version = os.path.basename(library)  # python3.12
    above = os.path.dirname(os.path.dirname(sys.executable))
    is_venv = os.path.exists(os.path.join(above, "pyvenv.cfg"))
    folders = [
        os.path.join(above if is_venv else sys.prefix, folder, version, "site-packages")
        for folder in ("lib", "lib64")
    ]
    if (
        not is_venv
        and library.startswith("/usr/lib/python3")
        and os.path.exists("/etc/debian_version")
    ):
        folders += [f"/usr/local/lib/{version}/dist-packages", "/usr/lib/python3/dist-packages"]
    return folders


def has_rankdbg(folder: str) -> bool:
    try:
        return any(name.startswith("rankdbg-") for name in os.listdir(folder))
    except OSError:
        return False


def what_fits() -> dict[str, Any]:
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):
        libc = None
    folders = [os.path.dirname(sys.executable), *os.environ.get("PATH", "").split(":")]
    has = any(os.access(os.path.join(folder, "py-spy"), os.X_OK) for folder in folders)
    machine, magic = os.uname().machine, MAGIC_NUMBER.hex()
    about = {"machine": machine, "libc": (libc or "").split(" ")[0], "magic": magic}
    return {**about, "py-spy": has}


# --- what was sent ------------------------------------------------------------------------------


def keeping_place(make: bool = False) -> str:
    """Next to the agents' sockets, writable for this user only; empty if there is none."""
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
    """The names of complete archives that earlier clients have sent."""
    place = keeping_place()
    names = []
    for name in os.listdir(place) if place else ():
        path = os.path.join(place, name)
        try:
            if time.time() - os.stat(path).st_mtime > KEEP_SECONDS:
                os.unlink(path)
            elif is_whole(path):
                names.append(name)
        except OSError:  # removed by another client
            continue
    return names


def is_whole(path: str) -> bool:
    import zipfile

    try:
        if not os.path.basename(path).startswith("rankdbg-"):
            with open(path, "rb") as file:
                return bool(zlib.decompress(file.read()))
        with zipfile.ZipFile(path) as packed:
            return packed.testzip() is None
    except (zipfile.BadZipFile, zlib.error, EOFError):
        return False


def content(name: str, sent: str | None, keep: bool) -> bytes:
    """An archive to unpack: sent, offered, or kept from earlier."""
    came = sent or offers.get(name)
    if came is None:
        path = os.path.join(keeping_place(), name)
        os.utime(path)
        with open(path, "rb") as file:
            return file.read()
    archive = a2b_base64(came)
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
    except OSError:  # no space: it is sent again next time
        if os.path.exists(partial):
            os.unlink(partial)


def unpack(archives: dict[str, bytes]) -> None:
    directory = make_directory(sum(map(len, archives.values())))
    os.environ["RANKDBG_LANDED"] = directory
    first = [name for name in archives if name.startswith("first-")]
    for name in first:
        for module in [name for name in sys.modules if name.partition(".")[0] == "rankdbg"]:
            del sys.modules[module]
        sys.meta_path.insert(0, SentModules(archives[name], "-compiled-" in name, directory))
    for name in [name for name in archives if name not in first]:
        imported("rankdbg.node.offers").unpack(name.rpartition("-")[0], archives[name], directory)


class SentModules:
    """Finds the modules of rankdbg that were sent, and no others. Those of the bundle are in memory:
    from an archive, fifty of them take 10 ms."""

    def __init__(self, bundle: bytes, compiled: bool, directory: str) -> None:
        header, _, content = zlib.decompress(bundle).partition(b"\n")
        self._compiled = compiled
        self._archive = os.path.join(directory, "rankdbg.zip")
        self._bundled: dict[str, bytes] = {}
        start = 0
        for place, size in scan(header.decode(), 0)[0].items():
            self._bundled[place] = content[start : start + size]
            start += size

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] != "rankdbg":
            return None
        place = name.replace(".", "/")
        for file, is_package in ((f"{place}.py", False), (f"{place}/__init__.py", True)):
            if file in self._bundled:
                origin = os.path.join(self._archive, file)
                loader: Any = self
                spec = ModuleSpec(name, loader, origin=origin, is_package=is_package)
                spec.loader_state = file
                spec.has_location = True
                if is_package and spec.submodule_search_locations is not None:
                    spec.submodule_search_locations.append(os.path.dirname(origin))
                return spec
        return self._from_archive(name)

    def _from_archive(self, name: str) -> Any:
        from zipimport import zipimporter

        if not os.path.exists(self._archive):
            imported("rankdbg.node.offers").need_rest()
            return None
        folder = os.path.join(self._archive, *name.split(".")[:-1])
        return zipimporter(folder).find_spec(name)

    def create_module(self, spec: Any) -> None:
        """As usual."""

    def exec_module(self, module: Any) -> None:
        file = module.__spec__.loader_state
        content = self._bundled[file]
        if self._compiled:
            import marshal

            code = marshal.loads(content)
        else:
            code = compile(content, module.__spec__.origin, "exec", dont_inherit=True)
        exec(code, module.__dict__)


def places() -> list[str]:
    """For temporary files. A container with a read-only root may have no writable /tmp."""
    named = [os.environ[name] for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)]
    return [*dict.fromkeys([*map(os.path.abspath, named), "/tmp", "/dev/shm", "/var/tmp"])]


def make_directory(size: int) -> str:
    """Where there is space: the temporary directory of a container may be tiny or missing."""
    refusal = OSError("there is no temporary directory")
    for place in places():
        name = f"{PREFIX}{os.getpid()}-{namespace()}-{os.urandom(4).hex()}"
        directory = os.path.join(place, name)
        try:
            os.mkdir(directory, 0o700)
        except OSError as error:
            refusal = error
            continue
        free = os.statvfs(directory)
        if free.f_bavail * free.f_frsize > 8 * size:
            os.environ["TMPDIR"] = place  # for what the node writes, too
            return directory
        os.rmdir(directory)
        refusal = OSError(f"no space left in {os.path.dirname(directory)}")
    raise refusal


def namespace() -> str:
    """The pid namespace: containers that share a temporary directory have different ones."""
    try:
        return os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        return "0"


def remove_left_overs() -> None:
    for place in places():
        try:
            left = [name for name in os.listdir(place) if name.startswith(PREFIX)]
        except OSError:
            continue
        for name in left:
            pid, _, rest = name[len(PREFIX) :].partition("-")
            ours = rest.startswith(f"{namespace()}-") and pid.isdigit()
            if ours and not runs(pid):
                import shutil

                shutil.rmtree(os.path.join(place, name), ignore_errors=True)


def runs(pid: str) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(") ")[2][:1] not in "ZX"
    except OSError:
        return False


main()
