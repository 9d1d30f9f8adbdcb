"""Web socket frames (RFC 6455), as far as a Kubernetes client needs them."""

from __future__ import annotations

import struct
from collections.abc import Iterator

BINARY, CLOSE, PING, PONG = 0x2, 0x8, 0x9, 0xA
_FINAL, _MASKED = 0x80, 0x80
# A client must mask its data, to protect caches that could take it for HTTP. Here it goes
# through TLS; a mask of zeros keeps the bytes unchanged and needs no loop in Python.
_MASK = bytes(4)


def frame(payload: bytes, kind: int = BINARY) -> bytes:
    size = len(payload)
    if size < 126:
        header = struct.pack(">BB", _FINAL | kind, _MASKED | size)
    elif size < 1 << 16:
        header = struct.pack(">BBH", _FINAL | kind, _MASKED | 126, size)
    else:
        header = struct.pack(">BBQ", _FINAL | kind, _MASKED | 127, size)
    return header + _MASK + payload


class WebSocketFrames:
    """Bytes from a server -> whole frames, each with its kind."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        self._data += data
        while (bounds := self._bounds()) is not None:
            start, end = bounds
            kind, payload = self._data[0] & 0xF, bytes(self._data[start:end])
            del self._data[:end]
            yield kind, payload

    def _bounds(self) -> tuple[int, int] | None:
        """The bounds of the first payload, if it is complete."""
        if len(self._data) < 2:
            return None
        size, start = self._data[1] & 0x7F, 2
        if size >= 126:
            form, start = (">H", 4) if size == 126 else (">Q", 10)
            if len(self._data) < start:
                return None
            (size,) = struct.unpack(form, self._data[2:start])
        return (start, start + size) if len(self._data) >= start + size else None
