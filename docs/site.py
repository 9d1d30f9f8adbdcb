"""A hook of mkdocs: pages of the site that lie beside docs/ in the repository, and links to them."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
# In the repository -> on the site.
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changes.md",
    "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "contributing.md",
}
_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>[^)#:\s]+)(?P<anchor>#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, place in PAGES.items():
        files.append(File.generated(config, place, content=(ROOT / name).read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links are written for the repository: here some pages are elsewhere, and what is no page (an
    example, a test) is only named."""
    here = page.file.src_uri
    origin = next((name for name, place in PAGES.items() if place == here), f"docs/{here}")

    def relinked(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(origin), link["target"]))
        place = PAGES.get(target, target.removeprefix("docs/"))
        if files.get_file_from_path(place) is not None:
            there = posixpath.relpath(place, posixpath.dirname(here))
            return f"[{link['text']}]({there}{link['anchor'] or ''})"
        return link["text"] if (ROOT / target).exists() else link[0]

    return _LINK.sub(relinked, markdown)
