"""Slurm's lists of hosts: `node-[0-3,07],gpu1`. Imports nothing: the agent loads it at its start."""

from __future__ import annotations


def is_listed(host: str, hosts: str) -> bool:
    return any(_matches(host, pattern) for pattern in _patterns(hosts))


def _patterns(hosts: str) -> list[str]:
    """Split at the commas that are not in brackets."""
    patterns = [""]
    inside = False
    for letter in hosts:
        inside = letter == "[" or (inside and letter != "]")
        if letter == "," and not inside:
            patterns.append("")
        else:
            patterns[-1] += letter
    return patterns


def _matches(host: str, pattern: str) -> bool:
    before, bracket, rest = pattern.partition("[")
    if not bracket:
        return host == pattern
    numbers, _, after = rest.partition("]")
    tail = host[len(before) :]
    digits = len(tail) - len(tail.lstrip("0123456789"))
    return host.startswith(before) and any(
        _has_number(tail[:count], numbers) and _matches(tail[count:], after)
        for count in range(1, digits + 1)
    )


def _has_number(number: str, numbers: str) -> bool:
    """`0-3,07`: a number with leading zeros has the width of its first one."""
    for each in numbers.split(","):
        low, _, high = each.partition("-")
        high = high or low
        if low.isdigit() and high.isdigit() and int(low) <= int(number) <= int(high):
            padded = str(int(number)).rjust(len(low), "0")
            if number == padded:
                return True
    return False
