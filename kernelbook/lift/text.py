"""Cutting a function out of its cell: lines and columns kept, what Python would run left out.

The decorator is written anew and annotations are blanked; a signature in the one and an expression
in the other are the learner's, and no compiler here reads them.
"""

from __future__ import annotations

import ast
import copy


def first_line(node: ast.stmt) -> int:
    """The line on which a statement starts, its decorators included."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def cut(cell: str, node: ast.FunctionDef, decorator: str) -> list[str] | None:
    """The function's own lines under ``decorator``, annotations of parameters and result blanked.

    Returns None when the lines so made do not parse to the same function.
    """
    first, last = first_line(node), node.end_lineno or node.lineno
    lines = [line.encode() for line in cell.split("\n")[first - 1 : last]]
    bare = copy.deepcopy(node)
    for argument in (*node.args.posonlyargs, *node.args.args):
        if argument.annotation is not None:
            start = (argument.lineno - first, argument.col_offset)
            _blank(lines, first, start, argument.annotation, b":")
    if node.returns is not None:
        row = node.returns.lineno - first
        start = (row, lines[row].rfind(b"->", 0, node.returns.col_offset))
        _blank(lines, first, start, node.returns, b"->")
    for argument in (*bare.args.posonlyargs, *bare.args.args):
        argument.annotation = None
    bare.returns = None
    above = node.lineno - first  # lines of the decorator, and of comments below it
    lines[:above] = [decorator.encode(), *[b""] * (above - 1)]
    bare.decorator_list = [ast.parse(decorator.removeprefix("@"), mode="eval").body]
    try:
        texts = [line.decode() for line in lines]
        again = ast.parse("\n".join(texts)).body
    except (SyntaxError, ValueError):
        return None
    return texts if len(again) == 1 and ast.dump(again[0]) == ast.dump(bare) else None


def _blank(
    lines: list[bytes], first: int, start: tuple[int, int], annotation: ast.expr, mark: bytes
) -> None:
    """Overwrite by blanks the first ``mark`` after ``start`` and the annotation that follows."""
    row, column = start
    begin = max(lines[row].find(mark, max(column, 0)), 0)
    last = (annotation.end_lineno or annotation.lineno) - first
    for index in range(row, last + 1):
        stop = (annotation.end_col_offset or 0) if index == last else len(lines[index])
        blanks = b" " * (stop - begin)
        lines[index] = lines[index][:begin] + blanks + lines[index][stop:]
        begin = 0
