"""rankdbg.listen(): debugpy listens for an editor on a port of its own, as without rankdbg."""

from __future__ import annotations

import os

from rankdbg.agent import card, messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HOST = "127.0.0.1"


def listen(port_base: int, wait: bool) -> int:
    from importlib import import_module

    from rankdbg.agent.editor.debugpy_loading import SuppressedWarning

    try:
        with SuppressedWarning():
            debugpy: Any = import_module("debugpy")
            import_module("debugpy.server")
    except ImportError as error:
        raise RuntimeError(
            f"rankdbg.listen: debugpy is not installed in this environment ({error}); "
            "pip install debugpy, or attach with rankdbg dap, which has its own"
        ) from None
    port = port_base + _local_rank()
    if not 0 < port < 65536:
        raise ValueError(f"rankdbg.listen: invalid port {port}: expected 1 to 65535")
    debugpy.listen((HOST, port))
    _say(f"debugpy listens on {HOST}:{port}")
    if wait:
        _say("Waiting for debugger to attach…")
        debugpy.wait_for_client()
    return port


def _local_rank() -> int:
    labels = card.make()["labels"]
    number = labels.get("local_rank", labels.get("rank", 0))
    return int(number or 0)


def _say(text: str) -> None:
    who = f"rank {os.environ['RANK']}: " if os.environ.get("RANK") else ""
    messages.write(f"{who}{text}")
