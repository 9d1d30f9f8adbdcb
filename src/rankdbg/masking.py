"""What must not leave a node: values that look like secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

MASK = "***"

_SECRET_NAME = re.compile(
    r"(?i)(secret|token|passw|passphrase|credential|private|auth|cookie|session_?id|signature)"
    r"|(?i:(^|[_-])(api|access|account|encryption|ssh)?[_-]?key($|[_-](id|s)?$))"
    r"|(?i:(^|[_-])(pwd|pat|dsn|sas)$)"
)
# Names that the pattern catches and that hold nothing secret.
_HARMLESS = frozenset({"PWD", "OLDPWD", "SSH_AUTH_SOCK", "TOKENIZERS_PARALLELISM", "XAUTHORITY"})

_SECRET_VALUE = re.compile(
    r"hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|sk-[\w-]{20,}|AKIA[0-9A-Z]{16}|xox[abprs]-[\w-]{10,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]+"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*"
)
_PASSWORD_IN_URL = re.compile(r"(\w+://[^/\s:@]*:)[^/\s@]+@")
_ASSIGNED = re.compile(r"^(--?[\w.-]+|[\w.]+)=(.*)$", re.DOTALL)


def mask_environment(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: mask_value(name, value) for name, value in environment.items()}


def mask_value(name: str, value: str) -> str:
    if is_secret_name(name) and value:
        return MASK
    return mask_text(value)


def is_secret_name(name: str) -> bool:
    return name not in _HARMLESS and _SECRET_NAME.search(name) is not None


def mask_text(text: str) -> str:
    """Secrets that can be told by their form, wherever they stand."""
    return _PASSWORD_IN_URL.sub(rf"\1{MASK}@", _SECRET_VALUE.sub(MASK, text))


def mask_command(command: Sequence[str]) -> list[str]:
    """`--api-key X`, `--api-key=X`, `api_key=X` -> the same with ***."""
    masked: list[str] = []
    secret_follows = False
    for word in command:
        assigned = _ASSIGNED.match(word)
        if secret_follows and not word.startswith("-"):
            masked.append(MASK)
            secret_follows = False
            continue
        secret_follows = word.startswith("-") and not assigned and is_secret_name(word.lstrip("-"))
        if assigned and is_secret_name(assigned[1].lstrip("-")):
            masked.append(f"{assigned[1]}={MASK}")
        else:
            masked.append(mask_text(word))
    return masked
