"""Text of others: what commands a terminal or deceives a reader is spelled out, the rest stays."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankdbg.text.escapes import visible, visible_line

HOSTILE = {
    "\x1b]52;c;ZXZpbA==\x07": r"\x1b]52;c;ZXZpbA==\x07",  # the clipboard
    "\x1b[2J": r"\x1b[2J",  # the screen
    "\x1b[31mred": r"\x1b[31mred",
    "\x1b]8;;http://a\x1b\\b": r"\x1b]8;;http://a\x1b\b",  # a link
    "\x9b2J\x85\x90": r"\x9b2J\x85\x90",  # C1
    "a\rb\bc\x00d\x7f\x0b\x0c": r"a\rb\x08c\x00d\x7f\x0b\x0c",
    "\u202eevil\u202c": r"\u202eevil\u202c",
    "\u2066a\u2069\u200e\u200f\u061c": r"\u2066a\u2069\u200e\u200f\u061c",
    "a\u2028b\u2029c": r"a\u2028b\u2029c",
    "rank\u200b0\u2060\ufeff\u00ad": r"rank\u200b0\u2060\ufeff\xad",
    "\U000e0041\U000e0001": r"\U000e0041\U000e0001",  # tags
    "a\u3164b\u1160": r"a\u3164b\u1160",  # letters that show nothing
    "lo\u200dss": r"lo\u200dss",  # a joiner between letters that do not join
    "\u200cx\u200c": r"\u200cx\u200c",
    "é\u200d\u200d\u200dé": r"é\u200d\u200d\u200dé",
    "a\U000e0100": r"a\U000e0100",
    "❤\ufe0f\ufe01\ufe02": "❤\ufe0f" + r"\ufe01\ufe02",  # a text in selectors
    "\udc9b\ud800": r"\udc9b\ud800",  # becomes the byte 9b in some encodings
}
INNOCENT = [
    "",
    "plain text, a\ttab\nand a second line",
    "r'C:\\x1b'",
    "naïve café Ångström e\u0301",
    "損失 = 0.5  손실  потеря",
    "الخسارة تساوي صفر",  # written from right to left
    "ההפסד הוא אפס",
    "می\u200cخواهم",  # Persian needs its joiners
    "क्\u200dष",
    "👩\u200d💻 👨\u200d👩\u200d👧 🏳\ufe0f\u200d🌈 ❤\ufe0f 1\ufe0f\u20e3 🇩🇪",
    "葛\U000e0100城",  # a form of a character
    "├─ │ … × ± µs °C",
    "a\u00a0b\u3000c",
    "\ue0b0 \uf015 \U000f0001",  # icons of terminals' fonts
]


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_what_commands_or_deceives_is_spelled_out(text: str) -> None:
    """As repr() spells it."""
    assert visible(text) == HOSTILE[text]


@pytest.mark.parametrize("text", INNOCENT, ids=ascii)
def test_all_else_stays(text: str) -> None:
    """Letters of every language, emoji, tabs and lines."""
    assert visible(text) == text


def test_a_line_stays_one() -> None:
    """Where one line is expected, nobody adds another."""
    assert visible_line("a\nerror: b\r\n") == r"a\nerror: b\r\n"


ODD = "é損a1❤👩\u200d\u200c\ufe0f\ufe01\U000e0100\u200b\x1b\u202e\udc80\n "


@given(st.text(alphabet=st.characters()) | st.text(alphabet=ODD))
def test_nothing_invisible_is_left(text: str) -> None:
    """No control, no direction, no half of a character; and a second time changes nothing."""
    shown = visible(text)
    left = {c for c in shown if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")}
    assert left <= {"\n", "\t"}
    assert not {c for c in shown if unicodedata.bidirectional(c) in DIRECTIONS}
    assert visible(shown) == shown


DIRECTIONS = ("LRE", "LRO", "RLE", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
