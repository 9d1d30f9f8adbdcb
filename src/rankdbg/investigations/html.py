"""Results as HTML for notebooks: tables, trees and facts, all text of ranks escaped.

No script, no style sheet and nothing from elsewhere: a notebook may be read offline, and trusts
what it shows. Colours are the notebook's own; the odd one is marked in words and with a bar, so
that both dark and light pages show it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Protocol

from rankdbg.text.escapes import visible

ODD = "odd one out"
MOST_ROWS = 200
_LINE = "1px solid rgba(128,128,128,.35)"
_MARK = "#e0533d"  # 3.5 : 1 or more on white and on black
_CELL = "padding:2px 10px;text-align:left;vertical-align:top;white-space:pre-wrap"
_CODE = "font-family:monospace"
_TABLE = "border-collapse:collapse;margin:4px 0"
_BRANCH = f"padding:0 10px;text-align:left;white-space:pre;line-height:1.3;border:none;{_CODE}"


class HtmlPart(Protocol):
    def html(self) -> str: ...


@dataclass(frozen=True)
class TableRow:
    cells: tuple[str, ...]
    mark: str = ""  # why it stands out, `` if it does not


@dataclass(frozen=True)
class Table:
    columns: tuple[str, ...]
    rows: Sequence[TableRow]

    def html(self) -> str:
        if not self.rows:
            return ""
        shown = self.rows[:MOST_ROWS]
        has_marks = any(row.mark for row in shown)
        columns = [*self.columns, *([""] if has_marks else [])]
        head = "".join(_cell("th", column) for column in columns)
        body = "".join(_row(row, has_marks) for row in shown)
        left_out = len(self.rows) - len(shown)
        more = _paragraph(f"and {left_out} more rows: see as_json()") if left_out else ""
        return (
            f'<table style="{_TABLE}">'
            f'<thead style="opacity:.75">{_line(head)}</thead><tbody>{body}</tbody></table>{more}'
        )


@dataclass(frozen=True)
class TreeLine:
    branch: str  # lines that lead to it: │  └─
    text: str
    ranks: str
    mark: str = ""


@dataclass(frozen=True)
class Tree:
    """A merged tree: each line with the ranks that pass through it."""

    title: str
    lines: Sequence[TreeLine]

    def html(self) -> str:
        if not self.lines:
            return ""
        title = f'<div style="margin:6px 0 2px"><b>{_text(self.title)}</b></div>'
        rows = "".join(
            f'<tr style="background:none;{_bar(line.mark)}">'
            f'<td style="{_BRANCH}">{_text(line.branch + line.text)}</td>'
            f'<td style="{_BRANCH}"><b>{_text(line.ranks)}</b>{_note(line.mark)}</td></tr>'
            for line in self.lines
        )
        return f'{title}<table style="{_TABLE}">{rows}</table>'


@dataclass(frozen=True)
class FactTable:
    """Names and texts, as a verdict has them; without a text a fact is left out."""

    facts: Sequence[tuple[str, str]]

    def html(self) -> str:
        rows = "".join(
            _line(f"{_cell('th', name)}{_cell('td', text)}") for name, text in self.facts if text
        )
        return rows and f'<table style="{_TABLE}">{rows}</table>'


@dataclass(frozen=True)
class Paragraph:
    text: str

    def html(self) -> str:
        return _paragraph(self.text) if self.text else ""


def page(headline: str, parts: Sequence[HtmlPart]) -> str:
    """What a notebook shows of a result."""
    content = "".join(part.html() for part in parts)
    return f'<div style="color:inherit"><div><b>{_text(headline)}</b></div>{content}</div>'


def _row(row: TableRow, has_marks: bool) -> str:
    first, *others = row.cells or ("",)
    cells = _cell("td", first, "font-weight:bold;min-width:7ch") + "".join(
        _cell("td", c, _CODE) for c in others
    )
    if has_marks:
        cells += f'<td style="{_CELL}">{_note(row.mark)}</td>'
    return _line(cells, row.mark)


def _line(cells: str, mark: str = "") -> str:
    return f'<tr style="background:none;border-bottom:{_LINE};{_bar(mark)}">{cells}</tr>'


def _cell(tag: str, text: str, style: str = "") -> str:
    return f'<{tag} style="{_CELL};{style}">{_text(text)}</{tag}>'


def _paragraph(text: str) -> str:
    return f'<div style="opacity:.75;white-space:pre-wrap">{_text(text)}</div>'


def _bar(mark: str) -> str:
    """As wide without a mark, so that all rows begin at the same place."""
    return f"border-left:3px solid {_MARK if mark else 'transparent'}"


def _note(mark: str) -> str:
    return f' <span style="color:{_MARK};font-weight:bold">← {_text(mark)}</span>' if mark else ""


def _text(text: str) -> str:
    """Of a rank, a log or a file: never markup, and nothing that hides or turns around."""
    return escape(visible(text), quote=True)
