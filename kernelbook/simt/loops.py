"""Reads the loop that a thread is in from its source: where it begins, which element it waits for.

Limit: only a ``while`` is read, and only elements that it names as ``array[index]`` with an index
made of constants and of variables that the loop leaves alone.
"""

from __future__ import annotations

import ast
import linecache
import operator
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def loop_around(file: str, line: int) -> ast.While | ast.For | None:
    """The innermost ``while`` around ``line``, else the innermost ``for``."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return None
    found: dict[type[ast.stmt], ast.While | ast.For] = {}
    for node in ast.walk(tree):  # outer loops come before those that they hold
        if isinstance(node, ast.While | ast.For) and (
            node.lineno <= line <= (node.end_lineno or node.lineno)
        ):
            found[type(node)] = node
    return found.get(ast.While) or found.get(ast.For)


def awaited(frame: FrameType) -> tuple[str, Any] | None:
    """The element whose plain load the loop around ``frame`` waits for, and its value now.

    None where the loop is no ``while``, or itself changes what its conditions depend on.
    """
    loop = loop_around(frame.f_code.co_filename, frame.f_lineno or 0)
    if not isinstance(loop, ast.While):
        return None
    changed = _changed(loop)
    conditions = _conditions(loop)
    if any(n.id in changed for c in conditions for n in ast.walk(c) if isinstance(n, ast.Name)):
        return None
    names = {**frame.f_globals, **frame.f_locals}
    for load in (n for c in conditions for n in ast.walk(c) if isinstance(n, ast.Subscript)):
        name = load.value.id if isinstance(load.value, ast.Name) else ""
        data = getattr(names.get(name), "data", None)  # as the arrays of kernels have
        if not isinstance(data, np.ndarray):
            continue
        try:
            index = _value(load.slice, names)
            value = data[index]
        except (KeyError, TypeError, IndexError, ZeroDivisionError):
            continue
        if np.ndim(value) == 0:
            text = ", ".join(map(str, index if isinstance(index, tuple) else (index,)))
            return f"{name}[{text}]", value
    return None


def _conditions(loop: ast.While) -> list[ast.expr]:
    """The conditions that decide whether the loop goes on."""
    conditions = [loop.test]
    for node in ast.walk(loop):
        if isinstance(node, ast.If) and any(
            isinstance(n, ast.Break | ast.Return) for part in node.body for n in ast.walk(part)
        ):
            conditions.append(node.test)
    return conditions


def _changed(loop: ast.While) -> set[str]:
    """Names that the loop assigns, arrays that it stores to, and what it passes to a call."""
    changed: set[str] = set()
    for node in ast.walk(loop):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            changed.add(node.id)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            changed.update(n.id for n in ast.walk(node.value) if isinstance(n, ast.Name))
        elif isinstance(node, ast.Call):
            changed.update(n.id for n in node.args if isinstance(n, ast.Name))
    return changed


def _value(index: ast.expr, names: dict[str, Any]) -> Any:
    """The value of a simple expression. Raises KeyError or TypeError for any other."""
    if isinstance(index, ast.Tuple):
        return tuple(_value(part, names) for part in index.elts)
    if isinstance(index, ast.BinOp):
        left, right = _value(index.left, names), _value(index.right, names)
        return _OPERATORS[type(index.op)](left, right)
    if isinstance(index, ast.Constant):
        return operator.index(index.value)
    if isinstance(index, ast.Name):
        return operator.index(names[index.id])
    raise TypeError(f"no simple index: {ast.dump(index)}")
