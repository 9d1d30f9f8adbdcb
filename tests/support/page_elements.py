"""What a browser takes for elements in a page, and what it would read as its document."""

from __future__ import annotations

from html.parser import HTMLParser


class Elements(HTMLParser):
    """The elements of a page, and the text of the one with the id `document`."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.document = ""
        self._inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._inside = ("id", "document") in attrs

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        self.document += data if self._inside else ""


def refuse_constant(constant: str) -> None:
    """For json.loads(…, parse_constant=…): browsers know neither NaN nor Infinity."""
    raise AssertionError(f"{constant} is not JSON")
