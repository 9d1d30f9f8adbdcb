"""Text of others made visible: what would command a terminal, or deceive a reader, is spelled out.

A value, a thread's name or a line of a log may hold anything. `\\x1b]52;…` writes the clipboard,
U+202E turns the rest of a line around, U+200B makes two different names look equal.
"""

from __future__ import annotations

import re

_SPELLED_OUT = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 except tab and newline, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction of writing
    "\u2028\u2029"  # separators of lines and paragraphs
    "\u00ad\u180e\u200b\u2060-\u2065\u206a-\u206f\ufeff"  # without any width
    "\u115f\u1160\u3164\uffa0"  # letters that show nothing
    "\ufff9-\ufffb\U0001d173-\U0001d17a"  # annotations, musical marks
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"  # tags: a second text, unseen
    "\ud800-\udfff"  # halves of characters; some encodings write them as raw bytes
)
_JOINERS = "\u200c\u200d"
_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_EMOJI = "\ufe0f"  # the selector that makes a sign an emoji
_SUSPECT = re.compile(f"[{_SPELLED_OUT}{_JOINERS}{_SELECTORS}]")
_SELECTOR = re.compile(f"[{_SELECTORS}]")


def visible(text: str) -> str:
    """As Python's repr() spells these characters: \\x1b, \\u202e. Lines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return _SUSPECT.sub(_spelled, text)


def visible_line(text: str) -> str:
    """The same, on one line."""
    return visible(text).replace("\n", "\\n")


def _spelled(match: re.Match[str]) -> str:
    """What stays in its place stays only beside what stays as well."""
    character, text, start = match[0], match.string, match.start()
    before, after = text[max(0, start - 2) : start], text[match.end() : match.end() + 1]
    if character in _JOINERS and _joins(before.removesuffix(_EMOJI)[-1:]) and _joins(after):
        return character
    if _SELECTOR.match(character) and _has_forms(before[-1:], character):
        return character
    return ascii(character)[1:-1]


def _joins(neighbour: str) -> bool:
    """Joiners belong between letters of Persian or Hindi, and between emoji: not beside ASCII."""
    return not neighbour.isascii() and not _SUSPECT.match(neighbour)


def _has_forms(before: str, selector: str) -> bool:
    """A selector chooses the form of the one character before it; a row of them is a hidden text.
    ASCII has forms of emoji alone, as in a keycap."""
    if before.isascii() and (not before or selector > _EMOJI):
        return False
    return not _SUSPECT.match(before)
