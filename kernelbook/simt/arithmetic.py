"""The pass that makes a kernel compute as compiled code does, where Python would not.

It follows the types through the kernel, from those of the arguments, and changes only what would
come out differently: an int that meets a float32 becomes a float64, integers wrap at 64 bits where
they can get so large, unsigned differences wrap, a division by zero answers, a variable that is an
int on one way and a float on another is a float after both. Index arithmetic, and arithmetic of
floats of one type, stay as they stand and cost nothing more.

Numba gives every assignment of a variable a type of its own and converts where ways meet; so does
the pass (:func:`kernelbook.simt.abstract.joined`).

Limits: a value of unknown type (a record's field, what a comprehension makes) is computed as Python
and NumPy do. ``a * b + c``, which the compiler may fuse, is rounded twice. ``a[f(i)] -= x`` with a
call in its index keeps Python's operator.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import FunctionType, ModuleType
from typing import Any

from kernelbook.simt import known_calls, numeric, registers
from kernelbook.simt.abstract import (
    COUNTED_BITS,
    INDEX_BITS,
    UNKNOWN,
    Value,
    array,
    differs,
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
Lookup = Callable[[str], Any]
_ROUNDS = 6  # after which a variable of a loop that still changes is unknown
_EXACT = {"float16": 11, "float32": 24, "float64": 53}
_COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)


class Arithmetic:
    """The pass for one function and one tuple of argument values; call it with the tree.

    Afterwards ``result`` is what the function returns, and ``calls`` gives for each new name that
    the tree uses the device function behind it and its arguments.
    """

    def __init__(
        self,
        function: FunctionType,
        arguments: tuple[Value, ...],
        result_of: Callable[[FunctionType, tuple[Value, ...]], Value],
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.result_of = result_of
        self.calls: dict[str, tuple[FunctionType, tuple[Value, ...]]] = {}
        self.result: Value | None = None
        self._locals: set[str] = set()
        self._leaving: list[_Loop] = []

    def __call__(self, tree: ast.FunctionDef) -> None:
        """Change ``tree`` in place."""
        self._locals = {
            node.id for node in ast.walk(tree)
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
        }  # fmt: skip
        names: Names = {}
        parameters = [*tree.args.posonlyargs, *tree.args.args]
        for parameter, value in zip(parameters, self.arguments, strict=False):
            names[parameter.arg] = value
        self._locals |= {a.arg for a in ast.walk(tree.args) if isinstance(a, ast.arg)}
        body, _ = self._block(tree.body, names)
        free = self.function.__code__.co_freevars
        if free:  # a name that is no longer read must stay a free name
            reads = [ast.Expr(ast.Name(name, ast.Load())) for name in free]
            body.insert(0, ast.If(ast.Constant(False), list(reads), []))
            ast.copy_location(body[0], tree.body[0])
        tree.body = body
        ast.fix_missing_locations(tree)

    # Statements. Each gives new nodes and leaves the old ones alone: a loop's are visited again.

    def _block(self, body: list[ast.stmt], names: Names) -> tuple[list[ast.stmt], Names | None]:
        """The new statements, and the names after them (None when the end is never reached)."""
        new: list[ast.stmt] = []
        after: Names | None = names
        for statement in body:
            if after is None:  # not reachable: as it is
                new.append(statement)
                continue
            visit = getattr(self, f"_{type(statement).__name__}", self._other)
            made, after = visit(statement, after)
            for node in made:
                new.append(_located(node, statement))
        return new, after

    def _other(self, node: ast.stmt, names: Names) -> tuple[list[ast.stmt], Names | None]:
        changed = dict(names)
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load):
                changed[part.id] = UNKNOWN
        return [node], None if isinstance(node, ast.Raise) else changed

    def _Expr(self, node: ast.Expr, names: Names) -> tuple[list[ast.stmt], Names]:
        return [ast.Expr(self._expression(node.value, names)[0])], names

    def _Return(self, node: ast.Return, names: Names) -> tuple[list[ast.stmt], None]:
        if node.value is None:
            return [node], None
        new, value = self._expression(node.value, names)
        before = self.result
        self.result = value if before is None else joined(before, value)
        if self.result.is_scalar:
            new = _converted(new, value, self.result)
        return [ast.Return(new)], None

    def _Assign(self, node: ast.Assign, names: Names) -> tuple[list[ast.stmt], Names]:
        new, value = self._expression(node.value, names)
        names = dict(names)
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Subscript):
            target, element = self._target(node.targets[0], names)
            return [ast.Assign([target], _stored(new, value, element))], names
        targets = [self._assigned(target, value, names) for target in node.targets]
        return [ast.Assign(targets, new)], names

    def _AnnAssign(self, node: ast.AnnAssign, names: Names) -> tuple[list[ast.stmt], Names]:
        if node.value is None:
            return [node], names
        return self._Assign(_located(ast.Assign([node.target], node.value), node), names)

    def _AugAssign(self, node: ast.AugAssign, names: Names) -> tuple[list[ast.stmt], Names]:
        if isinstance(node.target, ast.Name):
            whole = ast.BinOp(_read(node.target), node.op, node.value)
            return self._Assign(_located(ast.Assign([node.target], whole), node), names)
        new, value = self._expression(node.value, names)
        if not isinstance(node.target, ast.Subscript):
            return [ast.AugAssign(node.target, node.op, new)], names
        target, element = self._target(node.target, names)
        old = loaded(element.kind)
        plain = isinstance(node.op, ast.Add | ast.Sub | ast.Mult)
        same = old.kind == value.kind and (plain or old.is_float)
        if not old.is_scalar or not value.is_scalar or same or not _repeatable(target):
            return [ast.AugAssign(target, node.op, new)], names
        if plain and old.is_integer and value.is_integer and not (old.wide or value.wide):
            return [ast.AugAssign(target, node.op, new)], names  # the store wraps
        read = ast.Subscript(target.value, copy.deepcopy(target.slice), ast.Load())
        whole, total = self._binary(node.op, (read, old), (new, value))
        return [ast.Assign([target], _stored(whole, total, element))], names

    def _If(self, node: ast.If, names: Names) -> tuple[list[ast.stmt], Names | None]:
        test, _ = self._expression(node.test, names)
        body, after = self._block(node.body, dict(names))
        other, after_other = self._block(node.orelse, dict(names))
        together = _together((after, after_other))
        if together is not None:
            body += _conversions(after, together)
            other += _conversions(after_other, together)
        return [ast.If(test, body, other)], together

    def _While(self, node: ast.While, names: Names) -> tuple[list[ast.stmt], Names | None]:
        def parts(head: Names) -> tuple[list[ast.stmt], Names | None, ast.expr]:
            body, after = self._block(node.body, dict(head))
            return body, after, self._expression(node.test, head)[0]

        head, body, (test,), loop = self._loop(names, parts)
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        other, after = self._block(node.orelse, dict(head)) if not endless else ([], None)
        after = _together((after, *loop.broken))
        return [*_conversions(names, head), ast.While(test, body, other)], after

    def _For(self, node: ast.For, names: Names) -> tuple[list[ast.stmt], Names | None]:
        iterable, over = self._expression(node.iter, names)
        item = self._item(node.iter, over, names)

        def parts(head: Names) -> tuple[list[ast.stmt], Names | None, ast.expr]:
            inside = dict(head)
            target = self._assigned(node.target, item, inside)
            body, after = self._block(node.body, inside)
            return body, after, target

        head, body, (target,), loop = self._loop(names, parts)
        other, after = self._block(node.orelse, dict(head))
        after = _together((after, *loop.broken))
        return [*_conversions(names, head), ast.For(target, iterable, body, other)], after

    def _Break(self, node: ast.Break, names: Names) -> tuple[list[ast.stmt], None]:
        self._leaving[-1].broken.append(names)
        return [node], None

    def _Continue(self, node: ast.Continue, names: Names) -> tuple[list[ast.stmt], None]:
        loop = self._leaving[-1]
        loop.continued.append(names)
        return [*_conversions(names, loop.head), node], None

    def _loop(
        self,
        names: Names,
        parts: Callable[[Names], tuple[list[ast.stmt], Names | None, ast.expr]],
    ) -> tuple[Names, list[ast.stmt], tuple[ast.expr], _Loop]:
        """Visit a loop until the names at its head no longer change."""
        head = dict(names)
        for turn in range(_ROUNDS + 1):
            loop = _Loop(head)
            self._leaving.append(loop)
            body, after, extra = parts(head)
            self._leaving.pop()
            seen = _together((names, after, *loop.continued), widen=head if turn else None)
            assert seen is not None
            new_head = {**head, **seen}
            if new_head == head:
                break
            if turn == _ROUNDS - 1:
                new_head = {n: v if head.get(n) == v else UNKNOWN for n, v in new_head.items()}
            head = new_head
        return head, [*body, *_conversions(after, head)], (extra,), loop

    def _item(self, node: ast.expr, over: Value, names: Names) -> Value:
        """What a for loop over ``node`` gives in each round."""
        if over.kind == "array":
            return loaded(over.element) if over.ndim == 1 else replace(over, ndim=over.ndim - 1)
        if over.kind == "tuple" and over.items:
            first = over.items[0]
            return first if all(item.kind == first.kind for item in over.items) else UNKNOWN
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            return UNKNOWN
        function = self._object(node.func, names)
        values = [self._expression(argument, names)[1] for argument in node.args]
        if function is range:
            bits = [v.bits if v.is_integer else 63 for v in values]
            return scalar("int64", max(bits, default=INDEX_BITS))
        items = [self._item(a, v, names) for a, v in zip(node.args, values, strict=True)]
        if function is enumerate and items:
            return tuple_of(scalar("int64", INDEX_BITS), items[0])
        return tuple_of(*items) if function is zip else UNKNOWN

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

    def _target(self, node: ast.Subscript, names: Names) -> tuple[ast.Subscript, Value]:
        """The new target of a store, and what the array holds (unknown when a slice is stored)."""
        base, value = self._expression(node.value, names)
        index, at = self._expression(node.slice, names)
        whole = value.kind == "array" and _axes(at) == value.ndim
        element = scalar(value.element) if whole else UNKNOWN
        return _located(ast.Subscript(base, index, ast.Store()), node), element

    # Expressions: the new node and what is known about its value.

    def _expression(self, node: ast.expr, names: Names) -> Typed:
        visit = getattr(self, f"_{type(node).__name__}", None)
        if visit is None:
            return node, UNKNOWN
        new, value = visit(node, names)
        return _located(new, node), value

    def _Constant(self, node: ast.Constant, names: Names) -> Typed:
        value = node.value
        if isinstance(value, (bool, float, complex)):
            return node, scalar("float64" if value.__class__ is float else type(value).__name__)
        if isinstance(value, complex):
            return node, scalar("complex128")
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
        return ast.IfExp(test, _converted(yes, a, value), _converted(no, b, value)), value

    def _BoolOp(self, node: ast.BoolOp, names: Names) -> Typed:
        parts = [self._expression(value, names) for value in node.values]
        value = parts[0][1]
        for _, other in parts[1:]:
            value = joined(value, other)
        return ast.BoolOp(node.op, [_converted(new, v, value) for new, v in parts]), value

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
            new.operand = _call("__int__", operand)
        result = scalar(kind, value.bits, value.wide and value.kind == "int64")
        if isinstance(node.op, ast.USub) and value.object is not None:
            return new, literal(-value.object)
        if isinstance(node.op, ast.UAdd) or value.kind == "bool" or result.wide:
            return new, result
        if kind == "uint64" or (isinstance(node.op, ast.USub) and value.bits >= _full(value.kind)):
            return _call(f"__{value.kind}__", new), result  # in the operand's own type
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
                return _converted(new, value, scalar(kind))
            if not 0 <= near < len(parts) or not parts[near][1].is_integer or not value.is_integer:
                continue
            kinds = {value.kind, parts[near][1].kind}
            if "uint64" in kinds and kinds & {"bool", *numeric.SIGNED}:
                return _call("__float64__", new)
            if value.wide and len(kinds) > 1:
                return _call("__int__", new)
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
            return _of_integers(name, left, right, kind)
        if name == "pow" and x.is_float and y.is_integer and kind in numeric.FLOATS:
            return _float_power(left, right, kind)
        if kind in numeric.FLOATS:
            a, b = _operand(a, x, y, kind), _operand(b, y, x, kind)
            if name in ("floordiv", "mod"):
                a, b = _converted(a, x, scalar(kind)), _converted(b, y, scalar(kind))
                return _call(_FLOAT_DIVISIONS[name], a, b), scalar(kind)
            return ast.BinOp(a, op, b), scalar(kind)
        if kind in numeric.COMPLEX:
            return ast.BinOp(_operand(a, x, y, kind), op, _operand(b, y, x, kind)), scalar(kind)
        return new, UNKNOWN

    # Calls.

    def _Call(self, node: ast.Call, names: Names) -> Typed:
        function, callee = self._expression(node.func, names)
        arguments = [self._expression(argument, names) for argument in node.args]
        keywords = [
            ast.keyword(word.arg, self._expression(word.value, names)[0]) for word in node.keywords
        ]
        new = ast.Call(function, [argument for argument, _ in arguments], keywords)
        if any(isinstance(argument, ast.Starred) for argument in node.args):
            return new, UNKNOWN
        values = tuple(value for _, value in arguments)
        if callee.kind != "object":
            return new, self._method(node.func, names, values)
        target = callee.object
        if kind := known_calls.cast_kind(target):
            return self._cast(kind, new, arguments)
        if special := _SPECIAL.get(target) if _hashable(target) else None:
            if not keywords and all(value.is_scalar for value in values):
                return special(new, arguments)
            return new, UNKNOWN
        if inner := _device_function(target):
            return self._specialised(inner, new, values)
        if isinstance(target, _LibdeviceName):
            return new, known_calls.libdevice_result(target.name)
        if known_calls.name_of(target) in known_calls.BITS and values and values[0].is_integer:
            new.args = [_call(f"__np_{values[0].kind}__", arguments[0][0])]
        if known_calls.name_of(target).startswith("atomics.") and values[:1]:
            element = scalar(values[0].element)
            new.args[2:] = [_stored(argument, value, element) for argument, value in arguments[2:]]
        if isinstance(target, type) and issubclass(target, Vector):
            return new, Value("vector", element=target.caster.dtype.name)
        return new, known_calls.result(target, values)

    def _cast(self, kind: str, new: ast.Call, arguments: list[Typed]) -> Typed:
        if len(arguments) != 1 or not arguments[0][1].is_scalar:
            return new, UNKNOWN
        node, value = arguments[0]
        if value.kind == kind and not value.object:
            return node, value
        return _call(f"__{kind}__", node), scalar(kind)

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

    def _specialised(self, inner: FunctionType, new: ast.Call, values: tuple[Value, ...]) -> Typed:
        if new.keywords:
            return new, UNKNOWN
        values = tuple(replace(v, object=None) if v.is_scalar else v for v in values)
        result = self.result_of(inner, values)
        name = next((n for n, call in self.calls.items() if call == (inner, values)), "")
        if not name:
            name = f"__{inner.__name__}_{len(self.calls)}__"
            self.calls[name] = inner, values
        return ast.Call(ast.Name(name, ast.Load()), new.args, []), result

    def _object(self, node: ast.Name, names: Names) -> Any:
        value = self._Name(node, names)[1]
        return value.object if value.kind == "object" else None

    def _lookup(self, name: str) -> Any:
        function = self.function
        if name in function.__code__.co_freevars:
            place = function.__code__.co_freevars.index(name)
            return (function.__closure__ or ())[place].cell_contents
        if name in function.__globals__:
            return function.__globals__[name]
        return getattr(builtins, name, None)


class _Loop:
    """What is known where a loop is left or begun again."""

    def __init__(self, head: Names) -> None:
        self.head = head
        self.broken: list[Names] = []
        self.continued: list[Names] = []


class _LibdeviceName:
    """A function of libdevice, by name."""

    def __init__(self, name: str) -> None:
        self.name = name


_FLOAT_DIVISIONS = {"floordiv": "__float_floor_divide__", "mod": "__float_remainder__"}


def _of_integers(name: str, left: Typed, right: Typed, kind: str) -> Typed:
    """An operation on two integers whose result is an integer of type ``kind``."""
    (a, x), (b, y) = left, right
    if kind == "bool":
        return ast.BinOp(a, _OPERATORS[name](), b), scalar("bool")
    if (x.wide or y.wide) and (x.kind != y.kind or x.kind == "bool" or name in ("floordiv", "mod", "pow", "lshift", "rshift")):
        # NumPy would make a float64 of an int64 and a uint64, or refuse a large Python int.
        a = _call("__int__", a) if x.wide else a
        b = _call("__int__", b) if y.wide else b
        x, y = replace(x, wide=False), replace(y, wide=False)
    wide = x.wide or y.wide
    wrap = "__wrap_signed__" if kind == "int64" else "__wrap_unsigned__"
    limit = 63 if kind == "int64" else 64
    constant = y.object if y.object.__class__ is int else None
    if name in ("floordiv", "mod"):
        a, b = _same(a, x, kind), _same(b, y, kind)
        bits = x.bits if name == "floordiv" else y.bits
        new: ast.expr = ast.BinOp(a, _OPERATORS[name](), b)
        if not constant or constant == -1:
            new = _call("__floor_divide__" if name == "floordiv" else "__remainder__", a, b)
        return new, scalar(kind, bits)
    if name == "pow":
        if constant is not None and constant >= 0 and x.bits * max(constant, 1) <= limit:
            return ast.BinOp(a, ast.Pow(), b), scalar(kind, max(x.bits * constant, 1))
        return _call(wrap, _call("__power__", a, b)), scalar(kind)
    new = ast.BinOp(a, _OPERATORS[name](), b)
    if name in ("bitand", "bitor", "bitxor"):
        unsigned_bits = [v.bits for v in (x, y) if v.kind in numeric.UNSIGNED or (v.object or -1) >= 0]
        bits = min(unsigned_bits) if name == "bitand" and unsigned_bits else max(x.bits, y.bits)
        if kind == "int64" and "uint64" in (x.kind, y.kind) and bits > 63:
            return _call(wrap, new), scalar(kind)
        return new, scalar(kind, min(bits, limit) or 1, wide)
    if name == "rshift":
        bits = max(x.bits - (constant or 0), 1)
        return new, scalar(kind, bits)
    if name == "lshift":
        bits = x.bits + (constant if constant is not None else 64)
    elif name == "mult":
        bits = x.bits + y.bits
    else:
        bits = max(x.bits, y.bits) + 1
        if COUNTED_BITS in (x.bits, y.bits) and min(x.bits, y.bits) <= INDEX_BITS:
            bits = COUNTED_BITS
    if wide:
        return new, scalar(kind, wide=True)
    if bits <= limit and not (kind == "uint64" and name == "sub"):
        return new, scalar(kind, max(bits, 1))
    return _call(wrap, new), scalar(kind)


def _float_power(left: Typed, right: Typed, kind: str) -> Typed:
    (a, x), (b, y) = left, right
    return _call("__float_power__", _converted(a, x, scalar(kind)), b), scalar(kind)


def _operand(node: ast.expr, value: Value, other: Value, kind: str) -> ast.expr:
    """An operand of a float operation, converted where the other one does not do it by itself."""
    if value.is_integer and (other.kind != kind or value.wide or value.bits > 1000):
        return _converted(node, value, scalar("float64" if kind in numeric.COMPLEX else kind))
    return node


def _converted(node: ast.expr, value: Value, target: Value) -> ast.expr:
    """``node`` as ``target``, where the two are represented differently."""
    if not differs(value, target):
        return node
    if target.kind == "float64" and value.object.__class__ is int:
        return _located(ast.Constant(float(value.object)), node)
    return _call(f"__{target.kind}__", node)


def _same(node: ast.expr, value: Value, kind: str) -> ast.expr:
    """An operand of an operation in ``kind`` whose result depends on the operand's sign."""
    if kind == "int64" and value.kind == "uint64":
        return _call("__int64__", node)
    if value.kind == "bool" and value.wide:
        return _call("__int__", node)
    return _converted(node, value, scalar(kind))


