"""Where editors connect: a port of this machine's loopback, or a Unix socket."""

from __future__ import annotations

import errno
import os
import socket
import stat
import sys
import threading
from contextlib import suppress

from rankdbg.errors import BadInput
from rankdbg.frontends.dap import running_server
from rankdbg.frontends.dap.running_server import RunningServer
from rankdbg.frontends.dap.settings import AttachSettings
from rankdbg.process import peers, rendezvous

BACKLOG = 64


def on_port(port: int, settings: AttachSettings) -> socket.socket | RunningServer:
    """Listen, or return the server that already listens there with the same options."""
    try:
        return socket.create_server(("127.0.0.1", port), backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        why, hint = str(error), "--port 0 uses any free port"
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            running = running_server.find(port, settings.token)
            if running is not None and running.purpose == settings.purpose:
                return running
            why = "it is in use"
            if running is not None:
                running.close()
                why = f"a rankdbg dap with other options listens there (process {running.pid})"
                hint = f"end it: kill {running.pid}; or use any free port: --port 0"
        raise BadInput(f"cannot listen on port {port}: {why}", hint=hint) from None


def on_socket(path: str) -> socket.socket:
    """In a directory that only this user can access; it is created if needed."""
    directory = os.path.dirname(os.path.abspath(path))
    listening = socket.socket(socket.AF_UNIX)
    try:
        rendezvous.prepare(directory)
        if os.stat(directory).st_mode & 0o077:
            raise rendezvous.DirectoryRefused(f"other users can access {directory}")
        _remove_left_over(path)
        with rendezvous.Address(path) as address:
            listening.bind(address)
        os.chmod(path, 0o600)
        listening.listen(BACKLOG)
    except (OSError, rendezvous.DirectoryRefused) as error:
        listening.close()
        why = getattr(error, "strerror", None) or str(error)
        hint = f"use a directory of your own: --socket {rendezvous.directory()}/dap.sock"
        raise BadInput(f"cannot listen on {path}: {why}", hint=hint) from None
    return listening


def _remove_left_over(path: str) -> None:
    """Remove the socket of a server that was killed. Raises DirectoryRefused if it is something else."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise rendezvous.DirectoryRefused("it exists and is not a socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX) as trying, rendezvous.Address(path) as address:
        code = trying.connect_ex(address)
    if code != errno.ECONNREFUSED:
        raise rendezvous.DirectoryRefused("another server listens there")
    os.unlink(path)


def remove(path: str | None) -> None:
    """Remove the socket of a server that ends."""
    with suppress(OSError):
        if path and stat.S_ISSOCK(os.lstat(path).st_mode):
            os.unlink(path)


def connect_stdio(path: str) -> None:
    """Copy stdin to the server on that socket, and its output to stdout, until one of them ends:
    an adapter for editors that start one."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        with rendezvous.Address(path) as address:
            connection.connect(address)
    except OSError as error:
        why = error.strerror or str(error)
        hint = f"start the server first: rankdbg dap --socket {path}"
        raise BadInput(f"cannot connect to {path}: {why}", hint=hint) from None
    if refusal := peers.refusal(connection):
        raise BadInput(f"cannot connect to {path}: it is {refusal.text}")

    def outwards() -> None:
        try:
            while data := os.read(sys.stdin.fileno(), 1 << 16):
                connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    threading.Thread(target=outwards, daemon=True).start()
    try:
        # Messages for an editor, not text for a terminal.
        with open(sys.stdout.fileno(), "wb", buffering=0, closefd=False) as editor:
            while data := connection.recv(1 << 16):
                while data:
                    data = data[editor.write(data) or 0 :]
    except OSError:
        pass  # the editor has disconnected
