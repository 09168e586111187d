"""The values of module-level constants, computed from the syntax tree under limits of size.

A constant is a number, string, tuple or data type written out, or arithmetic on such. Nothing that
a cell defines is called; the only calls are Python's and NumPy's own number types, around a number
or around "inf" and "nan", which have no other spelling.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelbook.lift.cells import Binding, Notebook
from kernelbook.lift.vocabulary import MAX_INT_BITS, NUMPY_TYPES, is_type

MAX_LENGTH = 100_000  # characters of a string, items of a tuple
MAX_TOTAL_LENGTH = 1_000_000

OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}
NUMBERS = (bool, int, float, complex, np.generic)
PYTHON_NUMBERS: dict[str, type] = {"bool": bool, "complex": complex, "float": float, "int": int}

DESCRIBED: dict[type, str] = {
    ast.Call: "the result of a call",
    ast.Dict: "a dict",
    ast.JoinedStr: "an f-string",
    ast.Lambda: "a lambda",
    ast.List: "a list",
    ast.ListComp: "a list",
    ast.NamedExpr: "an expression with := in it",
    ast.Set: "a set",
}


ALLOWED = (
    "A kernel can use numbers, strings, tuples and types written out at the top level of a cell, "
    "and arithmetic on them (TILE + 1, np.float32(0.5)); pass anything else as an argument"
)
SPELLED = frozenset({"inf", "-inf", "infinity", "-infinity", "nan"})


@dataclass(frozen=True)
class DataType:
    """The value of a constant that names a data type, by its full name: ``numpy.float32``."""

    path: str


class NotLiteral(Exception):
    """A constant's value is not written out; the text says what it is instead."""


class Constants:
    """Values of constants, each computed once; remembers which imports they rest on."""

    def __init__(self, notebook: Notebook) -> None:
        self.notebook = notebook
        self.values: dict[tuple[str, tuple[int, int]], Any] = {}
        self.imports: list[Binding] = []
        self.length = 0  # of all values, each counted once

    def value(self, binding: Binding) -> Any:
        """The value of a "constant" binding. Raises: NotLiteral."""
        key = (binding.name, binding.position)
        if key not in self.values:
            assert binding.value is not None
            value = self.values[key] = self.evaluate(binding.value, binding)
            self.length += _length(value) if isinstance(value, str | tuple) else 1
            if self.length > MAX_TOTAL_LENGTH:
                raise NotLiteral("one of many values that are too long in all")
        return self.values[key]

    def evaluate(self, node: ast.expr, binding: Binding) -> Any:
        """The value of an expression as of ``binding``. Raises: NotLiteral."""
        if isinstance(node, ast.Constant) and isinstance(
            node.value, bool | int | float | complex | str | None
        ):
            return _bounded(node.value)
        if isinstance(node, ast.Tuple):
            return _bounded(tuple(self.evaluate(item, binding) for item in node.elts))
        if isinstance(node, ast.UnaryOp):
            return _apply(node.op, self.evaluate(node.operand, binding))
        if isinstance(node, ast.BinOp):
            left = self.evaluate(node.left, binding)
            return _apply(node.op, left, self.evaluate(node.right, binding))
        if isinstance(node, ast.Call) and not node.keywords and len(node.args) == 1:
            return self._converted(node, binding)
        if isinstance(node, ast.Name):
            earlier = self.earlier(node.id, binding)
            if earlier is not None and earlier.what == "constant":
                return self.value(earlier)
        if isinstance(node, ast.Name | ast.Attribute):
            return self._imported(node, binding)
        raise NotLiteral(DESCRIBED.get(type(node), "something computed"))

    def earlier(self, name: str, binding: Binding) -> Binding | None:
        """What ``name`` is bound to before ``binding``: in ``A = A + 1``, the earlier A."""
        before = (binding.cell, binding.position[1] - 1)
        found = self.notebook.resolve(name, before)
        return found if found is not None and found.position <= before else None

    def _imported(self, node: ast.expr, binding: Binding) -> Any:
        path = self._path(node, binding)
        if path is None:
            raise NotLiteral("something computed")
        if is_type(path):
            return DataType(path)
        module, _, leaf = path.partition(".")
        value = {"math": vars(math), "numpy": vars(np)}.get(module, {}).get(leaf)
        if not isinstance(value, float):
            raise NotLiteral(path)
        return value

    def _converted(self, node: ast.Call, binding: Binding) -> Any:
        """``np.float32(0.5)``, ``float("inf")``: a literal in the clothes of its type."""
        convert: Any = None
        if isinstance(node.func, ast.Name) and node.func.id not in self.notebook.bindings:
            convert = PYTHON_NUMBERS.get(node.func.id)
        else:
            path = self._path(node.func, binding) or ""
            if path.startswith("numpy.") and is_type(path):
                convert = getattr(np, path.removeprefix("numpy."))
        value = self.evaluate(node.args[0], binding) if convert else None
        spelled = isinstance(value, str) and value.lower() in SPELLED
        if not isinstance(value, NUMBERS) and not spelled:
            raise NotLiteral("the result of a call")
        try:
            return _bounded(convert(value))
        except (ValueError, TypeError, OverflowError) as error:
            raise NotLiteral(f"a value that Python cannot compute ({error})") from None

    def _path(self, node: ast.expr, binding: Binding) -> str | None:
        found = self.notebook.path(node, binding.position)
        if found is None or found[0].position > binding.position:
            return None
        self.imports.append(found[0])
        return found[1]