def _full(kind: str) -> int:
    return scalar(kind).bits


def _stored(node: ast.expr, value: Value, element: Value) -> ast.expr:
    """A value that is stored; a float becomes an integer as the device converts it."""
    if value.is_float and element.is_integer and element.kind != "bool":
        return _call(f"__{element.kind}__", node)
    return node


def _conversions(names: Names | None, target: Names) -> list[ast.stmt]:
    """Statements that convert the variables of ``names`` to what they are in ``target``."""
    return [
        ast.Assign(
            [ast.Name(name, ast.Store())],
            _call(f"__{target[name].kind}__", ast.Name(name, ast.Load())),
        )
        for name, value in (names or {}).items()
        if name in target and differs(value, target[name])
    ]


def _together(ways: Iterable[Names | None], widen: Names | None = None) -> Names | None:
    """What is known where ``ways`` meet. widen: what was known there before, for a loop's head."""
    reached = [way for way in ways if way is not None]
    if not reached:
        return None
    names: Names = {}
    for name in {name for way in reached for name in way}:
        values = [way[name] for way in reached if name in way]
        value = values[0]
        for other in values[1:]:
            value = joined(value, other)
        if len(values) < len(reached) and not value.is_scalar and value.kind != "array":
            value = UNKNOWN
        if widen and value.is_integer and value.bits > widen.get(name, value).bits:
            full = scalar(value.kind).bits
            slow = value.bits <= widen[name].bits + 1 and value.bits < COUNTED_BITS
            bits = COUNTED_BITS if slow or value.bits <= COUNTED_BITS else full
            value = replace(value, bits=min(bits, full))
        names[name] = value
    return names


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


