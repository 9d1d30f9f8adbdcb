"""Rows of `kubectl get events`: each is about one object, a pod mostly."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rankdbg.logs.patterns import FileScan

_ROW = re.compile(r"(?:^|\s)pod/(?P<host>[a-z0-9][a-z0-9.-]*)\s")


def row_pod(text: str) -> str:
    """The pod of a row, or ``."""
    found = _ROW.search(text)
    return found["host"] if found else ""


def pods_of_rows(scans: Iterable[FileScan]) -> set[str]:
    rows = (hit.text for scan in scans for hit in scan.hits if "pod/" in hit.text)
    return {row_pod(row) for row in rows} - {""}
