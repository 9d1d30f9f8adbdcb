"""Masks options of well-known programs that take a password without a telling name."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from rankdbg.process.masking.patterns import lazy
from rankdbg.process.masking.secrecy import MASK, looks_made_up

# Program -> options. The password is with `-w` the next word; with `-p…` the rest of the word; with
# `-u :` the text after the colon in the next word; with `-p login` the next word, if the command
# contains `login`, and likewise with the others of _IF_THERE; with `login random` the word after it, if
# that looks like a secret; with `-b =` the text after the first `=` in the next word; with `-b last` the
# last word, also after `-nb`; with `--x=… secret` the rest of the word, if the command contains
# `secret`. A `*` in an option stands for any letters.
_IF_THERE = ("login", "secret", "SecureString")
_USERS = ("-u :", "--user :", "-U :", "-a :", "--proxy-user :")
_OPTIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("mysql", "mysqldump", "mysqladmin", "mysqlimport", "mariadb", "mariadb-dump"), ("-p…",)
    ),
    **dict.fromkeys(("mongo", "mongosh", "mongodump", "mongorestore"), ("-p", "-p…")),
    **dict.fromkeys(("docker", "podman", "nerdctl", "skopeo", "buildah", "oras"), ("-p login",)),
    **dict.fromkeys(("az", "helm", "crane"), ("-p login",)),
    **dict.fromkeys(("ldapsearch", "ldapadd", "ldapmodify", "ldapwhoami"), ("-w", "-xw", "-w…")),
    "aws": ("--value SecureString",),
    "ldappasswd": ("-w", "-w…", "-s", "-a"),
    "pulumi": ("--secret last",),
    **dict.fromkeys(("sqlcmd", "bcp", "mosquitto_pub", "mosquitto_sub", "zip", "unzip"), ("-P",)),
    **dict.fromkeys(("7z", "7za", "7zz", "rar", "unrar"), ("-p…",)),
    **dict.fromkeys(("http", "https", "xh"), _USERS),
    "curl": (*_USERS, "-b =", "--cookie =", "-E :", "--cert :"),
    "ngrok": ("authtoken random", "add-authtoken random"),
    **dict.fromkeys(("rpcclient", "net"), ("-U %",)),
    "smbclient": ("-U %", "//*"),
    **dict.fromkeys(("snmpget", "snmpset", "snmpwalk", "snmpbulkwalk"), ("-A", "-X", "-c")),
    "vault": ("secret_id=…",),
    "nmcli": ("password", "*psk", "*.wep-key?"),
    "rclone": ("pass",),
    "htpasswd": ("-b last",),
    **dict.fromkeys(("kubectl", "oc"), ("-p login", "--from-literal=… secret")),
    "ipmitool": ("-P",),
    "twine": ("-p",),
    "influx": ("-t",),
    "sshpass": ("-p", "-p…"),
    "redis-cli": ("-a",),
    "lftp": ("-u ,",),
    "openssl": (
        "-pass pass:",
        "-passin pass:",
        "-passout pass:",
        "-k",
        "-K",
        "-hmac",
        "-macopt key:",
    ),
    "xfreerdp": ("/p:…",),
}
# Program -> words without its options: `.` is any word (and `*` any letters); `X` and all words after it
# are secrets; `X?` only those that look like one; of `X/` the text after the slash.
_PLACES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("mc", "mcli"), ("alias set . *://* X", "config host add . *://* X", "admin user add . . X")
    ),
    **dict.fromkeys(("sqlplus", "rman", "expdp", "impdp"), ("X/",)),
    "vault": ("login X?", "operator unseal X"),
    "wandb": ("login X?",),
    "mysqladmin": ("password X",),
    "rclone": ("obscure X",),
    "openssl": ("passwd X",),
    "redis-cli": ("AUTH X", "auth X", "CONFIG SET requirepass X"),
    "wpa_passphrase": (". X",),
}
_PROGRAMS = tuple(dict.fromkeys((*_OPTIONS, *_PLACES)))
_PROGRAM = lazy(
    rf"(?<![\w.-])(?:{'|'.join(map(re.escape, sorted(_PROGRAMS, key=len, reverse=True)))})(?=[ \t])"
)
_NAMES = tuple(f"{name} " for name in _PROGRAMS)
_NAMES_WITHOUT_DASH = tuple(
    f"{name} "
    for name in _PROGRAMS
    if name in _PLACES or any(not option.startswith("-") for option in _OPTIONS[name])
)
_WORD = lazy(r"[|;&\n]|(?:\"[^\"\n]{0,4000}\"|'[^'\n]{0,4000}'|[^\s|;&])+")
_ENDS = frozenset("|;&\n")
_PIPED = lazy(
    r"(\b(?:echo|printf)[ \t]{1,4}(?:-\w{1,3}[ \t]{1,4}|[\"']?%s(?:\\n)?[\"']?[ \t]{1,4}){0,2})"
    r"(\"[^\"\n]{1,400}\"|'[^'\n]{1,400}'|[^\s|;&\"']{1,400})"
    r"([ \t]{0,8}\|[ \t]{0,8}(?:sudo[ \t]{1,4}(?:-\w{1,4}[ \t]{1,4}){0,4}-\w{0,3}S\b"
    r"|[^|;&\n]{1,200}-stdin\b|[^|;&\n]{1,40}--stdin\b|(?:sudo[ \t]{1,4})?chpasswd\b))"
)
# Of any program: a user, and beside it what is neither a port nor a path.
_USER_AND_PASSWORD = lazy(
    r"(?<!\S)(-[uU][ \t]{1,4}(?!\S{0,200}\.py\b)\w[\w.@\\-]{0,60}[ \t]{1,4}-[pP][ \t]{1,4})"
    r"(?!\d{1,5}(?:\s|\Z)|[-/.$])[^\s:/]{1,200}(?=\s|\Z)"
)


def mask_programs(text: str) -> str:
    """In a shell command, also inside a longer text."""
    text = _mask_piped(text)
    if "-u " in text or "-U " in text:
        text = _USER_AND_PASSWORD.sub(rf"\1{MASK}", text)
    if not _has_program(text):
        return text
    pieces: list[str] = []
    done = at = 0
    while found := _PROGRAM.search(text, at):
        words: list[re.Match[str]] = []
        at = found.end()
        while word := _WORD.search(text, at):
            at = word.end()
            if word[0] in _ENDS:
                break
            words.append(word)
        else:
            at = len(text)
        for index, masked in _secret_words(found[0], [word[0] for word in words]).items():
            pieces += [text[done : words[index].start()], masked]
            done = words[index].end()
    return "".join((*pieces, text[done:])) if pieces else text


def _mask_piped(text: str) -> str:
    """`echo x | docker login --password-stdin`"""
    if "|" not in text or not ("-S" in text or "stdin" in text or "chpasswd" in text):
        return text
    return _PIPED.sub(lambda found: f"{found[1]}{MASK}{found[3]}", text)


def _has_program(text: str) -> bool:
    names = _NAMES if " -" in text else _NAMES_WITHOUT_DASH
    return any(name in text for name in names)


def mask_arguments(command: Sequence[str]) -> dict[int, str]:
    """The indices of words in a command line that have to be replaced, and their replacements."""
    for index, word in enumerate(command[:20]):
        if os.path.basename(word) in _PROGRAMS:
            found = _secret_words(os.path.basename(word), command[index + 1 :])
            return {index + 1 + place: masked for place, masked in found.items()}
    return _beside_users(command)


def _beside_users(command: Sequence[str]) -> dict[int, str]:
    """`-u bob -p x`, of programs that are not known."""
    found: dict[int, str] = {}
    for index in range(len(command) - 3):
        if command[index] in ("-u", "-U") and command[index + 2] in ("-p", "-P"):
            words = " ".join(command[index : index + 4])
            if words.count(" ") == 3 and _USER_AND_PASSWORD.fullmatch(words):
                found[index + 3] = MASK
    return found


def _secret_words(program: str, words: Sequence[str]) -> dict[int, str]:
    found = _after_options(_OPTIONS.get(program, ()), words)
    for pattern in _PLACES.get(program, ()):
        found.update(_in_places(pattern.split(), words))
    return dict(sorted(found.items()))


def _in_places(pattern: Sequence[str], words: Sequence[str]) -> dict[int, str]:
    """The words from the place of the pattern's last word on."""
    *before, secret = pattern
    places = [index for index, word in enumerate(words) if not word.startswith("-")]
    for first in range(len(places) - len(before)):
        here = [words[index] for index in places[first : first + len(before)]]
        if all(map(_fits, here, before)):
            rest = places[first + len(before) :][: 1 if secret == "X/" else None]
            masked = {index: _masked_in_place(words[index], secret) for index in rest}
            return {index: word for index, word in masked.items() if word is not None}
    return {}