def _axes(at: Value) -> int:
    """How many axes an index takes away; -1 when it takes slices or is not known."""
    items = at.items if at.kind == "tuple" else (at,)
    return len(items) if all(item.is_integer or item == UNKNOWN for item in items) else -1


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


def _repeatable(target: ast.Subscript) -> bool:
    """Whether an index can be evaluated twice."""
    return not any(isinstance(n, ast.Call | ast.NamedExpr) for n in ast.walk(target))


def _read(name: ast.Name) -> ast.Name:
    return _located(ast.Name(name.id, ast.Load()), name)


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def _located(new: Any, old: ast.AST) -> Any:
    """``new`` and the nodes made with it, at the place of ``old``."""
    for node in ast.walk(new):
        if "lineno" in node._attributes and not hasattr(node, "lineno"):
            ast.copy_location(node, old)
    return new


def _hashable(thing: Any) -> bool:
    try:
        hash(thing)
    except TypeError:
        return False
    return True


def _device_function(thing: Any) -> FunctionType | None:
    inner = getattr(thing, "py_func", None)
    return inner if isinstance(inner, FunctionType) and getattr(thing, "is_device", False) else None


# What Python's own functions become.


def _int(new: ast.Call, arguments: list[Typed]) -> Typed:
    node, value = arguments[0]
    if value.is_integer and value.kind != "bool":
        return node, value
    if value.kind == "float16":
        return _call("__half_to_int64__", node), scalar("int64")
    return _call("__int64__", node), scalar("int64", 1 if value.kind == "bool" else 0)


