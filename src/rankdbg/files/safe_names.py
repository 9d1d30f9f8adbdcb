"""Untrusted names (of nodes, hosts, remote files) as safe names of local files.

Characters that could lead to another directory (`/`, `..`), hide a file, look like an option, or
are invalid are written as %XX, as in URLs. So two different names never become equal.
"""

from __future__ import annotations

import hashlib

LONGEST = 200  # bytes: leaves space for a prefix and a suffix
_PLAIN = frozenset(
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._+=@,:~#!()[] "
)


def component(name: str, most: int = LONGEST) -> str:
    """The name of a directory or file in a directory."""
    return _escaped(name, ".-", most)


def below(path: str, most: int = 255) -> str:
    """A remote path as a relative local path. Dot files of other machines keep their names."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(_escaped(part, "", most))
    return "/".join(parts) or "%"


def _escaped(name: str, not_first: str, most: int) -> str:
    raw = name.encode("utf-8", "surrogatepass")
    letters = [chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in raw]
    if name.isprintable() and not {"/", "%"} & {*name}:
        letters = [*name]  # é is allowed unescaped
    if name[:1] and name[0] in not_first:
        letters[0] = f"%{ord(name[0]):02X}"
    made = "".join(letters) or "%"
    if len(made.encode()) <= most:
        return made
    # Cut, with a digest of the whole name: long names may have equal beginnings.
    digest = hashlib.sha256(raw).hexdigest()[:16]
    return made.encode()[: most - 18].decode("utf-8", "ignore") + f"%~{digest}"
