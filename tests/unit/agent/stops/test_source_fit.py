"""Whether a text is that of code."""

from __future__ import annotations

from types import CodeType

import pytest

from rankdbg.agent.stops.source_fit import compile_text

TEXT = """\
def step(rate):
    loss = 1 - rate
    return [loss for _ in range(3)]


step(0.5)
"""


def codes(text: str) -> tuple[CodeType, CodeType]:
    """The module and its function."""
    module = compile(text, "step.py", "exec", dont_inherit=True)
    return module, next(const for const in module.co_consts if isinstance(const, CodeType))


@pytest.mark.parametrize(
    ("old", "new", "module_fits", "function_fits"),
    [
        ("", "", True, True),
        ("step(0.5)\n", "step(0.5)\n# the end\n", True, True),
        ("step(0.5)", "step(0.25)", False, True),
        ("1 - rate", "2 - rate", True, False),
        ("loss", "gain", True, False),
        ("    loss =", "\n    loss =", False, False),
        ("def step(rate)", "# a comment\ndef step(rate)", False, False),
    ],
)
def test_versions(old: str, new: str, module_fits: bool, function_fits: bool) -> None:
    """Another line, name or number in a function is another version of it."""
    module, function = codes(TEXT)
    compiled = compile_text(TEXT.replace(old, new, 1) if old else TEXT, "step.py", [function])
    assert compiled is not None
    assert compiled.has(module) == module_fits
    assert compiled.has(function) == function_fits


def test_single_statements() -> None:
    """IPython compiles a cell statement by statement."""
    compiled = compile_text("x = 1\ny = await x\n", "cell", [])
    assert compiled is not None
    piece = compile("x = 1\n", "cell", "exec")
    assert compiled.has_piece(piece)
    assert not compiled.has(piece)
    assert not compiled.has_piece(compile("\n\n\nx = 1\n", "cell", "exec"))
    assert not compiled.has_piece(compile("z = 1\n", "cell", "exec"))


def test_annotations_of_who_executes() -> None:
    """exec() in a module with `from __future__ import annotations` inherits that."""
    text = "def outer():\n    def inner(x: int): ...\n    return inner\n"
    (outer,) = (c for c in compile(text, "f", "exec").co_consts if isinstance(c, CodeType))
    compiled = compile_text(text, "f", [outer])
    assert compiled is not None
    assert compiled.has(outer)


def test_no_python() -> None:
    """A text that does not compile is no version of anything."""
    assert compile_text("def (:\n", "step.py", []) is None
    assert compile_text("a\0b", "step.py", []) is None
