"""The table of tools: schemas, annotations, arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rankdbg.errors import BadInput
from rankdbg.frontends.mcp.calls import Calls, Running, ServerSettings
from rankdbg.frontends.mcp.parameters import check_arguments
from rankdbg.frontends.mcp.sharing import SharedConnections
from rankdbg.frontends.mcp.tools import ALLOWED, BY_NAME, TOOLS, Tool

jsonschema = pytest.importorskip("jsonschema")
EVERY_TOOL = pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)


@EVERY_TOOL
def test_schemas_are_schemas(tool: Tool) -> None:
    """Of what it takes and of what it returns; what is required is described."""
    for schema in (tool.input_schema(), tool.output_schema()):
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
    assert {*tool.required.split()} <= {*tool.properties}
    assert not tool.paged or tool.paged in tool.required.split()
    problem = {"schema": "rankdbg.x/1", "target": "local", "problem": "no job"}
    jsonschema.validate(problem, tool.output_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"schema": "rankdbg.x/1", "target": "local"}, tool.output_schema())


@EVERY_TOOL
def test_annotations_and_words(tool: Tool) -> None:
    """What changes a job needs --allow control; a description fits into a few lines."""
    assert tool.read_only == (not tool.needs and tool.name != "snapshot")
    assert not tool.destructive or tool.needs == "control"
    assert tool.needs in ("", *ALLOWED)
    assert 20 < len(tool.description) < 420 and tool.description.endswith(".")
    assert all(each.description for each in tool.parameters)


def calls(*allowed: str, targets: tuple[str, ...] = ()) -> Calls:
    def connect(*_: object) -> Any:
        raise AssertionError("nothing is asked")

    settings = ServerSettings(Path("/nowhere"), targets, allowed=frozenset(allowed))
    return Calls(settings, SharedConnections(connect))


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("why", {"rank": "3"}, "unknown argument 'rank'; hint: did you mean ranks"),
        ("why", {"seconds": "long"}, "invalid seconds 'long': expected a number"),
        ("why", {"seconds": True}, "invalid seconds True: expected a number"),
        ("why", {"seconds": 1e9}, "expected a number from 0.1 to 30"),
        ("why", {"seconds": float("nan")}, "expected a number from"),
        ("stacks", {"samples": float("nan")}, "invalid samples nan: expected a whole number"),
        ("stacks", {"samples": float("inf")}, "invalid samples inf: expected a whole number"),
        ("stacks", {"samples": 1.5}, "invalid samples 1.5: expected a whole number"),
        ("stacks", {"samples": 10**400}, "expected a number from 1 to 20"),
        ("why", {"job": 7}, "invalid job 7: expected a text"),
        ("why", {"job": "a\0b"}, "job contains a null character"),
        ("why", {"job": "x" * 5000}, "job is longer than"),
        ("stacks", {"samples": 2.5}, "expected a whole number"),
        ("stacks", {"threads": "some"}, "expected one of main, all"),
        ("stacks", {"cursor": "beef"}, "unknown or expired cursor"),
        ("stacks", {"max_chars": 3}, "expected a number from 1000"),
        ("ask", {}, "expression is missing"),
        ("ask", {"expression": ["x"]}, "expected a text"),
        ("pause", {}, "refused: pause changes the job; hint: rankdbg mcp --allow control"),
        ("break", {"place": "a.py:3"}, "--allow control"),
        ("reboot", {}, "unknown tool 'reboot'; hint: there are: list_jobs, why"),
        ("why", {"target": "elsewhere:x"}, "refused: target elsewhere:x"),
    ],
)
def test_bad_arguments_are_one_sentence(name: str, arguments: dict[str, Any], said: str) -> None:
    """An error of the tool, which its caller can read and mend."""
    reply = calls(targets=("local",)).answer(name, arguments, Running())
    assert reply.is_error and reply.document is None
    assert said in reply.text and "\n" not in reply.text


def test_control_is_not_listed_unless_it_is_allowed() -> None:
    """Four tools more."""
    default = {tool.name for tool in calls().settings.tools()}
    assert {tool.name for tool in calls("control").settings.tools()} - default == {
        "break",
        "cast",
        "continue",
        "pause",
    }
    assert len(default) == 12


def test_null_is_as_if_left_out() -> None:
    """Some clients send all arguments."""
    arguments = check_arguments(BY_NAME["why"].parameters, {"job": None, "seconds": 2})
    assert arguments["job"] is None and arguments["seconds"] == 2.0
    with pytest.raises(BadInput):
        check_arguments(BY_NAME["why"].parameters, {"nothing": None, "more": 1})
