"""Masks options of well-known programs that take a password without a telling name."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from rankdbg.process.masking.patterns import lazy
from rankdbg.process.masking.secrecy import MASK, looks_made_up

# Program -> options. The password is with `-w` the next word; with `-p…` the rest of the word; with
# `-u :` the text after the colon in the next word; with `-p login` the next word, if the command
# contains `login`; with `login random` the word after it, if that looks like a secret; with `-b =` the
# text after the first `=` in the next word; with
# `--x=… secret` the rest of the word, if the command contains `secret`.
_USERS = ("-u :", "--user :", "-U :", "-a :", "--proxy-user :")
_OPTIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("mysql", "mysqldump", "mysqladmin", "mysqlimport", "mariadb"), ("-p…",)),
    **dict.fromkeys(("mongo", "mongosh", "mongodump", "mongorestore"), ("-p", "-p…")),
    **dict.fromkeys(("docker", "podman", "nerdctl", "skopeo", "buildah", "oras"), ("-p login",)),
    **dict.fromkeys(("az", "helm", "crane"), ("-p login",)),
    **dict.fromkeys(("ldapsearch", "ldapadd", "ldapmodify", "ldapwhoami"), ("-w",)),
    **dict.fromkeys(("sqlcmd", "bcp", "mosquitto_pub", "mosquitto_sub", "zip", "unzip"), ("-P",)),
    **dict.fromkeys(("7z", "7za", "7zz", "rar", "unrar"), ("-p…",)),
    **dict.fromkeys(("http", "https", "xh"), _USERS),
    "curl": (*_USERS, "-b =", "--cookie ="),
    "ngrok": ("authtoken random", "add-authtoken random"),
    **dict.fromkeys(("smbclient", "rpcclient", "net"), ("-U %",)),
    **dict.fromkeys(("snmpget", "snmpset", "snmpwalk", "snmpbulkwalk"), ("-A", "-X")),
    **dict.fromkeys(("wandb", "vault"), ("login random",)),
    **dict.fromkeys(("kubectl", "oc"), ("-p login", "--from-literal=… secret")),
    "ipmitool": ("-P",),
    "twine": ("-p",),
    "influx": ("-t",),
    "sshpass": ("-p", "-p…"),
    "redis-cli": ("-a",),
    "lftp": ("-u ,",),
    "openssl": ("-pass pass:", "-passin pass:", "-passout pass:", "-k"),
    "xfreerdp": ("/p:…",),
}
_PROGRAM = lazy(
    rf"(?<![\w.-])(?:{'|'.join(map(re.escape, sorted(_OPTIONS, key=len, reverse=True)))})(?=[ \t])"
)
_NAMES = tuple(f"{name} " for name in _OPTIONS)
_WORD = lazy(r"[|;&\n]|(?:\"[^\"\n]{0,4000}\"|'[^'\n]{0,4000}'|[^\s|;&])+")
_ENDS = frozenset("|;&\n")
_PIPED = lazy(
    r"(\b(?:echo|printf)[ \t]{1,4}(?:-\w{1,3}[ \t]{1,4}|[\"']?%s(?:\\n)?[\"']?[ \t]{1,4}){0,2})"
    r"(\"[^\"\n]{1,400}\"|'[^'\n]{1,400}'|[^\s|;&\"']{1,400})"
    r"([ \t]{0,8}\|[ \t]{0,8}(?:sudo[ \t]{1,4}(?:-\w{1,4}[ \t]{1,4}){0,4}-\w{0,3}S\b"
    r"|[^|;&\n]{1,200}-stdin\b|[^|;&\n]{1,40}--stdin\b|(?:sudo[ \t]{1,4})?chpasswd\b))"
)


def mask_programs(text: str) -> str:
    """In a shell command, also inside a longer text."""
    text = _mask_piped(text)
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
    if " -" in text or " /p:" in text or " login " in text or "authtoken " in text:
        for name in _NAMES:
            if name in text:
                return True
    return False


def mask_arguments(command: Sequence[str]) -> dict[int, str]:
    """The indices of words in a command line that have to be replaced, and their replacements."""
    for index, word in enumerate(command[:20]):
        if os.path.basename(word) in _OPTIONS:
            found = _secret_words(os.path.basename(word), command[index + 1 :])
            return {index + 1 + place: masked for place, masked in found.items()}
    return {}


def _secret_words(program: str, words: Sequence[str]) -> dict[int, str]:
    found: dict[int, str] = {}
    for option in _OPTIONS[program]:
        flag, _, condition = option.partition(" ")
        if condition in ("login", "secret") and condition not in words:
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
    return dict(sorted(found.items()))


def _is_flag(word: str, flag: str, condition: str) -> bool:
    """Also the last of several letters: `curl -sSu bob:x`."""
    if word == flag:
        return True
    together = condition == ":" and len(flag) == 2 and word[:1] == "-" and word.endswith(flag[1])
    return together and len(word) < 10 and word[1:].isalpha()


def _masked(word: str, condition: str) -> str | None:
    """`user:password` -> `user:***`; a word alone -> `***`."""
    if condition in ("", "login"):
        return None if word.startswith("-") else MASK
    if condition == "random":
        return MASK if looks_made_up(word) else None
    user, sign, password = word.partition(condition)
    if not sign or not password.strip("\"'"):
        return None
    end = password[-1] if password[-1] in "\"'" and word.startswith(password[-1]) else ""
    return f"{user}{sign}{MASK}{end}"