def written(value: Any, types: dict[str, str]) -> str:
    """An expression for a value, of literals and of data types by the names in ``types``.

    types: full name of a data type → name in the source to be; filled here. What the learner wrote
    is not in the expression: a statement may hold more than the value that is taken from it.
    Raises: NotLiteral.
    """
    pieces: list[str] = []
    length = 0
    for piece in _written(value, types):
        pieces.append(piece)
        length += len(piece)
        if length > MAX_LENGTH:  # a tuple that holds one long tuple many times
            raise NotLiteral("a value that is too long")
    return "".join(pieces)


def _written(value: Any, types: dict[str, str]) -> Iterator[str]:
    if isinstance(value, tuple):
        yield "("
        for number, item in enumerate(value):
            yield ", " if number else ""
            yield from _written(item, types)
        yield ",)" if len(value) == 1 else ")"
    elif isinstance(value, np.generic):
        name = type(value).__name__
        if name not in NUMPY_TYPES:
            raise NotLiteral(f"a {name}")
        yield from _written(DataType(f"numpy.{name}"), types)
        yield from ("(", *_written(value.item(), types), ")")
    elif isinstance(value, DataType):
        yield types.setdefault(value.path, f"_{value.path.replace('.', '_')}")
    elif isinstance(value, float) and not math.isfinite(value):
        yield "(1e999 - 1e999)" if math.isnan(value) else "1e999" if value > 0 else "-1e999"
    elif isinstance(value, complex) and not np.isfinite(value):
        raise NotLiteral("a complex number that is not finite")
    else:
        yield repr(value)


def _apply(op: ast.AST, *values: Any) -> Any:
    """An arithmetic operator on literals, guarded against results that would fill the memory."""
    function = OPERATORS.get(type(op))
    joins = isinstance(op, ast.Add) and all(isinstance(v, str | tuple) for v in values)
    if function is None or not (joins or all(isinstance(v, NUMBERS) for v in values)):
        raise NotLiteral("something computed")
    grows = isinstance(op, ast.Pow | ast.LShift) and isinstance(values[1], int)
    if grows and values[1] > MAX_INT_BITS:
        raise NotLiteral("a number that is too large")
    try:
        with np.errstate(all="ignore"):
            return _bounded(function(*values))
    except (ArithmeticError, TypeError, ValueError) as error:
        raise NotLiteral(f"a value that Python cannot compute ({error})") from None


def _bounded(value: Any) -> Any:
    if isinstance(value, int) and value.bit_length() > MAX_INT_BITS:
        raise NotLiteral("a number that is too large")
    if isinstance(value, str | tuple) and _length(value) > MAX_LENGTH:
        raise NotLiteral("a value that is too long")
    if isinstance(value, tuple) and any(
        isinstance(inner, tuple) for item in value if isinstance(item, tuple) for inner in item
    ):
        raise NotLiteral("a tuple nested more than twice")
    return value


def _length(value: str | tuple[Any, ...]) -> int:
    """Characters, or items with those of the tuples inside."""
    if isinstance(value, str):
        return len(value)
    return sum(len(item) if isinstance(item, tuple) else 1 for item in value)
