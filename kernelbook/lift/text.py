"""Cutting a statement out of its cell, and blanking annotations, with lines and columns kept."""

from __future__ import annotations

import ast
import copy


def first_line(node: ast.stmt) -> int:
    """The line on which a statement starts, its decorators included."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def cut(cell: str, node: ast.stmt) -> list[str] | None:
    """The statement's own lines, its parameter and return annotations overwritten by blanks.

    An annotation is an expression that Python would run and that no compiler here reads.
    Returns None when the lines so made do not parse to the same statement.
    """
    first, last = first_line(node), node.end_lineno or node.lineno
    lines = [line.encode() for line in cell.split("\n")[first - 1 : last]]
    bare = copy.deepcopy(node)
    if isinstance(node, ast.FunctionDef) and isinstance(bare, ast.FunctionDef):
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
    else:
        lines[-1] = lines[-1][: node.end_col_offset]  # other statements may share the lines
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            start = (node.target.lineno - first, node.target.col_offset)
            _blank(lines, first, start, node.annotation, b":")
            bare = ast.Assign(targets=[node.target], value=node.value)
        lines[0] = lines[0][node.col_offset :]
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
