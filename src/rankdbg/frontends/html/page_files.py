"""One self-contained HTML file: the built page, with its document inside; and the live page, which is
sent its document later.

What a job says is only ever data: it is in a script element of type JSON, in which no `<`, `>` or
`&` is left, and the page shows it as text. The policy of the file allows this one script and this
one style by their hashes, and no address at all.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from contextlib import AbstractContextManager
from functools import cache
from html import escape
from pathlib import Path
from typing import IO, Any, TypeVar

from rankdbg.errors import BadInput, shortened
from rankdbg.files import whole_files
from rankdbg.frontends.html.document import PageDocument
from rankdbg.investigations.documents import finite
from rankdbg.text.escapes import visible, visible_line

Document = TypeVar("Document")
BUILT = Path(__file__).with_name("built")
# Inside of a script element these could end it, or begin a comment.
_ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<noscript>This page needs JavaScript. It loads nothing from the network.</noscript>
<script type="application/json" id="document">{document}</script>
<script>{script}</script>
</body>
</html>
"""


def check_place(name: str) -> None:
    """Before a long question is asked: whether the file can be written at all."""
    if not name or name == "-":
        raise BadInput(f"invalid --html {name!r}: expected the name of a file")
    try:
        why = _why_not(Path(name))
    except OSError as error:
        why = error.strerror or str(error)
    if why:
        raise _cannot_write(name, why)


def _why_not(path: Path) -> str:
    """Why it cannot be written; `` if it can."""
    folder = path.parent
    if not folder.is_dir():
        return f"there is no directory {shortened(str(folder), 200)}"
    if path.is_dir():
        return "it is a directory"
    if path.exists():  # raises OSError for a name that is too long
        if not os.access(path, os.W_OK):
            return "permission denied"
        if not path.is_file():
            return ""
    whole_files.check_directory(path)
    return ""


def write_page(document: PageDocument, name: str) -> None:
    """Whole or not at all: a reader never opens half a report. Its owner alone can read it."""
    path = Path(name)
    text = page_text(document)
    is_special = path.exists() and not path.is_file()  # /dev/stdout, a pipe
    try:
        with _special_file(path) if is_special else _whole_file(path) as file:
            file.write(text)
    except OSError as error:
        raise _cannot_write(name, error.strerror or str(error)) from None


def _special_file(path: Path) -> IO[str]:
    return open(path, "w", encoding="utf-8", errors="replace")


def _whole_file(path: Path) -> AbstractContextManager[IO[str]]:
    return whole_files.open_whole(path, errors="replace")


def page_text(document: PageDocument) -> str:
    style, script = _built("page.css"), _built("page.js")
    title = f"{document['verdict']['title']} {document['job']}".strip()
    return _PAGE.format(
        policy=_policy(style, script),
        title=escape(visible_line(title)),
        style=style,
        document=embedded(document),
        script=script,
    )


def live_page(socket: str, pace: float) -> tuple[str, str]:
    """The page and its policy, which admits a connection to this address, `ws://HOST`. `pace`: seconds
    between two looks."""
    style, script = _built("page.css"), _built("live.js")
    policy = f"{_policy(style, script)}; connect-src {socket}; frame-ancestors 'none'"
    text = _PAGE.format(
        # A policy in the page knows no frame-ancestors: the one of the response has it.
        policy=f"{_policy(style, script)}; connect-src {socket}",
        title="rankdbg",
        style=style,
        document=_in_script({"pace": pace}),
        script=script,
    )
    return text, policy


def embedded(document: PageDocument) -> str:
    """JSON that is safe inside of a script element."""
    return _in_script(without_hidden_text(document))


def _in_script(value: Any) -> str:
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for character, spelled in _ESCAPED.items():
        text = text.replace(character, spelled)
    return text


def without_hidden_text(document: Document) -> Document:
    """Nothing that hides or turns around, in any text; and no number that JSON has not."""
    shown: Document = _visible(finite(document))
    return shown


def _visible(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {key: _visible(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_visible(item) for item in value]
    return value


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _built(name: str) -> str:
    return (BUILT / name).read_text("utf-8")


def _cannot_write(name: str, why: str) -> BadInput:
    return BadInput(
        f"cannot write {shortened(visible_line(name), 200)}: {why}",
        hint="--html needs a writable file",
    )
