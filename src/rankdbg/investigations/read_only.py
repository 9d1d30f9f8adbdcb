"""Which expressions only look: names, attributes, indexing, arithmetic, len(), figures of tensors.

Checked by the syntax tree before any rank is asked. A property or an operator of the program's own
runs the program's code even so; what is kept out is what an expression can do by itself: call
functions, assign, run for long, take all memory, leave the objects of the program by `__class__`.
"""

from __future__ import annotations

import ast

from rankdbg.errors import BadInput
from rankdbg.investigations.expressions import check_expression

FUNCTIONS = frozenset({"abs", "len", "round", "type"})
# Of tensors and arrays. None of them changes its object: those that do end in an underscore.
FIGURES = frozenset(
    [
        "abs",
        "all",
        "any",
        "argmax",
        "argmin",
        "count_nonzero",
        "dim",
        "element_size",
        "float",
        "isfinite",
        "isinf",
        "isnan",
        "item",
        "max",
        "mean",
        "median",
        "min",
        "ndimension",
        "norm",
        "numel",
        "size",
        "std",
        "stride",
        "sum",
        "var",
    ]
)
KEYWORDS = frozenset({"dim", "axis", "keepdim", "keepdims"})  # not `out`, which is written to
LARGEST_FACTOR = 1_000_000
LARGEST_EXPONENT = 16
LONGEST = 2000

_PLAIN = (
    ast.Expression, ast.Name, ast.Load, ast.Constant, ast.Attribute, ast.Subscript, ast.Slice,
    ast.Tuple, ast.List, ast.Dict, ast.Set, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp,
    ast.unaryop, ast.boolop, ast.cmpop, ast.keyword,
)  # fmt: skip
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)


class NotReadOnly(BadInput):
    """An expression that does more than look."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"refused: {what}",
            hint="an expression may have names, attributes, indexing, arithmetic, len() and figures "
            "of tensors such as .mean()",
        )


def check_read_only(expression: str) -> None:
    """Raises NotReadOnly, or BadInput for what is not an expression."""
    if len(expression) > LONGEST:
        raise BadInput(f"the expression is longer than {LONGEST} characters")
    check_expression(expression)
    tree = ast.parse(expression.strip(), mode="eval")
    factors = 1
    for node in ast.walk(tree):
        _check(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            for side in (node.left, node.right):
                factors *= max(1, abs(_whole_number(side)))
        if factors > LARGEST_FACTOR:
            raise NotReadOnly(
                f"it multiplies by more than {LARGEST_FACTOR}, which may be a long list"
            )


def _check(node: ast.AST) -> None:
    if isinstance(node, ast.Call):
        _check_call(node)
    elif isinstance(node, ast.BinOp):
        _check_operator(node)
    elif isinstance(node, ast.Attribute) and node.attr.startswith("__"):
        raise NotReadOnly(f"it reads {node.attr}")
    elif isinstance(node, ast.Name) and node.id.startswith("__"):
        raise NotReadOnly(f"it reads {node.id}")
    elif not isinstance(node, (*_PLAIN, *_ARITHMETIC)):
        raise NotReadOnly(f"it has {_WORDS.get(type(node), 'more than an expression that looks')}")


_WORDS: dict[type[ast.AST], str] = {
    ast.ListComp: "a comprehension, which may not end",
    ast.SetComp: "a comprehension, which may not end",
    ast.DictComp: "a comprehension, which may not end",
    ast.GeneratorExp: "a comprehension, which may not end",
    ast.Lambda: "a lambda",
    ast.NamedExpr: "an assignment",
    ast.JoinedStr: "an f-string, which calls functions",
    ast.Await: "an await",
    ast.Yield: "a yield",
    ast.Starred: "a *, which takes from an iterator",
}


def _check_operator(node: ast.BinOp) -> None:
    if not isinstance(node.op, _ARITHMETIC):
        raise NotReadOnly("it has an operator other than + - * / // % **")
    text = isinstance(node.op, (ast.Mult, ast.Mod)) and any(
        isinstance(side, ast.Constant) and isinstance(side.value, (str, bytes))
        for side in (node.left, node.right)
    )
    if text:
        raise NotReadOnly("it repeats or formats a text")
    if isinstance(node.op, ast.Pow):
        exponent = node.right
        if isinstance(exponent, ast.UnaryOp):
            exponent = exponent.operand
        small = isinstance(exponent, ast.Constant) and isinstance(exponent.value, (int, float))
        if not small or abs(exponent.value) > LARGEST_EXPONENT:  # type: ignore[attr-defined]
            raise NotReadOnly(f"it has a power other than a number up to {LARGEST_EXPONENT}")
        if isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Pow):
            raise NotReadOnly("it has a power of a power")


def _check_call(node: ast.Call) -> None:
    called = node.func
    if isinstance(called, ast.Name):
        if called.id not in FUNCTIONS:
            raise NotReadOnly(f"it calls {called.id}()")
        if len(node.args) != 1 or node.keywords:
            raise NotReadOnly(f"it calls {called.id}() with other than one argument")
        return
    if not isinstance(called, ast.Attribute) or called.attr not in FIGURES:
        name = f"{called.attr}()" if isinstance(called, ast.Attribute) else "what it computes"
        raise NotReadOnly(f"it calls {name}")
    # The second positional argument of numpy's methods can be `out`, which is written to.
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    known = all(keyword.arg in KEYWORDS for keyword in node.keywords)
    if len(node.args) > 1 or not known or not all(map(_is_number, given)):
        raise NotReadOnly(f"it calls .{called.attr}() with more than a dimension")


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    if isinstance(node, ast.Tuple):
        return all(map(_is_number, node.elts))
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float))


def _whole_number(node: ast.expr) -> int:
    value = getattr(node, "value", None) if isinstance(node, ast.Constant) else None
    return value if isinstance(value, int) else 1
