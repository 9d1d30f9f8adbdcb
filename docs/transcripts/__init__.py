"""Pages with transcripts, and the scenario of each."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

from transcripts.page import commands_of, parse
from transcripts.scenario import Scenario, assign

ROOT = Path(__file__).parents[2]
# gallery.md is made by make_gallery.py.
_FILES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs/guides").glob("*.md")),
    *sorted((ROOT / "docs/reference").glob("*.md")),
]
# The name of the page, as in `make_transcripts.py over-ssh` -> its file, below the checkout.
PAGES = {
    path.stem.lower(): str(path.relative_to(ROOT))
    for path in _FILES
    if commands_of(parse(path.read_text()))
}


def load_scenario(name: str) -> Scenario:
    module = importlib.import_module(f"transcripts.scenes.{re.sub('-', '_', name)}")
    scenario: Scenario = module.SCENARIO
    return scenario


def problems(name: str) -> list[str]:
    """Commands of a page without a scenario or a reason, and the other way round."""
    try:
        assign(commands_of(parse((ROOT / PAGES[name]).read_text())), load_scenario(name))
    except (ModuleNotFoundError, ValueError) as error:
        return [str(error)]
    return []
