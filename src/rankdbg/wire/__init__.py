"""The messages between agent, node and session: this module is the whole protocol.

A message is one line of JSON. The first line of each side is its hello; an asker
may send its hello and its first question together. Questions carry an id, and
their answer carries the same one, so that many can be under way:

    -> {"hello": "rankdbg", "protocol": [1, 0], "version": "0.1.0"}
    -> {"id": 1, "ask": "stacks", "threads": "main"}
    <- {"hello": "rankdbg", "protocol": [1, 0], "version": "0.1.0"}
    <- {"id": 1, "answer": {...}}                      or
    <- {"id": 1, "error": {"what": "...", "hint": "..."}}

The `scope` in the session's hello configures a remote node: which processes it covers,
whether to send long answers `packed`, after how long without input to exit, and the
longest line of its transport: a line that ends with a backslash continues in the next.
If all nodes receive all messages, `to` names the recipient, and messages for many nodes
are one line, {"all": [{"to": "node-7", ...}, ...]}. The exchange before the hello, in
which rankdbg itself may be sent, is in clusters/transport/landing.py.

The agent imports this module inside users' programs. So it uses the C half of the json
package directly: importing `json` would load half a dozen modules, whose names the
program may use for its own, and take 5 ms.
"""

from __future__ import annotations

from _json import encode_basestring_ascii, make_encoder, make_scanner

from rankdbg._version import __version__
from rankdbg.errors import VersionError, WireError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    Message = dict[str, Any]

PROTOCOL = (1, 0)

# Larger than any valid answer (the stacks of 1,000 threads are 4 MB), and small enough
# that a peer that never ends its line cannot fill the memory.
LIMIT = 64 * 2**20
WORTH_PACKING = 16 * 2**10
# The most bytes of messages in one line.
BUNDLE = 2**20

_CONSTANTS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class _ScannerSettings:
    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = _CONSTANTS.__getitem__
    memo: dict[str, str] = {}  # noqa: RUF012 - the scanner clears it itself


_encode = make_encoder(None, repr, encode_basestring_ascii, None, ":", ",", False, False, True)
_scan = make_scanner(_ScannerSettings)  # type: ignore[arg-type]


def encode(message: Message) -> bytes:
    return "".join(_encode(message, 0)).encode("ascii") + b"\n"


def encode_packed(message: Message) -> bytes:
    """The same, and if it is long, compressed: {"packed": "<base64 of zlib>"}."""
    return _packed(encode(message))


def _packed(line: bytes) -> bytes:
    if len(line) < WORTH_PACKING:
        return line
    from binascii import b2a_base64
    from zlib import compress

    packed = b2a_base64(compress(line, 3), newline=False).decode("ascii")
    return encode({"packed": packed})


def bundled(messages: Iterable[Message]) -> Iterator[bytes]:
    """As few lines as possible, since all nodes receive them: {"all": [...]}, packed."""
    parts: list[bytes] = []
    size = 0
    for message in messages:
        part = encode(message)[:-1]
        if parts and size + len(part) > BUNDLE:
            yield _packed(b'{"all":[%s]}\n' % b",".join(parts))
            parts, size = [], 0
        parts.append(part)
        size += len(part)
    if parts:
        yield _packed(b'{"all":[%s]}\n' % b",".join(parts))


def unbundled(message: Message) -> list[Message]:
    message = unpacked(message)
    messages = message.get("all", [message])
    if not (type(messages) is list and all(type(each) is dict for each in messages)):
        raise WireError("invalid bundle: expected messages")
    return messages


def unpacked(message: Message) -> Message:
    if "packed" not in message:
        return message
    from binascii import a2b_base64
    from zlib import decompressobj

    try:
        data = decompressobj().decompress(a2b_base64(message["packed"]), LIMIT + 1)
    except Exception:
        raise WireError("invalid packed message") from None
    if len(data) > LIMIT:
        raise WireError(f"message larger than {LIMIT} bytes")
    return decode(data)


def decode(line: bytes) -> Message:
    """The message in a line. Raises WireError, and nothing else, for anything else."""
    try:
        text = line.decode("utf-8").strip()
        message, end = _scan(text, 0)
    except Exception:
        # StopIteration, ValueError; SystemError from a scanner that would raise json's
        # own error, and finds that json is not loaded.
        message, end = None, 0
    if type(message) is not dict or end != len(text):
        raise WireError(f"invalid message: {line[:60]!r}")
    return message


class Lines:
    """Bytes in any portions -> whole lines. A line over the limit raises WireError."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        # Parts are joined only when their line ends: adding to one growing buffer
        # would copy a large message once for each portion.
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._add(end)
            line = b"".join(self._parts)
            self._parts.clear()
            self._size = 0
            yield line
        if rest:
            self._add(rest)

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._limit:
            raise WireError(f"message larger than {self._limit} bytes")
        self._parts.append(part)

    @property
    def unfinished(self) -> int:
        """The number of bytes of an incomplete line."""
        return self._size


def in_short_lines(line: bytes, most: int) -> bytes:
    """For a transport that cuts long lines: a line that ends with a backslash, as a message never
    does, continues in the next."""
    if len(line) <= most:
        return line
    return b"\\\n".join(line[start : start + most] for start in range(0, len(line), most))


class Continued:
    """Such short lines -> whole ones."""

    def __init__(self) -> None:
        self._lines = Lines()

    def feed(self, line: bytes) -> Iterator[bytes]:
        whole = not line.endswith(b"\\")
        return self._lines.feed(line + b"\n" if whole else line[:-1])


def hello(scope: Mapping[str, Any] | None = None) -> Message:
    """The hello of a session to a node has the scope: which processes it covers."""
    said: Message = {"hello": "rankdbg", "protocol": list(PROTOCOL), "version": __version__}
    return {**said, "scope": dict(scope)} if scope else said


def check_hello(message: Message, peer: str) -> Message:
    """Adjacent minor versions are compatible, others are refused."""
    if message.get("hello") != "rankdbg":
        raise WireError(f"{peer} does not speak rankdbg's protocol")
    protocol = message.get("protocol")
    if not (isinstance(protocol, list) and [type(part) for part in protocol] == [int, int]):
        raise WireError(f"{peer} sent no protocol version")
    major, minor = protocol
    if major == PROTOCOL[0] and abs(minor - PROTOCOL[1]) <= 1:
        return message
    theirs, ours = str(message.get("version")), __version__
    older = peer if (major, minor) < PROTOCOL else "this side"
    raise VersionError(
        f"{peer} runs rankdbg {theirs}, this side {ours}: the versions are not compatible",
        hint=f"update {older}",
    )
