"""What a client brings for the ranks of this machine: packages that their environment lacks."""

from __future__ import annotations

import base64
import io
import os
import re
import shutil
import tempfile
import zipfile

from rankdbg import rendezvous

# Frames of what lies there are not the user's code.
_FOLDER = "site-packages"


def place_of(name: str) -> str:
    """Where it would lie: beside the agents' sockets, where only this user can write."""
    if not re.fullmatch(r"[a-z]+-[0-9A-Za-z.+]+", name):
        raise ValueError(f"{name!r} is not the name of a package and its version")
    return os.path.join(rendezvous.directory(), name, _FOLDER)


def receive(name: str, files: str) -> str:
    """Put it there, if it is not there already. It stays: a rank may load pieces of it later,
    and the next client need not bring it again."""
    place = place_of(name)
    if os.path.isdir(place):
        return place
    directory = rendezvous.directory()
    rendezvous.prepare(directory)
    partial = tempfile.mkdtemp(prefix=f"{name}-", suffix=".partial", dir=directory)
    try:
        with zipfile.ZipFile(io.BytesIO(base64.b64decode(files))) as packed:
            packed.extractall(os.path.join(partial, _FOLDER))
        os.rename(partial, os.path.dirname(place))
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)
        if not os.path.isdir(place):  # else another client was faster
            raise
    return place
