"""What must not leave a node: values that look like secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

MASK = "***"

# Better one mask too many than a secret in a snapshot. But what a job's user needs to see
# (MAX_TOKENS, TOKENIZER, PAD_TOKEN_ID, GIT_AUTHOR_NAME, --key-frames) is not among them.
_SECRET_NAME = re.compile(
    r"""
    secret | passw | passphrase | credential | session[_-]?id
    | token (?! [a-z] | [_.-]id )
    | (api|access|account|encryption|master|private|signing|ssh) [_-]? keys? (?![a-z])
    | (?<![a-z]) key ([_-]id)? $
    | (?<![a-z]) (auth|authorization|bearer|cookies?|jwt|oauth\d?|pass|signature) (?![a-z])
    | (?<![a-z]) (dsn|pat|pwd|sas|sig) $
    """,
    re.IGNORECASE | re.VERBOSE,
)
# Names that the pattern catches and that hold nothing secret.
_HARMLESS = frozenset({"PWD", "OLDPWD", "SSH_AUTH_SOCK", "XDG_SESSION_ID"})

_SECRET_VALUE = re.compile(
    r"hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|\bsk-[\w-]{20,}|AKIA[0-9A-Z]{16}|xox[abprs]-[\w-]{10,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]+"
    r"|(?<=[Bb]earer )[\w.~+/=-]+"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*"
)
_PASSWORD_IN_URL = re.compile(r"(\w+://[^/\s:@]*:)[^/\s@]+@")
# `?token=x&` in an address, and `"token": "x"` in JSON.
_PAIR = re.compile(r"""([?&]([\w.-]+)=)[^&\s#"']+ | ("([\w.-]+)"\s*:\s*") [^"]*""", re.VERBOSE)
# `--api-key=x`, `HF_TOKEN=x`, Hydra's `+wandb.api_key=x`, and `Authorization: x`.
_ASSIGNED = re.compile(r"([-+~]*([\w.-]+)(?:=|:\s*))(.*)", re.DOTALL)


def mask_environment(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: mask_value(name, value) for name, value in environment.items()}


def mask_value(name: str, value: str) -> str:
    if is_secret_name(name) and value:
        return MASK
    return mask_text(value)


def is_secret_name(name: str) -> bool:
    return name not in _HARMLESS and _SECRET_NAME.search(name) is not None


def mask_text(text: str) -> str:
    """Secrets that can be told by their form or by a name before them, wherever they stand."""
    text = _PASSWORD_IN_URL.sub(rf"\1{MASK}@", _SECRET_VALUE.sub(MASK, text))
    return _PAIR.sub(_mask_pair, text)


def _mask_pair(pair: re.Match[str]) -> str:
    start, name = (pair[1], pair[2]) if pair[1] else (pair[3], pair[4])
    return f"{start}{MASK}" if is_secret_name(name) else pair[0]


def mask_command(command: Sequence[str]) -> list[str]:
    """`--api-key X`, `--api-key=X`, `api_key=X` -> the same with ***."""
    masked: list[str] = []
    secret_follows = False
    for word in command:
        assigned = _ASSIGNED.fullmatch(word)
        if secret_follows and not word.startswith("--"):
            masked.append(MASK)
            secret_follows = False
            continue
        secret_follows = word.startswith("-") and not assigned and is_secret_name(word)
        if assigned and is_secret_name(assigned[2]):
            masked.append(f"{assigned[1]}{MASK}" if assigned[3] else word)
        else:
            masked.append(mask_text(word))
    return masked
