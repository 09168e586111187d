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


def awaited_load(frame: FrameType) -> tuple[str, Any] | None:
    """The element whose plain load the loop around ``frame`` waits for, and its value now.

    None where the loop is no ``while``, or itself changes what its conditions depend on.
    """
    loop = loop_around(frame.f_code.co_filename, frame.f_lineno or 0)
    if not isinstance(loop, ast.While):
        return None
    changed, nodes = _changed(loop), [n for c in _conditions(loop) for n in ast.walk(c)]
    if any(n.id in changed for n in nodes if isinstance(n, ast.Name)):
        return None
    loads = ((n.value, n.slice) for n in nodes if isinstance(n, ast.Subscript))
    return next((found for pair in loads if (found := _element(*pair, frame))), None)


def awaited_atomic(frame: FrameType) -> tuple[str, Any] | None:
    """The element that the first atomic in the ``while`` around ``frame`` asks, and its value."""
    loop = loop_around(frame.f_code.co_filename, frame.f_lineno or 0)
    if not isinstance(loop, ast.While):
        return None
    calls = (n.args for n in ast.walk(loop) if isinstance(n, ast.Call) and _is_atomic(n))
    pairs = ((args[0], args[1]) for args in calls if len(args) > 1)
    return next((found for pair in pairs if (found := _element(*pair, frame))), None)


def _is_atomic(call: ast.Call) -> bool:
    """Whether the call is written ``cuda.atomic.add(…)`` or ``atomic.add(…)``."""
    return isinstance(call.func, ast.Attribute) and (
        ast.unparse(call.func.value).split(".")[-1] == "atomic"
    )


def _element(array: ast.expr, index: ast.expr, frame: FrameType) -> tuple[str, Any] | None:
    """``array[index]`` as text and its value; None where it is no element of a kernel's array."""
    names = {**frame.f_globals, **frame.f_locals}
    name = array.id if isinstance(array, ast.Name) else ""
    data = getattr(names.get(name), "data", None)  # as the arrays of kernels have
    if not isinstance(data, np.ndarray):
        return None
    try:
        at = _value(index, names)
        value = data[at]
    except (KeyError, TypeError, IndexError, ZeroDivisionError):
        return None
    if np.ndim(value):
        return None
    return f"{name}[{', '.join(map(str, at if isinstance(at, tuple) else (at,)))}]", value


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
    if isinstance(index, ast.Constant) and isinstance(index.value, int):
        return index.value
    if isinstance(index, ast.Name):
        return operator.index(names[index.id])
    raise TypeError(f"no simple index: {ast.dump(index)}")
