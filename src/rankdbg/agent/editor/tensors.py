"""Tensors in an editor: shape, dtype, device, min, mean and max come first.

Only while the rank is stopped, and only a few values are copied from the device. A device that
is blocked by a collective would make the editor hang: after one second, only what is known
without the device is shown.
"""

from __future__ import annotations

from typing import Any

from rankdbg.agent import describe, threads
from rankdbg.agent.editor import editor_stops

DEVICE_SECONDS = 1.0
# In elements. It is computed for every variable of a frame, so it has to be fast.
LARGEST = {"cpu": 1 << 24, "": 1 << 24}
LARGEST_ON_DEVICE = 1 << 28

_late = False  # the device has not responded, and the thread that asked still waits


class Summary:
    """A provider for pydevd: for which types it returns a text, and which."""

    def can_provide(self, type_object: type, type_name: str) -> bool:
        return any(
            (base.__module__.partition(".")[0], base.__name__)
            in (("torch", "Tensor"), ("numpy", "ndarray"), ("cupy", "ndarray"))
            for base in type_object.__mro__
        )

    def get_str_in_context(self, value: Any, context: str) -> str:
        return repr(value) if context == "clipboard" else self.get_str(value)

    def get_str(self, value: Any) -> str:
        short = describe.short_text(value)
        kind, _, known = short.partition(" ")
        device = str(getattr(value, "device", ""))
        here = device in LARGEST
        if not editor_stops.stopped() or _size(value) > LARGEST.get(device, LARGEST_ON_DEVICE):
            return short
        described = describe.describe_array(value) if here else _from_device(value)
        if described is None:
            return f"{kind} {known} (no response from the device)"
        summary = f"{kind} {described['text']}"
        if described["kind"] != "array":
            return f"{summary} {described['dtype']} {described['device']}".rstrip()
        return f"{summary}\n{value!r}" if here else summary


def _size(value: Any) -> int:
    size = 1
    for length in value.shape:
        size *= int(length)
    return size


def _from_device(value: Any) -> dict[str, Any] | None:
    """None if the device does not respond in time."""
    global _late
    if _late:
        return None

    def look() -> dict[str, Any] | None:
        global _late
        try:
            return describe.describe_array(value)
        finally:
            _late = False

    _late = True
    try:
        described: dict[str, Any] | None = threads.within(DEVICE_SECONDS, look)
        return described
    except threads.Late:
        return None


def begin() -> None:
    """Show summaries from now on, in this process."""
    providers, cache = _handlers()
    if not any(isinstance(provider, Summary) for provider in providers):
        providers.insert(0, Summary())
        cache.clear()


def end() -> None:
    providers, cache = _handlers()
    providers[:] = [provider for provider in providers if not isinstance(provider, Summary)]
    cache.clear()


def _handlers() -> tuple[list[Any], dict[Any, Any]]:
    """pydevd's list of providers, and its cache of them."""
    from importlib import import_module

    shown: Any = import_module("_pydevd_bundle.pydevd_xml")
    handler = shown._TYPE_RESOLVE_HANDLER
    if not handler._initialized:
        handler._initialize()
    return handler._str_providers, handler._type_to_str_provider_cache
