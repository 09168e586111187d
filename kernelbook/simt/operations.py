"""Operations on values of known types, as nodes that compute what compiled code computes.

Each takes new operand nodes with their values and gives the node of the result with its value. What
:mod:`kernelbook.simt.machine` does at run time is called by name, only where Python would answer
otherwise.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kernelbook.simt import numeric
from kernelbook.simt.abstract import (
    COUNTED_BITS,
    FEW_BITS,
    UNKNOWN,
    Value,
    differs,
    joined,
    scalar,
    tuple_of,
)

Typed = tuple[ast.expr, Value]
FLOAT_DIVISIONS = {"floordiv": "__float_floor_divide__", "mod": "__float_remainder__"}
_OPERATORS: dict[str, type[ast.operator]] = {
    "add": ast.Add, "sub": ast.Sub, "mult": ast.Mult, "floordiv": ast.FloorDiv, "mod": ast.Mod,
    "lshift": ast.LShift, "rshift": ast.RShift, "bitand": ast.BitAnd, "bitor": ast.BitOr,
    "bitxor": ast.BitXor,
}  # fmt: skip


def of_integers(name: str, left: Typed, right: Typed, kind: str) -> Typed:
    """An operation on two integers whose result is an integer of type ``kind``."""
    (a, x), (b, y) = left, right
    if kind == "bool":
        return ast.BinOp(a, _OPERATORS[name](), b), scalar("bool")
    if (x.wide or y.wide) and (
        x.kind != y.kind
        or x.kind == "bool"
        or name in ("floordiv", "mod", "pow", "lshift", "rshift")
    ):
        # NumPy would make a float64 of an int64 and a uint64, or refuse a large Python int.
        a = call("__int__", a) if x.wide else a
        b = call("__int__", b) if y.wide else b
        x, y = replace(x, wide=False, mixed=False), replace(y, wide=False, mixed=False)
    wide = x.wide or y.wide
    mixed = wide and not any(v.wide and not v.mixed for v in (x, y))  # maybe both are Python's
    wrap = "__wrap_signed__" if kind == "int64" else "__wrap_unsigned__"
    limit = 63 if kind == "int64" else 64
    constant = y.object if y.object.__class__ is int else None
    if name in ("floordiv", "mod"):
        a, b = _same(a, x, kind), _same(b, y, kind)
        bits = x.bits if name == "floordiv" else y.bits
        new: ast.expr = ast.BinOp(a, _OPERATORS[name](), b)
        if not constant or constant == -1:
            new = call("__floor_divide__" if name == "floordiv" else "__remainder__", a, b)
        return new, scalar(kind, bits)
    if name == "pow":
        if constant is not None and constant >= 0 and x.bits * max(constant, 1) <= limit:
            return ast.BinOp(a, ast.Pow(), b), scalar(kind, max(x.bits * constant, 1))
        return call(wrap, call("__power__", a, b)), scalar(kind)
    new = ast.BinOp(a, _OPERATORS[name](), b)
    if name in ("bitand", "bitor", "bitxor"):
        unsigned_bits = [
            v.bits for v in (x, y) if v.kind in numeric.UNSIGNED or (v.object or -1) >= 0
        ]
        bits = min(unsigned_bits) if name == "bitand" and unsigned_bits else max(x.bits, y.bits)
        if kind == "int64" and "uint64" in (x.kind, y.kind) and bits > 63:
            return call(wrap, new), scalar(kind)
        return new, replace(scalar(kind, min(bits, limit) or 1, wide), mixed=mixed)
    if name == "rshift":
        bits = max(x.bits - (constant or 0), 1)
        return new, scalar(kind, bits)
    if name == "lshift":
        bits = x.bits + (constant if constant is not None else 64)
    elif name == "mult":
        bits = x.bits + y.bits
    else:
        bits = max(x.bits, y.bits) + 1
        if abs(x.bits - y.bits) >= FEW_BITS and bits <= COUNTED_BITS + 1:
            bits = max(x.bits, y.bits)
    fits = bits <= limit and not (kind == "uint64" and name == "sub")
    if wide:  # what is sure to be NumPy's wraps by itself
        new = call(wrap, new) if mixed and not fits else new
        return new, replace(scalar(kind, wide=True), mixed=mixed)
    if fits:
        return new, scalar(kind, max(bits, 1))
    return call(wrap, new), scalar(kind)


def float_power(left: Typed, right: Typed, kind: str) -> Typed:
    (a, x), (b, _) = left, right
    return call("__float_power__", converted(a, x, scalar(kind)), b), scalar(kind)


def operand(node: ast.expr, value: Value, other: Value, kind: str) -> ast.expr:
    """An operand of a float operation, converted where the other one does not do it by itself."""
    if value.is_integer and (other.kind != kind or value.wide or value.bits > 1000):
        return converted(node, value, scalar("float64" if kind in numeric.COMPLEX else kind))
    if kind in numeric.COMPLEX and not value.is_integer and other.kind != value.kind:
        return call(f"__{kind}__", node)  # a Python complex would take the other's type
    return node


def converted(node: ast.expr, value: Value, target: Value) -> ast.expr:
    """``node`` as ``target``, where the two are represented differently."""
    if not differs(value, target):
        return node
    if target.kind == "float64" and value.object.__class__ is int:
        return located(ast.Constant(float(value.object)), node)
    return call(f"__{target.kind}__", node)


def stored(node: ast.expr, value: Value, element: Value) -> ast.expr:
    """A value that is stored; a float becomes an integer as the device converts it."""
    if value.is_float and element.is_integer and element.kind != "bool":
        return call(f"__{element.kind}__", node)
    return node


def _same(node: ast.expr, value: Value, kind: str) -> ast.expr:
    """An operand of an operation in ``kind`` whose result depends on the operand's sign."""
    if kind == "int64" and value.kind == "uint64":
        return call("__int64__", node)
    if value.kind == "bool" and value.wide:
        return call("__int__", node)
    return converted(node, value, scalar(kind))


