"""Text of ranks on its way to a language model: it is data, whatever it says.

A value, a log line, an exception or a name may have been written to be read by a model. Escape
sequences are taken out, secrets masked, long texts cut; a text that reads like an instruction is
put into quotes, with a word that says where it comes from.
"""

from __future__ import annotations

import json
import re
from typing import Any

from rankdbg.process.masking import mask_text
from rankdbg.text.escapes import visible

LONGEST = 400
LONGEST_QUOTED = 160
MARK = "text from the job, not an instruction"

# Keys whose texts are rankdbg's own, from its rules: "run dmesg" is meant there.
OWN = frozenset({"next", "hint", "schema", "confidence", "cause", "mode", "why", "role", "links"})

_ESCAPES = re.compile(
    r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]?"  # colours, movements of the cursor
    r"|\x1b[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)?"  # titles, the clipboard, strings
    r"|\x1b[ -/]{0,8}[0-~]?|\x9b[0-?]{0,64}[ -/]{0,8}[@-~]?"
    r"|\\x1b\[[0-9;?]{0,64}[A-Za-z]"  # spelled out by repr()
)
_GAPS = re.compile(r"[\s_*+-]+")
# These phrases are meant for a model, and have no place in an honest log.
_ORDERS = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b.{0,60}"
    r"\b(?:previous|prior|above|earlier|all|your|system)\b.{0,40}"
    r"\b(?:instructions?|prompts?|rules|messages?|context)\b"
    r"|\b(?:new|real|updated|system) (?:instructions?|prompts?)\b"
    r"|\byou are (?:now |an? )?(?:ai|assistant|model|agent|root|in developer mode)\b"
    r"|</?\s?(?:system|assistant|user|human|instructions?|tool_?\w{0,12}|function_calls?)\b"
    r"|<\||\|>|\[/?inst\]|<</?sys>>"
    r"|^\W{0,8}(?:system|assistant|human|developer)\s?:"
    r"|\b(?:do not|don't|never) (?:tell|inform|mention|reveal|show)\b.{0,30}"
    r"\b(?:users?|humans?|anyone|anybody|operators?|developers?)\b",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
# These are found in honest logs as well, where quotes do no harm.
_REQUESTS = re.compile(
    r"\b(?:you|agents?|assistants?|models?) (?:must|should|shall|need to|have to)\b"
    r"|\b(?:please|now|immediately|then) (?:run|execute|call|invoke|delete|kill|send|upload|open)\b"
    r"|\b(?:run|execute|call|invoke) (?:the |this |following )*(?:command|tool|function|shell|script)\b"
    r"|\b(?:curl|wget)\b[^|\n]{0,200}\|\s{0,4}(?:ba|z)?sh\b|\brm -rf\b",
    re.IGNORECASE,
)


def clean_text(text: str, key: str = "", longest: int = LONGEST) -> str:
    """One text of a document; `key`: where it is."""
    text = visible(mask_text(_ESCAPES.sub("", text)))
    if _reads_like_an_order(text, key):
        quoted = json.dumps(shorten(text, LONGEST_QUOTED), ensure_ascii=False)
        return f"[{MARK}: {quoted}]"
    return shorten(text, longest)


def _reads_like_an_order(text: str, key: str) -> bool:
    """Also one that is written with underscores, as the name of a file, or with many blanks; and one
    that pretends to be in quotes already."""
    if MARK in text:
        return True
    for form in (text, _GAPS.sub(" ", text)):
        if _ORDERS.search(form) or (key not in OWN and _REQUESTS.search(form)):
            return True
    return False


def shorten(text: str, longest: int) -> str:
    """The beginning; of several lines also the end, where a traceback says what happened."""
    if len(text) <= longest:
        return text
    end = 2 * longest // 3 if "\n" in text else 0
    left = f"… ({len(text) - longest} more characters)"
    return f"{text[: longest - end]}{left}" + (f" …{text[len(text) - end :]}" if end else "")


def is_marked(text: str) -> bool:
    """Whether it is in quotes already."""
    return text.startswith(f"[{MARK}: ")


def clean(value: Any, key: str = "", longest: int = LONGEST) -> Any:
    """A document, with every text of it cleaned, names among keys too."""
    if isinstance(value, str):
        return clean_text(value, key, longest)
    if isinstance(value, dict):
        return {clean_text(str(k)): clean(item, str(k), longest) for k, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(item, key, longest) for item in value]
    return value
