"""Inputs that begin as valid ones and are changed: values of a document, bytes of a file, lines of a
text. Each function makes one from a random generator, and the same one from the same generator."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from random import Random
from typing import Any

HOSTILE = "</script><!--<img src=x onerror=alert(1)>\x1b]52;c;eA==\x07\u202e{{7*7}}%s"


def nested(levels: int) -> Any:
    made: Any = 1
    for level in range(levels):
        made = [made] if level % 2 else {"a": made}
    return made


# Of types, sizes and spellings that a reader may not expect.
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, "", "x", "7", "-1", "nan", "rank", "a/../../b", "a\0b", "\ud800", "²"),
    *(0, 1, -1, 7, 2**31, 2**63, 2**64, -(2**63), 10**30, 10**400),
    *(0.5, -0.0, 1e308, -1e300, math.nan, math.inf, -math.inf),
    *([], {}, [[]], [None], {"": None}, [0, 0], ["a", 1], {"a": {"b": []}}),
    *(HOSTILE, "\n", "x" * 5_000, "é" * 300, "9" * 5_000, nested(49), nested(200)),
)
ODD_TEXTS = tuple(value for value in ODD_VALUES if isinstance(value, str))
_CHARACTERS = (
    "aZ09 _-.,:;=/\\()[]{}<>\"'*%#@\t\n\r\0\x1b\x7f\x85é²٣\u200b\u2028\u202e\ud83d😀\ufeff"
)


def some_text(random: Random, most: int = 12) -> str:
    return "".join(random.choices(_CHARACTERS, k=random.randint(0, most)))


def some_bytes(random: Random, most: int = 40) -> bytes:
    return random.randbytes(random.randint(0, most))


# --- documents of JSON --------------------------------------------------------------------


def changed_document(random: Random, documents: Sequence[Any], most: int = 4) -> Any:
    """One of these, in which up to so many values are others, missing, twice or elsewhere."""
    document = _copied(random.choice(documents))
    for _ in range(random.randint(0, most)):
        document = _changed(random, document)
    return document


def as_json(document: Any) -> bytes:
    return json.dumps(document).encode()


def changed_json(random: Random, documents: Sequence[Any], most: int = 4) -> bytes:
    """Most are JSON still; of some the bytes are damaged too."""
    data = as_json(changed_document(random, documents, most))
    return damaged(random, data) if random.random() < 0.15 else data


def _copied(document: Any) -> Any:
    return json.loads(json.dumps(document))


def _place(random: Random, document: Any) -> list[Any]:
    """The keys to some value in it; often near the leaves."""
    place: list[Any] = []
    while document and isinstance(document, (dict, list)) and random.random() < 0.9:
        keys = [*document] if isinstance(document, dict) else range(len(document))
        place.append(random.choice(keys))
        document = document[place[-1]]
    return place


def _at(document: Any, place: Sequence[Any]) -> Any:
    for key in place:
        document = document[key]
    return document


def _changed(random: Random, document: Any) -> Any:
    place = _place(random, document)
    old = _at(document, place)
    change = random.randrange(12)
    if change < 4:
        return _replaced(document, place, random.choice(ODD_VALUES))
    if change < 8:
        return _replaced(document, place, _similar(random, old))
    if change == 8:
        elsewhere = _at(document, _place(random, document))
        return _replaced(document, place, _copied(elsewhere))
    if not place:
        return [document]
    holder = _at(document, place[:-1])
    if isinstance(holder, list):
        holder[place[-1] : place[-1] + random.randint(0, 1)] = [old] * random.randint(0, 3)
        return document
    del holder[place[-1]]
    if change > 9:
        holder[random.choice(["", "x", *holder]) if holder else "x"] = old
    return document


def _replaced(document: Any, place: Sequence[Any], new: Any) -> Any:
    if not place:
        return new
    _at(document, place[:-1])[place[-1]] = _copied(new)
    return document


def _similar(random: Random, old: Any) -> Any:
    """Of the same type, so that it passes the decoder, and odd to what works with it."""
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return random.choice([-old, old + 1, old - 1, old * 1000, 2**63, 10**18, 0, -1])
    if isinstance(old, float):
        return random.choice([-old, old * 1e9, old + 1, 0.0, math.inf, math.nan, 1e300])
    if isinstance(old, str):
        odd = [old * 3, old[: len(old) // 2], f"{old}\n", f" {old}", old.upper(), old[::-1]]
        return random.choice(
            [*odd, random.choice(ODD_TEXTS), some_text(random), _with(random, old)]
        )
    if isinstance(old, list):
        return random.choice([[], old[:1], old[::-1], old * 2, old[1:], [old]])
    if isinstance(old, dict):
        return random.choice([{}, {"x": 1, **old}, dict([*old.items()][:1]), {"": old}])
    return random.choice(ODD_VALUES)


def _with(random: Random, text: str) -> str:
    start = random.randint(0, len(text))
    return text[:start] + some_text(random, 3) + text[start + random.randint(0, 3) :]


# --- bytes --------------------------------------------------------------------------------

# What stands for something in one format or another.
TOKENS = (
    *(b"\0", b"\n", b"\r\n\r\n", b"\\", b'"', b"'", b"{", b"}", b"[", b"]", b",", b":", b"\t"),
    *(b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"\xed\xa0\x80", b"\xc3", b"\x1b[31m", b"\x1b]0;"),
    *(b"NaN", b"1e999", b"-Infinity", b"9" * 5_000, b"[" * 3_000, b"(" * 300, b"\\ud800"),
    *(b"2**63", b"18446744073709551616", b"%s%n", b"../..", b"\x85", b"\xe2\x80\xa8"),
)
_SIZES = (0, 1, 1, 2, 4, 16, 64, 1024)


def damaged(random: Random, data: bytes, tokens: Sequence[bytes] = TOKENS, most: int = 4) -> bytes:
    for _ in range(random.randint(1, most)):
        data = _damaged_once(random, data, tokens)
    return data


def _damaged_once(random: Random, data: bytes, tokens: Sequence[bytes]) -> bytes:
    start = random.randint(0, len(data))
    end = min(len(data), start + random.choice(_SIZES))
    head, part, tail = data[:start], data[start:end], data[end:]
    match random.randrange(8):
        case 0:
            return head
        case 1:
            return head + tail
        case 2:
            return head + some_bytes(random, 8) + tail
        case 3:
            return head + random.choice(tokens) + tail
        case 4:
            return head + part * random.randint(2, 40) + tail
        case 5:
            to = random.randint(0, len(data))
            return data[:to] + part + data[to:]
        case 6:
            return (
                head + bytes(each ^ 1 << random.randrange(8) for each in part[:8]) + part[8:] + tail
            )
        case _:
            number = random.choice([0, 1, 127, 128, 255])
            return head + bytes([number]) * len(part) + tail


# --- text ---------------------------------------------------------------------------------

_ENDS = ("\n", "\n", "\n", "\n", "\r\n", "\r", "\n\n", "\n3: ", "\n> ", "")


def mixed_lines(
    random: Random, texts: Sequence[str], words: Sequence[str], most: int = 40
) -> bytes:
    """Lines of these texts in any order, some with words and characters that are not theirs; or a part
    of one text as it is, damaged."""
    if random.random() < 0.3:
        return damaged(random, random.choice(texts).encode())
    made = ""
    while random.random() < 1 - 1 / most:
        lines = random.choice(texts).splitlines() or [""]
        start = random.randrange(len(lines))
        for line in lines[start : start + random.choice((1, 1, 2, 8))]:
            made += _line(random, line, words) + random.choice(_ENDS)
    data = made.encode("utf-8", "surrogatepass")
    return damaged(random, data) if random.random() < 0.2 else data


def _line(random: Random, line: str, words: Sequence[str]) -> str:
    match random.randrange(8):
        case 0:
            return _with(random, line)
        case 1:
            start = random.randint(0, len(line))
            return line[:start] + random.choice(words) + line[start + random.randint(0, 4) :]
        case 2:
            return random.choice(words) + random.choice(["", " ", ": "]) + line
        case 3:
            return _other_numbers(random, line)
        case _:
            return line


def _other_numbers(random: Random, line: str) -> str:
    """Some of its digits; Python refuses to read a number of 5,000."""
    odd = ("-1", "0", "9" * 30, "9" * 5_000, "18446744073709551616", "1e999", "²", "٣", "0x", "")
    share = random.choice((0.05, 0.3))
    return "".join(
        random.choice(odd) if each.isdigit() and random.random() < share else each for each in line
    )
