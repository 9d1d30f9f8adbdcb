"""Masks secrets that are recognised by their form alone, anywhere in a text.

Every pattern begins with a literal or at the start of a word, and a part of unlimited length is at
its end. So the time is proportional to the length of the text.
"""

from __future__ import annotations

import re

from rankdbg.process.masking.patterns import lazy
from rankdbg.process.masking.secrecy import MASK, is_mixed

# Letters -> prefixes -> the least number of these letters that follow.
_PREFIXES: dict[str, dict[str, int]] = {
    r"[A-Za-z0-9]": {
        "hf_ api_org_ ghp_ gho_ ghu_ ghs_ ghr_ npm_ r8_ gsk_ sbp_ figd_ ntn_ tgp_v1_ cio": 20,
        "shpat_ shpca_ shppa_ shpss_ lin_api_ lin_oauth_ doo_v1_ dop_v1_ dor_v1_ pcsk_ jina_": 16,
        "phx_ fm1_ fm2_ xau_ rdme_ vcp_": 16,
        "sk_live_ sk_test_ rk_live_ rk_test_ sk_prod_ whsec_ key_live_ rubygems_": 12,
        "glsa_ glc_ sgp_": 12,
    },
    r"[0-9A-Z]": {"AKIA ASIA ABIA ACCA AGPA AIDA ANPA AROA": 12},
    r"[0-9a-f]": {"dapi key- pul- SK": 32},
    r"[\w-]": {
        "github_pat_ glpat- gldt- glrt- glptt- glft- glcbt- glsoat- glagent- pypi- ya29.": 16,
        "sk-": 20,
        "xoxa- xoxb- xoxc- xoxd- xoxe- xoxo- xoxp- xoxr- xoxs- xoxe.xox xapp- AIza GOCSPX-": 10,
        "dckr_pat_ dckr_oat_ hvs. hvb. hvr.": 10,
        "nvapi- pplx- xai- tskey- PMAK- NRAK- sq0atp- sq0csp- CFPAT- xkeysib- dt0c01.": 16,
        "sntrys_ sntryu_ lsv2_ tvly- ATATT3 ATBB AGE-SECRET-KEY-1 AGE-PLUGIN- wandb_v1_": 16,
    },
}


def _prefix_patterns() -> str:
    """Grouped by first letters, which is three times as fast. A text that was cut (…) may have
    fewer letters."""
    endings: dict[str, list[str]] = {}
    for letters, lengths in _PREFIXES.items():
        for prefixes, least in lengths.items():
            tail = rf"(?:{letters}{{{least},}}|{letters}{{3,{least}}}(?=…|\.\.\.))"
            for prefix in prefixes.split():
                endings.setdefault(prefix[0], []).append(re.escape(prefix[1:]) + tail)
    return "|".join(f"{first}(?:{'|'.join(rest)})" for first, rest in endings.items())


