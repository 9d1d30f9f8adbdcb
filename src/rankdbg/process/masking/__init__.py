"""Masks values that look like secrets, before they leave a node.

secrecy.py       which names belong to secrets, and which values are harmless
forms.py         secrets by their form: tokens of known services, private keys, `Bearer x`
addresses.py     passwords and tokens in addresses, webhooks
named_values.py  `name=value` in all its notations
programs.py      `mysql -pX`, `curl -u user:X`

A mask too many is better than a secret in a snapshot. But values that users need (MAX_TOKENS,
TOKENIZER, PAD_TOKEN_ID, GIT_AUTHOR_NAME, --key-frames) are not masked. For any text, the time is
proportional to its length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rankdbg.process.masking.addresses import mask_addresses
from rankdbg.process.masking.forms import mask_forms
from rankdbg.process.masking.named_values import mask_named_values
from rankdbg.process.masking.patterns import lazy
from rankdbg.process.masking.programs import mask_arguments, mask_programs
from rankdbg.process.masking.secrecy import MASK, Secrecy, is_harmless_value, secrecy

__all__ = [
    "LONGEST_TEXT",
    "MASK",
    "is_secret_name",
    "mask_command",
    "mask_environment",
    "mask_text",
    "mask_value",
]

# In characters. The rest of a longer text is left out, since it may contain secrets.
LONGEST_TEXT = 1 << 18
LONGEST_COMMAND = 1 << 16
_ENOUGH = 4000  # characters of a value that are examined
_SHORTEST = 4  # shorter texts contain no secret with a name

# `--api-key=x`, `HF_TOKEN=x`, Hydra's `+wandb.api_key=x`, and `Authorization: x`.
_ASSIGNED = lazy(r"[-+~]{0,4}([\w.-]{1,128})(=|:\s{0,4})")
# ETCDCTL_USER=root:hunter2, but USER=1000:1000
_OF_USER = lazy(r"(?i)user(?:name|pwd)?\Z")
_USER_AND_PASSWORD = lazy(r"([A-Za-z][\w.@\\-]{0,60}):(?=\D|\d+\D)\S+")
# The script of a shell or of Python is not a value: `bash -lc SCRIPT`.
_TAKES_A_SCRIPT = lazy(r"-[a-z]{0,4}c\Z")


def mask_environment(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: mask_value(name, value) for name, value in environment.items()}


def mask_value(name: str, value: str) -> str:
    level = secrecy(name)
    if level and not is_harmless_value(name, value[:_ENOUGH], level):
        return MASK
    if found := _USER_AND_PASSWORD.fullmatch(value[:_ENOUGH]) if _OF_USER.search(name) else None:
        return f"{found[1]}:{MASK}"
    return mask_text(value)


def is_secret_name(name: str) -> bool:
    return secrecy(name) >= Secrecy.LIKELY


def mask_text(text: str) -> str:
    """Mask secrets that have a known form, or a name before them, anywhere in the text."""
    if len(text) < _SHORTEST:
        return text
    text = _bounded(text, LONGEST_TEXT)
    text = mask_addresses(mask_forms(text))
    return mask_programs(mask_named_values(text))


def _bounded(text: str, longest: int) -> str:
    """The last word before the cut may be half of a secret, and is left out too."""
    if len(text) <= longest:
        return text
    end = max(text.rfind(" ", 0, longest), text.rfind("\n", 0, longest), 0)
    return f"{text[:end]} … [{len(text) - end} characters left out: too long to mask]".lstrip()


def mask_command(command: Sequence[str]) -> list[str]:
    """`--api-key X`, `--api-key=X`, `api_key=X` -> the same with ***."""
    masked: list[str] = []
    arguments = mask_arguments(command)
    left = LONGEST_COMMAND
    option = ""  # the previous word, if it is the name of a secret
    for index, word in enumerate(command):
        if left <= 0:
            masked.append(f"… [{len(command) - index} words left out: too long to mask]")
            break
        left -= len(word) + 1
        word = _bounded(word, LONGEST_COMMAND)
        is_script = index > 0 and _TAKES_A_SCRIPT.match(command[index - 1]) is not None
        if index in arguments:
            masked.append(arguments[index])
        elif option and not word.startswith("--") and not _is_harmless_after(option, word):
            masked.append(MASK)
        else:
            masked.append(_mask_word(word, is_script))
        is_set = index > 0 and command[index - 1] in ("set", "add")
        option = word if _asks_for_secret(word, is_set) and masked[-1] != MASK else ""
    return masked


def _asks_for_secret(word: str, is_set: bool) -> bool:
    """An option, or a word as in `aws configure set aws_secret_access_key X`, `ngc config set apikey X`
    and `… password X`."""
    if len(word) > 128 or "=" in word:
        return False
    if word in ("password", "passphrase"):
        return True
    if word.startswith("-"):
        return bool(secrecy(word))
    return (is_set or "_" in word) and is_secret_name(word)


def _is_harmless_after(option: str, word: str) -> bool:
    return is_harmless_value(option, word[:_ENOUGH], secrecy(option))


def _mask_word(word: str, is_script: bool) -> str:
    assigned = None if is_script else _ASSIGNED.match(word)
    if assigned is None or not is_secret_name(assigned[1]):
        return mask_text(word)
    value = word[assigned.end() :]
    if is_harmless_value(assigned[1], value[:_ENOUGH], secrecy(assigned[1])):
        return mask_text(word)
    return f"{assigned[0]}{MASK}"
