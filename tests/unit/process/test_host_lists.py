"""Slurm's lists of hosts."""

from __future__ import annotations

import pytest

from rankdbg.process.host_lists import is_listed


@pytest.mark.parametrize(
    ("host", "hosts", "expected"),
    [
        ("node-0", "node-0", True),
        ("node-1", "node-[1-2]", True),
        ("node-3", "node-[1-2]", False),
        ("node-12", "node-[1-2]", False),
        ("node-7", "node-[1-2,7],gpu[01-03]", True),
        ("gpu02", "node-[1-2,7],gpu[01-03]", True),
        ("gpu2", "node-[1-2,7],gpu[01-03]", False),
        ("gpu010", "gpu[008-011]", True),
        ("rack1-node10-ib", "rack[0-1]-node[9-10]-ib", True),
        ("rack1-node11-ib", "rack[0-1]-node[9-10]-ib", False),
        ("a", "a[1-2]", False),
        ("", "", True),
        ("a1", "a[1-", True),
        ("a1", "a[x]", False),
    ],
)
def test_is_listed(host: str, hosts: str, expected: bool) -> None:
    """Ranges, widths, several lists, and what is no list."""
    assert is_listed(host, hosts) is expected
