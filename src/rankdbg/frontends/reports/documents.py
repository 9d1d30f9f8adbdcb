"""Prints results as JSON documents."""

from __future__ import annotations

import sys
from typing import Any


def print_json(kind: str, content: dict[str, Any]) -> None:
    from rankdbg.investigations.documents import json_text

    sys.stdout.write(json_text(kind, content))