def _fits(word: str, expected: str) -> bool:
    return expected in (".", word) or ("*" in expected and fnmatchcase(word, expected))


def _masked_in_place(word: str, secret: str) -> str | None:
    if secret == "X?":
        return _masked(word, "random")
    if secret == "X/":
        return None if word.startswith("@") else _masked(word, "/")
    return MASK


def _after_options(options: Sequence[str], words: Sequence[str]) -> dict[int, str]:
    found: dict[int, str] = {}
    for option in options:
        flag, _, condition = option.partition(" ")
        if condition in _IF_THERE and condition not in words:
            continue
        if condition == "last":
            if any(_is_flag(word, flag, condition) for word in words[:-1]):
                found[len(words) - 1] = MASK
            continue
        for index, word in enumerate(words):
            if flag.endswith("…"):
                start = flag[:-1]
                if word.startswith(start) and len(word) > len(start) and index not in found:
                    found[index] = f"{start}{MASK}"
            elif _is_flag(word, flag, condition) and index + 1 < len(words):
                masked = _masked(words[index + 1], condition)
                if masked is not None:
                    found[index + 1] = masked
            elif len(flag) == 2 and condition in (":", "%", "=") and word.startswith(flag):
                masked = _masked(word, condition)
                if masked is not None:
                    found[index] = masked
    return found


def _is_flag(word: str, flag: str, condition: str) -> bool:
    """Also one of several letters: `curl -sSu bob:x`, `htpasswd -bc file bob x`."""
    if word == flag or ("*" in flag and fnmatchcase(word, flag)):
        return True
    if len(flag) != 2 or not (word[:1] == "-" and word[1:].isalpha() and len(word) < 10):
        return False
    return word.endswith(flag[1]) if condition == ":" else condition == "last" and flag[1] in word


def _masked(word: str, condition: str) -> str | None:
    """`user:password` -> `user:***`; a word alone -> `***`."""
    if condition in ("", *_IF_THERE):
        return None if word.startswith("-") else MASK
    if condition == "random":
        return MASK if looks_made_up(word) else None
    user, sign, password = word.partition(condition)
    if not sign or not password.strip("\"'"):
        return None
    end = password[-1] if password[-1] in "\"'" and word.startswith(password[-1]) else ""
    return f"{user}{sign}{MASK}{end}"
