"""Checks expressions locally, rather than once in every rank."""

from __future__ import annotations

from rankdbg.errors import BadInput, ExpressionError


def check_expression(expression: str) -> None:
    """Report errors once, rather than from every rank."""
    try:
        compile(expression, "<expression>", "eval")
    except SyntaxError as error:
        text = (expression.splitlines() or [""])[(error.lineno or 1) - 1 :][:1]
        start = max(0, (error.offset or 1) - 1)
        raise ExpressionError(
            f"not a Python expression: {error.msg}",
            text[0] if text else "",
            start,
            max(start + 1, (error.end_offset or 0) - 1),
            hint="ask takes one expression, not a statement",
        ) from None
    except (ValueError, OverflowError, RecursionError, MemoryError) as error:
        raise BadInput(f"not a Python expression: {error}") from None


def parse_frame(text: str | None) -> int | str | None:
    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    if not all(part.isidentifier() or part.startswith("<") for part in text.split(".")):
        raise BadInput(f"invalid --frame {text!r}: expected a number or the name of a function")
    return text
