"""Signatures as text: held against the list of Numba's types before Numba evaluates them.

Numba hands a signature's text to Python's ``eval``. Limit: types of numbers, arrays and tuples of
such; a signature with any other type is refused.
"""

from __future__ import annotations

import ast

from kernelbook.lift.vocabulary import MAX_INT_BITS, NUMBA_TYPE_MAKERS, NUMBA_TYPES

MAX_CHARS = 2000


def require_types(text: str) -> None:
    """Raise ValueError unless ``text`` is types written out: ``void(float32[:, ::1], int64)``."""
    if len(text) > MAX_CHARS:
        raise ValueError(f"it has more than {MAX_CHARS} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        plain = _is_types(tree)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"it is no expression: {error}") from None
    if not plain:
        raise ValueError("it holds more than types")


def is_plain_slice(node: ast.expr) -> bool:
    """Whether an index is a layout, ``:`` or ``::1``."""
    return (
        isinstance(node, ast.Slice)
        and node.lower is None
        and node.upper is None
        and (node.step is None or isinstance(node.step, ast.Constant))
    )


def _is_types(node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        return node.id in NUMBA_TYPES | NUMBA_TYPE_MAKERS
    if isinstance(node, ast.Tuple):
        return all(map(_is_types, node.elts))
    if isinstance(node, ast.Subscript):
        indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return _is_types(node.value) and all(map(is_plain_slice, indices))
    if isinstance(node, ast.Call):
        return (
            isinstance(node.func, ast.Name | ast.Subscript | ast.Call)
            and _is_types(node.func)
            and not node.keywords
            and all(_is_types(part) or _is_detail(part) for part in node.args)
        )
    return False


def _is_detail(node: ast.expr) -> bool:
    """A number of dimensions, a layout: ``Array(float32, 1, "C")``."""
    value = getattr(node, "value", None) if isinstance(node, ast.Constant) else None
    short = isinstance(value, int) and value.bit_length() <= MAX_INT_BITS
    return short or value in ("A", "C", "F")