def full_bits(kind: str) -> int:
    return scalar(kind).bits


def call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def located(new: Any, old: ast.AST) -> Any:
    """``new`` and the nodes made with it, at the place of ``old``."""
    for node in ast.walk(new):
        if "lineno" in node._attributes and not hasattr(node, "lineno"):
            ast.copy_location(node, old)
    return new


def _int(new: ast.Call, arguments: list[Typed]) -> Typed:
    node, value = arguments[0]
    if value.is_integer and value.kind != "bool":
        return node, value
    if value.kind == "float16":
        return call("__half_to_int64__", node), scalar("int64")
    return call("__int64__", node), scalar("int64", 1 if value.kind == "bool" else 0)


def _float(new: ast.Call, arguments: list[Typed]) -> Typed:
    node, value = arguments[0]
    if value.is_float:
        return node, value
    return call("__float64__", node), scalar("float64")


def _bool(new: ast.Call, arguments: list[Typed]) -> Typed:
    return new, scalar("bool")


def _abs(new: ast.Call, arguments: list[Typed]) -> Typed:
    value = arguments[0][1]
    if value.kind in numeric.COMPLEX:
        return new, scalar("float32" if value.kind == "complex64" else "float64")
    if value.kind in numeric.SIGNED and value.bits >= scalar(value.kind).bits:
        return call(f"__{value.kind}__", new), replace(value, wide=False, mixed=False)
    if value.kind == "bool":
        return call("__int__", new), scalar("int8", 1)
    return new, replace(value, object=None)


def _extreme(name: str) -> Callable[[ast.Call, list[Typed]], Typed]:
    def change(new: ast.Call, arguments: list[Typed]) -> Typed:
        if len(arguments) < 2:
            return new, UNKNOWN
        node, value = arguments[0]
        for other, second in arguments[1:]:
            both = joined(value, second)
            a, b = converted(node, value, both), converted(other, second, both)
            if both.kind in ("float32", "float64"):
                node = call(name, a, b)
            else:
                node = ast.Call(new.func, [a, b], [])
            value = both
        return node, value

    return change


def _round(new: ast.Call, arguments: list[Typed]) -> Typed:
    if len(arguments) == 1:
        return call("__round__", arguments[0][0]), scalar("int64")
    if len(arguments) == 2 and arguments[0][1].is_float and arguments[1][1].is_integer:
        return call("__round_to_digits__", *new.args), arguments[0][1]
    return new, UNKNOWN


def _divmod(new: ast.Call, arguments: list[Typed]) -> Typed:
    (a, x), (b, y) = arguments
    kind = numeric.kind("floordiv", x.kind, y.kind)
    if not kind:
        return new, UNKNOWN
    a, b = _same(a, x, kind), _same(b, y, kind)
    if kind in numeric.INTEGERS:
        return call("__divide_both__", a, b), tuple_of(scalar(kind, x.bits), scalar(kind, y.bits))
    return call("__float_divide_both__", a, b), tuple_of(scalar(kind), scalar(kind))


PYTHON_FUNCTIONS: dict[Any, Callable[[ast.Call, list[Typed]], Typed]] = {
    int: _int,
    float: _float,
    bool: _bool,
    abs: _abs,
    min: _extreme("__smaller__"),
    max: _extreme("__larger__"),
    round: _round,
    divmod: _divmod,
}
