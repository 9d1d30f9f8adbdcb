"""Packages that a client sends for ranks whose environment lacks them."""

from __future__ import annotations

import base64
import io
import os
import re
import shutil
import tempfile
import zipfile

from rankdbg.process import rendezvous

# Frames of files in this folder are not user code.
_FOLDER = "site-packages"


def place_of(name: str) -> str:
    """Its path: next to the agents' sockets, where only this user can write."""
    if not re.fullmatch(r"[a-z]+-[0-9A-Za-z.+]+", name):
        raise ValueError(f"invalid package name {name!r}: expected NAME-VERSION")
    return os.path.join(rendezvous.directory(), name, _FOLDER)


def find(name: str) -> str:
    """Its path; empty if it is missing, or if other users could have written it: ranks import it."""
    place = place_of(name)
    try:
        rendezvous.check(rendezvous.directory())
    except rendezvous.DirectoryRefused:
        return ""
    return place if os.path.isdir(place) else ""


def receive(name: str, files: str) -> str:
    """Unpack it, unless it exists. It is kept: a rank may load parts of it later, and the next
    client need not send it again."""
    place = place_of(name)
    directory = rendezvous.directory()
    rendezvous.prepare(directory)
    if os.path.isdir(place):
        return place
    partial = tempfile.mkdtemp(prefix=f"{name}-", suffix=".partial", dir=directory)
    try:
        with zipfile.ZipFile(io.BytesIO(base64.b64decode(files))) as packed:
            packed.extractall(os.path.join(partial, _FOLDER))
        os.rename(partial, os.path.dirname(place))
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)
        if not os.path.isdir(place):  # otherwise another client was faster
            raise
    return place