def _float(new: ast.Call, arguments: list[Typed]) -> Typed:
    node, value = arguments[0]
    if value.is_float:
        return node, value
    return _call("__float64__", node), scalar("float64")


def _bool(new: ast.Call, arguments: list[Typed]) -> Typed:
    return new, scalar("bool")


def _abs(new: ast.Call, arguments: list[Typed]) -> Typed:
    node, value = arguments[0]
    if value.kind in numeric.COMPLEX:
        return new, scalar("float32" if value.kind == "complex64" else "float64")
    if value.kind in numeric.SIGNED and value.bits >= scalar(value.kind).bits:
        return _call(f"__{value.kind}__", new), replace(value, wide=False)
    return new, replace(value, object=None)


def _extreme(name: str) -> Callable[[ast.Call, list[Typed]], Typed]:
    def change(new: ast.Call, arguments: list[Typed]) -> Typed:
        if len(arguments) < 2:
            return new, UNKNOWN
        node, value = arguments[0]
        for other, second in arguments[1:]:
            both = joined(value, second)
            a, b = _converted(node, value, both), _converted(other, second, both)
            if both.kind in ("float32", "float64"):
                node = _call(name, a, b)
            else:
                node = ast.Call(new.func, [a, b], [])
            value = both
        return node, value

    return change


