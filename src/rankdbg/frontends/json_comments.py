"""Edits handwritten JSON: comments, order and everything else are kept.

VS Code's launch.json and tasks.json have comments and trailing commas. Only the text of what
changes is replaced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_BLANK = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_PLAIN = re.compile(r"[-+.\w]+")
_INDENT = "    "


class NotJson(ValueError):
    """The text is not JSON, with the position of the error."""

    def __init__(self, text: str, place: int) -> None:
        self.line = text.count("\n", 0, place) + 1
        super().__init__(f"line {self.line}")


@dataclass
class JsonNode:
    """A value and its position."""

    start: int
    end: int
    value: Any = None  # of a string, a number, true, false, null
    members: dict[str, JsonNode] | None = None  # of an object
    items: list[JsonNode] | None = field(default=None)  # of an array
    end_of_last: int = -1  # behind the last one, and its comma if it has one
    comma: bool = False


def parse(text: str) -> JsonNode:
    node = _value(text, _skip(text, 0))
    if _skip(text, node.end) != len(text):
        raise NotJson(text, node.end)
    return node


_BYTE_ORDER_MARK = "\ufeff"


def with_entry(text: str, array: str, name: str, entry: dict[str, Any]) -> str:
    """The text, with this entry in an array of its one object. One that is there already, with
    the same `name`, keeps what else it has."""

    def put(body: str, place: JsonNode | None, root: JsonNode) -> str:
        if place is None:
            return _insert(body, root, f"{json.dumps(array)}: {_shown([entry], 1)}", 1)
        if place.items is None:
            raise NotJson(body, place.start)
        for item in place.items:
            known = (item.members or {}).get(name)
            if known is not None and known.value == entry[name]:
                return _updated(body, item, entry)
        return _insert(body, place, _shown(entry, 2), 2)

    return _with_change(text, array, put)


def with_member(text: str, outer: str, name: str, entry: dict[str, Any]) -> str:
    """The text, with this entry as `name` in the object `outer` of its one object. One that is there
    already keeps what else it has."""

    def put(body: str, place: JsonNode | None, root: JsonNode) -> str:
        if place is None:
            return _insert(body, root, f"{json.dumps(outer)}: {_shown({name: entry}, 1)}", 1)
        if place.members is None:
            raise NotJson(body, place.start)
        known = place.members.get(name)
        if known is None:
            return _insert(body, place, f"{json.dumps(name)}: {_shown(entry, 2)}", 2)
        if known.members is None:
            raise NotJson(body, known.start)
        return _updated(body, known, entry)

    return _with_change(text, outer, put)


def _with_change(text: str, key: str, put: Callable[[str, JsonNode | None, JsonNode], str]) -> str:
    """`put` gets the text, the value of the key (None: it is not there) and the one object."""
    mark = _BYTE_ORDER_MARK if text.startswith(_BYTE_ORDER_MARK) else ""  # some editors write one
    body = text.removeprefix(mark)
    if not body[_skip(body, 0) :]:
        body += "{\n}\n"
    root = parse(body)
    if root.members is None:
        raise NotJson(body, root.start)
    return mark + put(body, root.members.get(key), root)


def _updated(text: str, item: JsonNode, entry: dict[str, Any]) -> str:
    members = item.members or {}
    new = [key for key in entry if key not in members]
    for key in reversed(new):
        text = _insert(text, item, f"{json.dumps(key)}: {_shown(entry[key], 3)}", 3)
    # What was inserted stands behind all that was there.
    known = sorted((key for key in entry if key in members), key=lambda key: -members[key].start)
    for key in known:
        node = members[key]
        if json.loads(_without_comments(text[node.start : node.end])) != entry[key]:
            text = text[: node.start] + _shown(entry[key], 3) + text[node.end :]
    return text


def _insert(text: str, container: JsonNode, shown: str, depth: int) -> str:
    """As the last member or item."""
    if container.end_of_last < 0:
        place, before = container.start + 1, ""
        after = "\n" + _INDENT * (depth - 1)
        if text[place : container.end - 1].strip():
            after = ""
    else:
        place, before = container.end_of_last, "" if container.comma else ","
        after = ""
    return f"{text[:place]}{before}\n{_INDENT * depth}{shown}{after}{text[place:]}"


def _shown(value: Any, depth: int) -> str:
    return json.dumps(value, indent=len(_INDENT), ensure_ascii=False).replace(
        "\n", "\n" + _INDENT * depth
    )


def _without_comments(text: str) -> str:
    """The same value, as JSON proper."""
    return json.dumps(_plain(parse(text)))


def _plain(node: JsonNode) -> Any:
    if node.members is not None:
        return {key: _plain(member) for key, member in node.members.items()}
    return [_plain(item) for item in node.items] if node.items is not None else node.value


def _skip(text: str, place: int) -> int:
    match = _BLANK.match(text, place)
    return match.end() if match else place


def _value(text: str, place: int) -> JsonNode:
    match text[place : place + 1]:
        case "{":
            return _object(text, place)
        case "[":
            return _array(text, place)
    found = _STRING.match(text, place) or _PLAIN.match(text, place)
    try:
        assert found is not None
        return JsonNode(place, found.end(), json.loads(found[0]))
    except (AssertionError, ValueError):
        raise NotJson(text, place) from None


def _object(text: str, start: int) -> JsonNode:
    node = JsonNode(start, start, members={})
    place = _skip(text, start + 1)
    while text[place : place + 1] != "}":
        key = _STRING.match(text, place)
        if key is None:
            raise NotJson(text, place)
        colon = _skip(text, key.end())
        if text[colon : colon + 1] != ":":
            raise NotJson(text, colon)
        member = _value(text, _skip(text, colon + 1))
        assert node.members is not None
        node.members[json.loads(key[0])] = member
        place = _behind(text, node, member, "}")
    node.end = place + 1
    return node


def _array(text: str, start: int) -> JsonNode:
    node = JsonNode(start, start, items=[])
    place = _skip(text, start + 1)
    while text[place : place + 1] != "]":
        item = _value(text, place)
        assert node.items is not None
        node.items.append(item)
        place = _behind(text, node, item, "]")
    node.end = place + 1
    return node


def _behind(text: str, node: JsonNode, last: JsonNode, closing: str) -> int:
    """Where the next one begins, or the container ends."""
    place = _skip(text, last.end)
    node.comma = text[place : place + 1] == ","
    node.end_of_last = place + 1 if node.comma else last.end
    if not node.comma and text[place : place + 1] != closing:
        raise NotJson(text, place)
    return _skip(text, place + 1) if node.comma else place
