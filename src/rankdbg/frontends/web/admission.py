"""Who gets in: the browser of the user who started the server, and pages of this server alone.

- The link that is printed has a token. It is exchanged for a cookie, and leaves the address.
- Host must name the loopback: a name that a foreign page has made to point here (DNS rebinding) does
  not. Origin, where a browser sends one, must be this server's own.
- Browsers send cookies to all ports of a host. So the pages lie below a random path, which is the
  cookie's, and a connection of another user is refused whatever it sends.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

Headers = Sequence[tuple[bytes, bytes]]
COOKIE = "rankdbg"
NO_TOKEN = "Open the link that rankdbg web has printed: it lets this browser in."
OTHER_HOST = "This page is served to the loopback address of its own machine only."
OTHER_ORIGIN = "Another page may not ask this server."
OTHER_USER = "This page belongs to another user of this machine."
_LOOPBACK = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?")


@dataclass(frozen=True)
class Admission:
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    cookie: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    folder: str = field(default_factory=lambda: f"/{secrets.token_hex(8)}/")
    _single_use: set[str] = field(default_factory=set, repr=False)

    def new_single_use_token(self) -> str:
        self._single_use.add(token := secrets.token_urlsafe(24))
        return token

    def admits(self, token: str) -> bool:
        if token in self._single_use:
            self._single_use.discard(token)
            return True
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())

    @property
    def set_cookie(self) -> str:
        """Of this browser session. No script reads it, and no foreign page makes it sent."""
        return f"{COOKIE}={self.cookie}; Path={self.folder}; HttpOnly; SameSite=Strict"

    def why_not(self, headers: Headers, needs_origin: bool = False) -> str:
        """Why a request for a page is refused; `` if it is not."""
        if why := self.why_not_here(headers, needs_origin):
            return why
        held = [one for header in _values(headers, b"cookie") for one in _cookies(header)]
        known = any(hmac.compare_digest(each, self.cookie.encode()) for each in held)
        return "" if known else NO_TOKEN

    def why_not_here(self, headers: Headers, needs_origin: bool = False) -> str:
        """The same, before it is known who asks."""
        host = host_of(headers)
        if host is None:
            return OTHER_HOST
        origins = _values(headers, b"origin")
        if not origins and not needs_origin:
            return ""
        return "" if origins == [f"http://{host}"] else OTHER_ORIGIN


def host_of(headers: Headers) -> str | None:
    """None if it is not this machine's loopback."""
    hosts = _values(headers, b"host")
    return hosts[0] if len(hosts) == 1 and _LOOPBACK.fullmatch(hosts[0]) else None


def _values(headers: Headers, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in headers if key == name]


def _cookies(header: str) -> list[bytes]:
    parts = [part.strip().partition("=") for part in header.split(";")]
    return [value.encode("latin-1") for name, _, value in parts if name == COOKIE]