_ANY_PREFIX = tuple(
    prefix for lengths in _PREFIXES.values() for prefixes in lengths for prefix in prefixes.split()
)
_WITH_PREFIX = lazy(rf"(?<![A-Za-z0-9])(?:{_prefix_patterns()})")
# Most begin with a set of letters, which is faster to search than a boundary between letters.
_WITHOUT_PREFIX = tuple(
    (literal, lazy(pattern))
    for literal, pattern in (
        # JSON Web Token: header.payload.signature, or what a cut has left of it
        ("eyJ", r"(?<![\w-])eyJ[\w-]{10,4000}(?:\.[\w-]{4,8000}(?:\.[\w-]*)?|(?=…))"),
        ("SG.", r"SG\.[\w-]{16,40}\.[\w-]{16,}"),
        (":AA", r"(?<!\d)\d{8,10}:AA[\w-]{30,}"),  # Telegram
        ("/bot", r"(?<=/bot)\d{6,12}:[\w-]{30,}"),
        ("Fernet(", r"(?<=Fernet\()b?(?P<quote>[\"'])[\w=-]{20,}(?P=quote)"),
        ("==", r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{86}=="),  # 64 bytes, as Azure's keys of accounts
        ("Q~", r"[A-Za-z0-9~_.-]{3}[78]Q~[A-Za-z0-9~_.-]{31,34}"),  # Azure's client secrets
        ("$", r"\$(?:1|2[abxy]|5|6|7|y|gy|apr1|argon2(?:id|i|d)|scrypt)\$[\w./$+=,-]{16,}"),
        ("IDENTIFIED BY '", r"(?<=IDENTIFIED BY ')[^'\n]{1,500}"),
        ("identified by '", r"(?<=identified by ')[^'\n]{1,500}"),
        ("PASSWORD('", r"(?<=PASSWORD\(')[^'\n]{1,500}"),
        ("login('", r"(?<=login\(')[^'\n]{8,500}(?='\))"),
        ('login("', r'(?<=login\(")[^"\n]{8,500}(?="\))'),
        ("login(key='", r"(?<=login\(key=')[^'\n]{1,500}"),
        ('login(key="', r'(?<=login\(key=")[^"\n]{1,500}'),
        (".", r"[MNO](?<![\w-].)[\w-]{22,30}\.[\w-]{6,7}\.[\w-]{27,}"),  # Discord
        (".", r"[sb](?<![\w./-].)\.[A-Za-z0-9]{24}(?![A-Za-z0-9.])"),  # Vault
    )
)
# Tokens of other services: a short name, then random letters. (But not `_ZN2at6native…`.)
_RANDOM_ENDING = lazy(r"[_-](?<=[A-Za-z0-9].)([A-Za-z0-9]{20,})")
_SCHEME = lazy(r"(?<![A-Za-z0-9])(?:(bearer)|basic)[ \t]{1,4}([\w.~+/=%-]{3,})", re.IGNORECASE)

_BEGIN = "-----BEGIN "
_KEY_BEGINS = lazy(r"-----BEGIN [A-Z0-9 ]{0,40}?PRIVATE KEY[A-Z ]{0,10}-----|PuTTY-User-Key-File")
_KEY_ENDS = lazy(r"-----END [A-Z0-9 ]{0,40}-----")
# Private keys without their first line: of OpenSSH, and others by the first bytes of their DER.
_KEY_STARTS = ("b3BlbnNzaC1rZXkt", "LS0tLS1CRUdJTi")
_KEY_BODY = lazy(rf"(?<![A-Za-z0-9+/])(?:{'|'.join(_KEY_STARTS)})[A-Za-z0-9+/=\s]*")


def mask_forms(text: str) -> str:
    if _BEGIN in text or "PuTTY-" in text:
        text = _mask_private_keys(text)
    if any(start in text for start in _KEY_STARTS):
        text = _KEY_BODY.sub(MASK, text)
    if any(prefix in text for prefix in _ANY_PREFIX):
        text = _WITH_PREFIX.sub(MASK, text)
    for literal, pattern in _WITHOUT_PREFIX:
        if literal in text:
            text = pattern.sub(MASK, text)
    text = _RANDOM_ENDING.sub(_mask_if_mixed, text)
    lower = text.lower()
    return _SCHEME.sub(_mask_scheme, text) if "bearer" in lower or "basic" in lower else text


def _mask_private_keys(text: str) -> str:
    """From the first line of a key to its last, or to the end of the text."""
    pieces: list[str] = []
    done = 0
    while begins := _KEY_BEGINS.search(text, done):
        pieces += [text[done : begins.start()], MASK]
        ends = _KEY_ENDS.search(text, begins.end())
        done = ends.end() if ends else len(text)
    return "".join((*pieces, text[done:]))


def _mask_if_mixed(found: re.Match[str]) -> str:
    before = found.string[max(0, found.start() - 60) : found.start()]
    if "_Z" in before or not is_mixed(found[1]):
        return found[0]
    return found[0][0] + MASK


def _mask_scheme(found: re.Match[str]) -> str:
    """`Bearer of bad news` and `Basic usage` are prose."""
    value = found[2]
    start = found.start()
    quoted = start > 0 and found.string[start - 1] in "\"'"
    end = found.string[found.end() : found.end() + 1]
    is_whole = quoted and end != "" and end in "\"'\\"
    is_secret = _is_bearer(value) if found[1] else _is_basic(value)
    if not (is_secret or is_whole):
        return found[0]
    return found[0][: -len(value)] + MASK


def _is_bearer(value: str) -> bool:
    value = value.rstrip(".")
    return (
        any(map(str.isdigit, value))
        or any(symbol in value for symbol in ".+/=~_")
        or len(value) >= 24
        or (value != value.lower() and not value.istitle() and not value.isupper())
    )


def _is_basic(value: str) -> bool:
    """base64 of `user:password`."""
    from binascii import Error, a2b_base64

    if len(value) < 6:
        return False
    try:
        decoded = a2b_base64(value[: len(value) // 4 * 4])
    except (Error, ValueError):
        return False
    readable = all(32 <= byte < 127 for byte in decoded)
    mixed = any(map(str.isdigit, value)) and value != value.lower() and value != value.upper()
    return (b":" in decoded and readable) or value.endswith("=") or (mixed and len(value) >= 12)
