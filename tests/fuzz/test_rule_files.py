"""Rule files of users and of plug-ins, and what their rules find in a log."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

from fuzzing import Target, short_form, shown_by
from mutations import HOSTILE, mixed_lines
from rankdbg.verdicts.rules.rule_files import own_texts, parse

LOG = """\
2026-03-01 10:00:00 step 1 loss 2.31
2026-03-01 10:00:01 [rank3] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
2026-03-01 10:00:02 NCCL WARN Cuda failure 'invalid argument'
"""
# A rule of every kind; those that come with rankdbg say how.
KINDS = ("failure", "harmless", "recovery", "phase", "hang", "profile")
RULES = [
    f"[[{kind}]]{rule}"
    for _, text in own_texts()
    for kind in KINDS
    for rule in text.split(f"[[{kind}]]")[1:12]
]
WORDS = (
    *(
        "[[failure]]",
        "[[phase]]",
        "[[hang]]",
        "[[x]]",
        "[failure]",
        "match",
        "unless",
        "=",
        '"',
        "'",
    ),
    *("['a']", "[[]]", "{}", "true", "nan", "inf", "1", "9" * 5000, "1979-05-27T07:32:00Z", '"""'),
    *("(?P<a>", "(a+)+$", "[", "\\", "(?i)", "{99999999}", "(?P<rank>\\\\d+)", "^", ".*", HOSTILE),
    *("mode = 'm'", "cause = 'c'", "fix = 'f'", "after = 3", "role = 'x'", "links = ['x']"),
)


# In a literal string, and in a regular expression.
ODD_TEXTS = (
    "|",
    ".*",
    "(?P<ranks>\\d+)",
    "{",
    "}",
    "{rank}",
    "(?P<x>a)",
    "\\d+",
    "^",
    "$",
    " ",
    "é",
)


def rule_files(random: Random) -> bytes:
    texts = [random.choice(RULES) for _ in range(random.randint(1, 3))]
    if random.random() < 0.3:
        return mixed_lines(random, texts, WORDS)
    return "\n".join(_changed(random, text) for text in texts).encode("utf-8", "surrogatepass")


def _changed(random: Random, text: str) -> str:
    """One of its lines gone, twice, or with another value; or one of its texts longer, which mostly
    leaves a valid rule."""
    lines = text.splitlines()
    place = random.randrange(len(lines))
    key = lines[place].partition("=")[0]
    word = random.choice(WORDS)
    quote = lines[place].rfind("'") if "'" in lines[place] else lines[place].rfind('"')
    if quote > 0 and random.random() < 0.7:
        lines[place] = lines[place][:quote] + random.choice(ODD_TEXTS) + lines[place][quote:]
        return "\n".join(lines)
    lines[place : place + 1] = random.choice(
        [
            [],
            [lines[place]] * 2,
            [f"{key} = {word}"],
            [f"{key} = [{word!r}]"],
            [f'{key} = "{word}"'],
        ]
    )
    return "\n".join(lines)


def check(data: bytes) -> None:
    parse.cache_clear()  # it keeps every text
    with tempfile.TemporaryDirectory() as folder:
        rules, log = Path(folder, "mine.toml"), Path(folder, "a.log")
        rules.write_bytes(data)
        log.write_text(LOG)
        shown_by("rules", "check", rules, log)


TARGETS = [Target("rules", rule_files, check, 40)]
(test_rules,) = map(short_form, TARGETS)
