"""What a user, an editor or a browser's page names ranks by."""

from __future__ import annotations

from random import Random

from fuzzing import Target, short_form
from mutations import damaged, some_text
from rankdbg.errors import SelectionError
from rankdbg.selection import format_ranks, matches, mesh, parse, pick
from rankdbg.types import ProcessKey, Rank

VALID = (
    "ranks(pp=2, dp=(1,3), tp=0:2)",
    "0-6,9",
    "Rollout 0-1; Trainer, host=node-*",
    'role="my role", state=(no agent, stopped)',
    "rank=0-3,tp=0",
    "gen=all; step=(0,batch), actor=ref",
    "1:10:2; pid=100:200",
)
PIECES = (
    *("ranks", "(", ")", ",", "=", ";", ":", "-", "*", "all", "'", '"', " ", "\t", "\n", "0", "3"),
    *("99", "tp", "role", "rank", "policy", "gen", "step", "actor", "last", "[", "]", "?", "!"),
    *("thread", "pid", "state", "no agent", "host", "٣", "²", "\u3000", "\0", "9" * 5000),
)
MESH = mesh.roster({"pp": 2, "dp": 2, "tp": 2})
ROLES = [
    Rank(
        ProcessKey(f"node-{pid % 2}", 100 + pid, 0),
        job="train",
        number=pid % 4 if pid % 5 else None,
        role=("policy", "my role", "", "[x]*")[pid % 4],
        names=({}, {"step": "batch"}, {"actor": "ref"})[pid % 3],
        generation=1 + pid % 2,
    )
    for pid in range(12)
]


def selections(random: Random) -> bytes:
    match random.randrange(3):
        case 0:
            text = "".join(random.choices(PIECES, k=random.randint(0, 14)))
        case 1:
            return damaged(random, random.choice(VALID).encode(), [p.encode() for p in PIECES])
        case _:
            text = some_text(random, 40)
    return text.encode("utf-8", "surrogatepass")


def check(data: bytes) -> None:
    """Ranks that its own writer names again, or an error that lies within the text."""
    text = data.decode("utf-8", "surrogateescape")
    for roster in (MESH, ROLES):
        try:
            selection = parse(text)
            found = pick(selection, roster)
        except SelectionError as error:
            assert 0 <= error.start <= error.end <= len(text)
            assert len(error.text) == len(text)
            continue
        matches(selection, roster[0])
        assert found
        again = pick(parse(format_ranks(found, roster)), roster)
        assert {rank.process for rank in again} == {rank.process for rank in found}


TARGETS = [Target("selections", selections, check, 600)]
(test_selections,) = map(short_form, TARGETS)
