"""The expressions of a kernel: their types, and the nodes that compute them as compiled code does.

See :mod:`kernelbook.simt.arithmetic`, which follows the statements.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from dataclasses import replace
from types import FunctionType, ModuleType
from typing import Any

from kernelbook.simt import known_calls, numeric, operations, registers
from kernelbook.simt.abstract import (
    UNKNOWN,
    Value,
    array,
    joined,
    literal,
    loaded,
    of,
    scalar,
    tuple_of,
)
from kernelbook.simt.vectors import Vector

Names = dict[str, Value]
Typed = tuple[ast.expr, Value]
ResultOf = Callable[[FunctionType, tuple[Value, ...]], Value]
_LITERALS: dict[Any, str] = {bool: "bool", float: "float64", complex: "complex128"}
_COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)


class Expressions:
    """Visits expressions: each gives a new node and what is known about its value.

    ``calls``: for each new name in the nodes, the device function behind it and its arguments.
    """

    def __init__(self, function: FunctionType, result_of: ResultOf) -> None:
        self.function = function
        self.result_of = result_of
        self.calls: dict[str, tuple[FunctionType, tuple[Value, ...]]] = {}
        self._locals: set[str] = set()

    def _assigned(self, target: ast.expr, value: Value, names: Names) -> ast.expr:
        """Note what ``target`` holds from now on."""
        if isinstance(target, ast.Name):
            names[target.id] = replace(value, object=None) if value.is_scalar else value
        elif isinstance(target, ast.Tuple | ast.List):
            items = value.items if len(value.items) == len(target.elts) else ()
            if value.kind == "array" and value.ndim == 1:
                items = (loaded(value.element),) * len(target.elts)
            for n, part in enumerate(target.elts):
                self._assigned(part, items[n] if items else UNKNOWN, names)
        elif isinstance(target, ast.Starred):
            self._assigned(target.value, UNKNOWN, names)
        return target

    def _expression(self, node: ast.expr, names: Names) -> Typed:
        visit = getattr(self, f"_{type(node).__name__}", None)
        if visit is None:
            return node, UNKNOWN
        new, value = visit(node, names)
        return operations.located(new, node), value

    def _Constant(self, node: ast.Constant, names: Names) -> Typed:
        value = node.value
        if isinstance(value, (bool, float, complex)):
            return node, scalar(_LITERALS[type(value)])
        return node, literal(value) if isinstance(value, int) else Value("object", object=value)

    def _Name(self, node: ast.Name, names: Names) -> Typed:
        if node.id in self._locals:
            return node, names.get(node.id, UNKNOWN)
        try:
            return node, of(self._lookup(node.id))
        except (KeyError, ValueError):
            return node, UNKNOWN

    def _Attribute(self, node: ast.Attribute, names: Names) -> Typed:
        base, value = self._expression(node.value, names)
        return ast.Attribute(base, node.attr, node.ctx), _attribute(value, node.attr)

    def _Tuple(self, node: ast.Tuple, names: Names) -> Typed:
        items = [self._expression(item, names) for item in node.elts]
        if any(isinstance(item, ast.Starred) for item in node.elts):
            return ast.Tuple([item for item, _ in items], node.ctx), UNKNOWN
        return ast.Tuple([i for i, _ in items], node.ctx), tuple_of(*(v for _, v in items))

    def _Slice(self, node: ast.Slice, names: Names) -> Typed:
        ends = [e and self._expression(e, names)[0] for e in (node.lower, node.upper, node.step)]
        return ast.Slice(*ends), Value("slice")

    def _Subscript(self, node: ast.Subscript, names: Names) -> Typed:
        base, value = self._expression(node.value, names)
        index, at = self._expression(node.slice, names)
        return ast.Subscript(base, index, node.ctx), _item_at(value, at)

    def _IfExp(self, node: ast.IfExp, names: Names) -> Typed:
        test, _ = self._expression(node.test, names)
        (yes, a), (no, b) = (self._expression(e, names) for e in (node.body, node.orelse))
        value = joined(a, b)
        return ast.IfExp(
            test, operations.converted(yes, a, value), operations.converted(no, b, value)
        ), value

    def _BoolOp(self, node: ast.BoolOp, names: Names) -> Typed:
        parts = [self._expression(value, names) for value in node.values]
        value = parts[0][1]
        for _, other in parts[1:]:
            value = joined(value, other)
        return ast.BoolOp(node.op, [operations.converted(new, v, value) for new, v in parts]), value

    def _NamedExpr(self, node: ast.NamedExpr, names: Names) -> Typed:
        new, value = self._expression(node.value, names)
        self._assigned(node.target, value, names)
        return ast.NamedExpr(node.target, new), value

    def _UnaryOp(self, node: ast.UnaryOp, names: Names) -> Typed:
        operand, value = self._expression(node.operand, names)
        new = ast.UnaryOp(node.op, operand)
        if isinstance(node.op, ast.Not):
            return new, scalar("bool")
        if not value.is_integer:
            return new, value if value.is_scalar else UNKNOWN
        if isinstance(node.op, ast.Invert) and value.kind == "bool":
            return ast.UnaryOp(ast.Not(), operand), value
        kind = "uint64" if value.kind in numeric.UNSIGNED else "int64"
        if value.wide and value.kind != "int64":
            new.operand = operations.call("__int__", operand)
        wide = value.wide and value.kind == "int64"
        result = replace(scalar(kind, value.bits, wide), mixed=wide and value.mixed)
        if isinstance(node.op, ast.USub) and value.object is not None:
            return new, literal(-value.object)
        if isinstance(node.op, ast.UAdd) or value.kind == "bool" or result.wide:
            return new, result
        if kind == "uint64" or (
            isinstance(node.op, ast.USub) and value.bits >= operations.full_bits(value.kind)
        ):
            # In the operand's own type, of which the result takes all bits.
            return operations.call(f"__{value.kind}__", new), scalar(
                kind, operations.full_bits(value.kind)
            )
        return new, result

    def _Compare(self, node: ast.Compare, names: Names) -> Typed:
        parts = [self._expression(e, names) for e in (node.left, *node.comparators)]
        if all(isinstance(op, _COMPARISONS) for op in node.ops):
            new = [self._comparable(parts, n) for n in range(len(parts))]
        else:
            new = [part for part, _ in parts]
        numpy = any(v.is_float or v.wide or not v.is_scalar for _, v in parts)
        return ast.Compare(new[0], node.ops, new[1:]), scalar("bool", wide=numpy)

    def _comparable(self, parts: list[Typed], n: int) -> ast.expr:
        """Part ``n`` of a comparison, an integer as the float that it is compared as."""
        new, value = parts[n]
        for near in (n - 1, n + 1):
            if 0 <= near < len(parts) and value.is_integer and parts[near][1].is_float:
                kind = numeric.kind("add", value.kind, parts[near][1].kind)
                return operations.converted(new, value, scalar(kind))
            if not 0 <= near < len(parts) or not parts[near][1].is_integer or not value.is_integer:
                continue
            kinds = {value.kind, parts[near][1].kind}
            if "uint64" in kinds and kinds & {"bool", *numeric.SIGNED}:
                return operations.call("__float64__", new)
            if value.wide and len(kinds) > 1:
                return operations.call("__int__", new)
        return new

    def _BinOp(self, node: ast.BinOp, names: Names) -> Typed:
        left, right = self._expression(node.left, names), self._expression(node.right, names)
        return self._binary(node.op, left, right)

    def _binary(self, op: ast.operator, left: Typed, right: Typed) -> Typed:
        (a, x), (b, y) = left, right
        new = ast.BinOp(a, op, b)
        if not x.is_scalar or not y.is_scalar:
            return new, UNKNOWN
        name = type(op).__name__.lower()
        kind = numeric.kind({"mult": "mul"}.get(name, name), x.kind, y.kind)
        if kind in numeric.INTEGERS:
            return operations.of_integers(name, left, right, kind)
        if name == "pow" and x.is_float and y.is_integer and kind in numeric.FLOATS:
            return operations.float_power(left, right, kind)
        if kind in numeric.FLOATS:
            a, b = operations.operand(a, x, y, kind), operations.operand(b, y, x, kind)
            if name in ("floordiv", "mod"):
                a, b = (
                    operations.converted(a, x, scalar(kind)),
                    operations.converted(b, y, scalar(kind)),
                )
                return operations.call(operations.FLOAT_DIVISIONS[name], a, b), scalar(kind)
            return ast.BinOp(a, op, b), scalar(kind)
        if kind in numeric.COMPLEX:
            return ast.BinOp(
                operations.operand(a, x, y, kind), op, operations.operand(b, y, x, kind)
            ), scalar(kind)
        return new, UNKNOWN

    def _Call(self, node: ast.Call, names: Names) -> Typed:
        function, callee = self._expression(node.func, names)
        arguments = [self._expression(argument, names) for argument in node.args]
        named = [(word.arg, *self._expression(word.value, names)) for word in node.keywords]
        keywords = [ast.keyword(name, value) for name, value, _ in named]
        new = ast.Call(function, [argument for argument, _ in arguments], keywords)
        if any(isinstance(argument, ast.Starred) for argument in node.args):
            return self._unpacked_call(new, arguments, callee)
        values = tuple(value for _, value in arguments)
        if callee.kind != "object":
            return new, self._method(node.func, names, values)
        target = callee.object
        if kind := known_calls.cast_kind(target):
            return self._cast(kind, new, arguments)
        if special := operations.PYTHON_FUNCTIONS.get(target) if _hashable(target) else None:
            if not keywords and all(value.is_scalar for value in values):
                return special(new, arguments)
            return new, UNKNOWN
        if inner := _device_function(target):
            if keywords:
                every = _positional(inner, values, {name: value for name, _, value in named})
                return self._specialised(inner, new, every) if every else (new, UNKNOWN)
            return self._declared(inner, _signature(target, len(values)), new, values)
        if isinstance(target, _LibdeviceName):
            return new, known_calls.libdevice_result(target.name)
        if known_calls.name_of(target) in known_calls.BITS and values and values[0].is_integer:
            new.args = [operations.call(f"__np_{values[0].kind}__", arguments[0][0])]
        if known_calls.name_of(target).startswith("atomics.") and values[:1]:
            element = scalar(values[0].element)
            new.args[2:] = [
                operations.stored(argument, value, element) for argument, value in arguments[2:]
            ]
        if isinstance(target, type) and issubclass(target, Vector):
            return new, Value("vector", element=target.caster.dtype.name)
        return new, known_calls.result(target, values)

    def _Starred(self, node: ast.Starred, names: Names) -> Typed:
        new, value = self._expression(node.value, names)
        return ast.Starred(new, node.ctx), value

    def _unpacked_call(self, new: ast.Call, arguments: list[Typed], callee: Value) -> Typed:
        """A call with ``*tuple`` among its arguments; only of a device function is more known."""
        inner = _device_function(callee.object) if callee.kind == "object" else None
        values: tuple[Value, ...] = ()
        for node, value in arguments:
            if not isinstance(node, ast.Starred):
                values += (value,)
            elif value.kind == "tuple":
                values += value.items
            else:
                return new, UNKNOWN
        return self._specialised(inner, new, values) if inner else (new, UNKNOWN)

    def _cast(self, kind: str, new: ast.Call, arguments: list[Typed]) -> Typed:
        if len(arguments) != 1 or not arguments[0][1].is_scalar:
            return new, UNKNOWN
        node, value = arguments[0]
        if value.kind == kind and not value.object:
            return node, value
        return operations.call(f"__{kind}__", node), scalar(kind)

    def _method(self, node: ast.expr, names: Names, values: tuple[Value, ...]) -> Value:
        if not isinstance(node, ast.Attribute):
            return UNKNOWN
        _, base = self._expression(node.value, names)
        if base.kind == "array":
            if node.attr == "view" and values and values[0].kind == "object":
                return array(known_calls.cast_kind(values[0].object), base.ndim)
            if node.attr == "transpose":
                return base
            if node.attr in ("reshape", "ravel"):
                shape = values[0].items if values and values[0].kind == "tuple" else values
                return replace(base, ndim=max(len(shape), 1))
        if base.kind in numeric.COMPLEX and node.attr == "conjugate":
            return base
        return UNKNOWN

    def _declared(
        self,
        inner: FunctionType,
        signature: tuple[tuple[str, ...], str],
        new: ast.Call,
        values: tuple[Value, ...],
    ) -> Typed:
        """A call of a device function, its arguments and its result as it declares them."""
        wanted, returned = signature
        for n, kind in enumerate(wanted):
            if kind and values[n].is_scalar and values[n].kind != kind:
                new.args[n] = operations.call(f"__{kind}__", new.args[n])
                values = (*values[:n], scalar(kind), *values[n + 1 :])
        call, result = self._specialised(inner, new, values)
        if returned and result.kind != returned:
            return operations.call(f"__{returned}__", call), scalar(returned)
        return call, result

    def _specialised(self, inner: FunctionType, new: ast.Call, values: tuple[Value, ...]) -> Typed:
        values = tuple(replace(v, object=None) if v.is_scalar else v for v in values)
        result = self.result_of(inner, values)
        name = next((n for n, call in self.calls.items() if call == (inner, values)), "")
        if not name:
            name = f"__{inner.__name__}_{len(self.calls)}__"
            self.calls[name] = inner, values
        return ast.Call(ast.Name(name, ast.Load()), new.args, new.keywords), result

    def _object(self, node: ast.Name, names: Names) -> Any:
        value = self._Name(node, names)[1]
        return value.object if value.kind == "object" else None

    def _lookup(self, name: str) -> Any:
        from kernelbook.simt.freeze import simulated  # which imports this module

        return simulated(self._found(name))

    def _found(self, name: str) -> Any:
        function = self.function
        if name in function.__code__.co_freevars:
            place = function.__code__.co_freevars.index(name)
            return (function.__closure__ or ())[place].cell_contents
        if name in function.__globals__:
            return function.__globals__[name]
        return getattr(builtins, name, None)


def _attribute(value: Value, name: str) -> Value:
    if value.kind == "array":
        if name == "shape" or name == "strides":
            return tuple_of(*[known_calls.INDEX] * value.ndim)
        if name in ("size", "ndim", "itemsize", "nbytes"):
            return known_calls.INDEX
        return {"T": value, "flat": replace(value, ndim=1)}.get(name, UNKNOWN)
    if value.kind == "vector":
        return loaded(value.element) if name in ("x", "y", "z", "w") else UNKNOWN
    if value.kind in numeric.COMPLEX and name in ("real", "imag"):
        return scalar("float32" if value.kind == "complex64" else "float64")
    if value.kind != "object":
        return UNKNOWN
    thing = value.object
    if isinstance(thing, registers.Dim3):
        return scalar("int32", 30) if name in ("x", "y", "z") else UNKNOWN
    if isinstance(thing, ModuleType):
        if name == "laneid" and hasattr(thing, "threadIdx"):
            return scalar("int32", 5)
        if thing.__name__.endswith("libdevice"):
            return Value("object", object=_LibdeviceName(name))
    try:
        return of(getattr(thing, name))
    except Exception:
        return UNKNOWN


def _item_at(value: Value, at: Value) -> Value:
    if value.kind == "tuple":
        n = at.object
        if n.__class__ is int and -len(value.items) <= n < len(value.items):
            return value.items[n]
        same = len({item.kind for item in value.items}) == 1 and value.items[0].is_scalar
        return scalar(value.items[0].kind) if same else UNKNOWN
    if value.kind != "array":
        return UNKNOWN
    items = at.items if at.kind == "tuple" else (at,)
    if any(item.kind not in ("slice", *numeric.INTEGERS) for item in items):
        return UNKNOWN
    left = value.ndim - sum(item.kind != "slice" for item in items)
    if len(items) > value.ndim:
        return UNKNOWN
    return loaded(value.element) if left == 0 else replace(value, ndim=left)


def _hashable(thing: Any) -> bool:
    try:
        hash(thing)
    except TypeError:
        return False
    return True


def _device_function(thing: Any) -> FunctionType | None:
    inner = getattr(thing, "py_func", None)
    return inner if isinstance(inner, FunctionType) and getattr(thing, "is_device", False) else None


def _signature(function: Any, count: int) -> tuple[tuple[str, ...], str]:
    """The declared types of ``count`` arguments and of the result; "" where none is declared."""
    for arguments, result in getattr(function, "declared", ()):
        if len(arguments) == count:
            kinds = tuple(known_calls.cast_kind(argument) for argument in arguments)
            return kinds, "" if result is None else known_calls.cast_kind(result)
    return (), ""


def _positional(
    function: FunctionType, values: tuple[Value, ...], named: dict[str | None, Value]
) -> tuple[Value, ...]:
    """The values of all parameters of a call with keywords; () when they are not known."""
    code = function.__code__
    parameters = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    known: dict[str | None, Value] = {
        **dict(zip(parameters[len(parameters) - len(defaults) :], map(of, defaults), strict=True)),
        **dict(zip(parameters, values, strict=False)),
        **named,
    }
    return tuple(known[name] for name in parameters) if set(known) == set(parameters) else ()


class _LibdeviceName:
    """A function of libdevice, by name."""

    def __init__(self, name: str) -> None:
        self.name = name
