"""What is said when a kernel computes with a whole array, where it may work on elements only.

The failing line is read as a syntax tree, so that the message can show the learner's own expression
with the index added: ``x + 10`` becomes ``x[i] + 10``. Limit: of a statement that spans several
lines only the failing one is read; if that is no statement by itself, no expression is proposed.
"""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING, Any

from kernelbook.simt.errors import KernelError, line_text, user_frame

if TYPE_CHECKING:
    from kernelbook.simt.memory import Array

_INDICES = "ijklmn"
_ADVICE = "a kernel works on single elements"


def whole_array(array: Array) -> KernelError:
    """The error for arithmetic, a comparison or a conversion that is applied to ``array``."""
    from kernelbook.simt.memory import Array

    frame = user_frame(sys._getframe(1))
    text = line_text(frame.f_code.co_filename, frame.f_lineno or 0) if frame else ""
    known: dict[str, Any] = {}
    if frame is not None:
        known = {**frame.f_globals, **frame.f_locals}
    arrays = {name: value for name, value in known.items() if isinstance(value, Array)}
    statement = _statement(text)
    if statement is not None:
        rows = _Rows(arrays)
        rows.visit(statement)
        if rows.first is not None:
            return _row(*rows.first)
        proposed = _proposed(statement, arrays)
        if proposed:
            return KernelError(
                f"{text.rstrip(':')} computes with a whole array; {_ADVICE}: {proposed}"
            )
    if array.parent is not None and not isinstance(array.at, str):
        return _row(array.label(), array.parent.ndim, array.ndim)
    element = f"{array.label()}[{_indices(array.ndim)}]"
    return KernelError(f"computes with the whole array {array.label()}; {_ADVICE}: {element}")


def _row(written: str, ndim: int, missing: int) -> KernelError:
    number = {1: "one index", 2: "two indices", 3: "three indices"}.get(ndim, f"{ndim} indices")
    what = "a whole row" if missing == 1 and ndim == 2 else "a part"
    return KernelError(
        f"{written} is {what} of a {ndim}-dimensional array, not one element; give {number}"
    )


def _statement(text: str) -> ast.stmt | None:
    """The line as a statement; a head such as ``if x > 3:`` gets an empty body."""
    text = text.removeprefix("el") if text.startswith("elif ") else text
    for attempt in (text, f"{text} pass"):
        try:
            body = ast.parse(attempt).body
        except (SyntaxError, ValueError):
            continue
        if len(body) == 1:
            return body[0]
    return None


def _indices(ndim: int) -> str:
    return ", ".join(_INDICES[:ndim])


class _Rows(ast.NodeVisitor):
    """Finds the first ``a[i]`` of an array that has more axes than that has indices."""

    def __init__(self, arrays: dict[str, Array]) -> None:
        self.arrays = arrays
        self.first: tuple[str, int, int] | None = None

    def visit_Subscript(self, node: ast.Subscript) -> None:
        base = node.value
        if isinstance(base, ast.Subscript):  # a[i][j]: judge the parts of the index alone
            self.visit(node.slice)
            return
        if isinstance(base, ast.Name) and base.id in self.arrays and self.first is None:
            given = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            ndim = self.arrays[base.id].ndim
            plain = not any(isinstance(i, ast.Slice | ast.Starred) for i in given)
            if plain and len(given) < ndim and isinstance(node.ctx, ast.Load):
                self.first = (ast.unparse(node), ndim, ndim - len(given))
        self.generic_visit(node)


class _Indexed(ast.NodeTransformer):
    """Gives every bare name of an array an index."""

    def __init__(self, arrays: dict[str, Array]) -> None:
        self.arrays = arrays
        self.changed = False

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        node.slice = self.visit(node.slice)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        array = self.arrays.get(node.id)
        if array is None:
            return node
        self.changed = True
        index: ast.expr = ast.Name(_indices(array.ndim), ast.Load())
        return ast.Subscript(node, index, node.ctx)


def _proposed(statement: ast.stmt, arrays: dict[str, Array]) -> str:
    """The part of the statement that computes, with indices; "" when no bare array is in it."""
    part: ast.AST = statement
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.Return | ast.Expr):
        part = statement.value or statement
    elif isinstance(statement, ast.If | ast.While | ast.Assert):
        part = statement.test
    elif isinstance(statement, ast.For):
        part = statement.iter
    changer = _Indexed(arrays)
    changed = changer.visit(part)
    return ast.unparse(changed) if changer.changed else ""
