"""Secrets in addresses: `user:password@`, tokens in the place of a user, webhooks."""

from __future__ import annotations

import re

from rankdbg.process.masking.patterns import lazy
from rankdbg.process.masking.secrecy import MASK, looks_random

_AFTER_SCHEME = lazy(r"://([^\s\"'<>`|\\]+)")
_USER = lazy(r"[A-Za-z][A-Za-z_.-]{0,14}\d{0,4}\Z|\d{1,6}\Z")
_PORT = lazy(r"\d{1,5}(?=[/?#,\s]|\Z)")
_HOOK = lazy(r"(?i)(?:^|[/.])(?:[\w-]{0,30}hooks?\w{0,12}|bot/v\d/hook|hc-ping\.com)(?=[/.])")
_OF_MANUAL = lazy(r"\.html\Z|\.md\Z|\Av\d{1,3}\Z")  # a page, a version
_KEY_IN_PATH = lazy(r"(?i)/(?:key|token|apikey|api-key|secret|bot)s?/(?=[^/?#]{8})")
# Codes that admit a user once: of OAuth, SAML and CAS.
_ADMISSION = lazy(r"(?i)(?<=[?&#])(code|ticket|assertion|otp|samlresponse)=([^&#]{16,})")
# Without a scheme: `bob:hunter2@db:5432`, `bob:hunter2@tcp(db)`, `bob:hunter2@db/name`.
_WITHOUT_SCHEME = lazy(
    r"(?<![\w.%+/@:-])([A-Za-z_][\w.%+-]{0,60}):([^\s:@/\"'<>=,;()]{1,200})@"
    r"(?=(?:[\w-]{1,63}\.){0,6}[\w-]{1,63}(?::\d{2,5}\b|/\w)|(?:tcp|udp|unix)\()"
)
_ORACLE = lazy(
    r"(?<=:thin:)([\w.$#-]{1,60})/[^\s@/\"']{1,200}(?=@)"
)  # jdbc:oracle:thin:bob/hunter2@h
# A line of ~/.pgpass: host:port:database:user:password
_PGPASS = lazy(
    r"^([\w.*-]{1,200}:(?:\d{2,5}|\*):[^:\s]{1,63}:[^:\s]{1,63}:)[^:\s]{1,200}$", re.MULTILINE
)


def mask_addresses(text: str) -> str:
    if "://" in text:
        text = _AFTER_SCHEME.sub(_mask_address, text)
    if "@" in text:
        text = _WITHOUT_SCHEME.sub(_mask_without_scheme, text)
        text = _ORACLE.sub(rf"\1/{MASK}", text)
    return _PGPASS.sub(rf"\1{MASK}", text) if text.count(":") >= 4 else text


def _mask_address(found: re.Match[str]) -> str:
    rest = found[1]
    if "@" in rest:
        before = found.string[max(0, found.start() - 8) : found.start()]
        rest = _mask_user(before.lower().endswith(("http", "https", "wss")), rest)
    if hook := _HOOK.search(rest):
        host = len(re.split(r"[/?#]", rest, maxsplit=1)[0])
        rest = _mask_after(rest, max(hook.end(), host))
    elif segment := _KEY_IN_PATH.search(rest):
        rest = _mask_after(rest, segment.end())
    if "=" in rest:
        rest = _ADMISSION.sub(_mask_admission, rest)
    return f"://{rest}"


def _mask_admission(found: re.Match[str]) -> str:
    return f"{found[1]}={MASK}" if looks_random(found[2]) else found[0]


def _mask_user(over_http: bool, rest: str) -> str:
    end = _end_of_user(rest)
    if end < 0:
        return rest
    user, colon, password = rest[:end].partition(":")
    if _is_token(user, over_http and not password):
        user = MASK
    return f"{user}{colon}{MASK if password else ''}{rest[end:]}"


def _end_of_user(rest: str) -> int:
    """The place of the `@` before the host. A password may contain an @, or a / that is not
    escaped: then the text after the colon is not a port."""
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    at = authority.rfind("@")
    if at >= 0:
        return at
    colon = authority.find(":")
    if colon < 0 or authority.startswith("[") or _PORT.match(rest, colon + 1):
        return -1
    return rest.rfind("@")


def _is_token(user: str, alone: bool) -> bool:
    """A user's name is short, and has letters only. `alone`: over HTTP without a password, which
    is rarely a user."""
    if not user or _USER.match(user) or "%40" in user or user.startswith(("$", "{", "<")):
        return False
    if alone:
        return any(map(str.isdigit, user)) or len(user) >= 16
    return looks_random(user)


def _mask_after(rest: str, end: int) -> str:
    """Mask the part after `/webhooks/`, unless it is a page of a manual."""
    path = re.split(r"[?#]", rest[end:], maxsplit=1)[0].rstrip(").,;:]}")
    parts = [part for part in path.split("/") if part and not _OF_MANUAL.search(part)]
    numbered = [part for part in parts if any(map(str.isdigit, part))]
    # An account's number and a token, or one part that is long.
    if not (len(parts) >= 2 and numbered) and not any(
        len(part) >= (8 if part in numbered else 20) for part in parts
    ):
        return rest
    slash = "/" if path.startswith("/") else ""
    return f"{rest[:end]}{slash}{MASK}{rest[end + len(path) :]}"


def _mask_without_scheme(found: re.Match[str]) -> str:
    password = found[2]
    if password.isdigit() or "sha256" in found.string[found.end() : found.end() + 7]:
        return found[0]
    return f"{found[1]}:{MASK}@"
