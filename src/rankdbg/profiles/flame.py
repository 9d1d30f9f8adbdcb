"""A flame graph of all ranks in one self-contained HTML page."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from rankdbg.profiles.tree import CallNode, prune
from rankdbg.text.escapes import visible_line

# Each node has a number for each rank: with at most this many numbers a page stays fast.
MOST_NUMBERS = 1_000_000
FEWEST_NODES, MOST_NODES = 500, 20_000


def page(
    tree: CallNode,
    ranks: Sequence[str],
    title: str,
    unit: str,
    diff: Mapping[str, Sequence[int]] | None = None,
) -> str:
    """`ranks`: the name of each profile. `diff`: two named sets of profiles to compare. Nodes that
    are too small to be seen are removed from the tree."""
    most = max(FEWEST_NODES, min(MOST_NODES, MOST_NUMBERS // max(1, len(ranks))))
    content = {
        "title": visible_line(title),
        "unit": unit,
        "ranks": [visible_line(name) for name in ranks],
        "diff": [{"name": visible_line(n), "of": list(i)} for n, i in diff.items()]
        if diff
        else None,
        "below": prune(tree, most),
        "nodes": _nodes(tree),
    }
    # In a script element only the closing tag must be escaped.
    data = json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")
    template = files("rankdbg.profiles").joinpath("flame.html").read_text("utf-8")
    parts = {
        "__TITLE__": _escaped(visible_line(title)),
        "__DATA__": data,
        "__POLICY__": _policy(template),
    }
    return re.sub("|".join(parts), lambda match: parts[match[0]], template)


def _policy(template: str) -> str:
    """This one script and this one style, by their hashes, and no address at all."""
    style, script = (
        _hash(re.findall(f"<{tag}>(.*?)</{tag}>", template, re.DOTALL)[0])
        for tag in ("style", "script")
    )
    return (
        f"default-src 'none'; script-src '{script}'; style-src '{style}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _nodes(root: CallNode) -> list[dict[str, Any]]:
    """Parents first, each node with the number of its parent: stacks may be too deep to nest."""
    made: list[dict[str, Any]] = []
    todo = [(root, -1)]
    while todo:
        node, parent = todo.pop()
        number = len(made)
        made.append({"p": parent, **_node(node)})
        children = sorted(node.children.values(), key=lambda child: child.place)
        todo += [(child, number) for child in children]
    return made


def _node(node: CallNode) -> dict[str, Any]:
    """n: its name; f: its file; s: shares in 1/10,000, by the index of the rank, where not 0."""
    frame = node.frame
    shares = {index: round(10_000 * share) for index, share in node.shares.items()}
    entry: dict[str, Any] = {"n": visible_line(frame.function), "s": shares}
    if frame.file:
        file = visible_line(frame.file)
        entry["f"] = f"{file}:{frame.line}" if frame.line else file
    return entry


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