def _round(new: ast.Call, arguments: list[Typed]) -> Typed:
    if len(arguments) == 1:
        return _call("__round__", arguments[0][0]), scalar("int64")
    if len(arguments) == 2 and arguments[0][1].is_float and arguments[1][1].is_integer:
        return _call("__round_to_digits__", *new.args), arguments[0][1]
    return new, UNKNOWN


def _divmod(new: ast.Call, arguments: list[Typed]) -> Typed:
    (a, x), (b, y) = arguments
    kind = numeric.kind("floordiv", x.kind, y.kind)
    if not kind:
        return new, UNKNOWN
    a, b = _same(a, x, kind), _same(b, y, kind)
    if kind in numeric.INTEGERS:
        return _call("__divide_both__", a, b), tuple_of(scalar(kind, x.bits), scalar(kind, y.bits))
    return _call("__float_divide_both__", a, b), tuple_of(scalar(kind), scalar(kind))


_SPECIAL: dict[Any, Callable[[ast.Call, list[Typed]], Typed]] = {
    int: _int,
    float: _float,
    bool: _bool,
    abs: _abs,
    min: _extreme("__smaller__"),
    max: _extreme("__larger__"),
    round: _round,
    divmod: _divmod,
}
_OPERATORS: dict[str, type[ast.operator]] = {
    "add": ast.Add, "sub": ast.Sub, "mult": ast.Mult, "floordiv": ast.FloorDiv, "mod": ast.Mod,
    "lshift": ast.LShift, "rshift": ast.RShift, "bitand": ast.BitAnd, "bitor": ast.BitOr,
    "bitxor": ast.BitXor,
}  # fmt: skip
