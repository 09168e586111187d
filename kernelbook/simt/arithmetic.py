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
import copy
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import FunctionType

from kernelbook.simt import operations
from kernelbook.simt.abstract import (
    COUNTED_BITS,
    FEW_BITS,
    INDEX_BITS,
    UNKNOWN,
    Value,
    differs,
    joined,
    loaded,
    of,
    scalar,
    tuple_of,
)
from kernelbook.simt.expressions import Expressions, Names, ResultOf

_ROUNDS = 8  # after which a variable of a loop that still changes is unknown


class Arithmetic(Expressions):
    """The pass for one function and one tuple of argument values; call it with the tree.

    Afterwards ``result`` is what the function returns, and ``calls`` gives for each new name that
    the tree uses the device function behind it and its arguments.
    """

    def __init__(
        self,
        function: FunctionType,
        arguments: tuple[Value, ...],
        result_of: ResultOf,
    ) -> None:
        super().__init__(function, result_of)
        self.arguments = arguments
        self.result: Value | None = None
        self._leaving: list[_Loop] = []

    def __call__(self, tree: ast.FunctionDef) -> None:
        """Change ``tree`` in place."""
        self._locals = {
            node.id for node in ast.walk(tree)
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
        }  # fmt: skip
        names: Names = {}
        parameters = [*tree.args.posonlyargs, *tree.args.args]
        defaults = self.function.__defaults__ or ()
        for parameter, default in zip(parameters[::-1], defaults[::-1], strict=False):
            value = of(default)
            names[parameter.arg] = replace(value, object=None) if value.is_scalar else value
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
                new.append(operations.located(node, statement))
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
            new = operations.converted(new, value, self.result)
        return [ast.Return(new)], None

    def _Assign(self, node: ast.Assign, names: Names) -> tuple[list[ast.stmt], Names]:
        new, value = self._expression(node.value, names)
        names = dict(names)
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Subscript):
            target, element = self._target(node.targets[0], names)
            return [ast.Assign([target], operations.stored(new, value, element))], names
        targets = [self._assigned(target, value, names) for target in node.targets]
        return [ast.Assign(targets, new)], names

    def _AnnAssign(self, node: ast.AnnAssign, names: Names) -> tuple[list[ast.stmt], Names]:
        if node.value is None:
            return [node], names
        return self._Assign(operations.located(ast.Assign([node.target], node.value), node), names)

    def _AugAssign(self, node: ast.AugAssign, names: Names) -> tuple[list[ast.stmt], Names]:
        if isinstance(node.target, ast.Name):
            whole = ast.BinOp(_read(node.target), node.op, node.value)
            return self._Assign(operations.located(ast.Assign([node.target], whole), node), names)
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
        changed, total = self._binary(node.op, (read, old), (new, value))
        return [ast.Assign([target], operations.stored(changed, total, element))], names

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
            seen = _together(
                (names, after, *loop.continued), widen=head if turn else None, late=turn > 3
            )
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

    def _target(self, node: ast.Subscript, names: Names) -> tuple[ast.Subscript, Value]:
        """The new target of a store, and what the array holds (unknown when a slice is stored)."""
        base, value = self._expression(node.value, names)
        index, at = self._expression(node.slice, names)
        whole = value.kind == "array" and _axes(at) == value.ndim
        element = scalar(value.element) if whole else UNKNOWN
        return operations.located(ast.Subscript(base, index, ast.Store()), node), element


class _Loop:
    """What is known where a loop is left or begun again."""

    def __init__(self, head: Names) -> None:
        self.head = head
        self.broken: list[Names] = []
        self.continued: list[Names] = []


def _conversions(names: Names | None, target: Names) -> list[ast.stmt]:
    """Statements that convert the variables of ``names`` to what they are in ``target``."""
    return [
        ast.Assign(
            [ast.Name(name, ast.Store())],
            operations.call(f"__{target[name].kind}__", ast.Name(name, ast.Load())),
        )
        for name, value in (names or {}).items()
        if name in target and differs(value, target[name])
    ]


def _together(
    ways: Iterable[Names | None], widen: Names | None = None, late: bool = False
) -> Names | None:
    """What is known where ``ways`` meet.

    widen: what was known there before, for a loop's head; ``late``: in rounds before this one too.
    """
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
            slow = value.bits <= widen[name].bits + 1 and not late
            bits = min(widen[name].bits + FEW_BITS + 2, COUNTED_BITS) if slow else full
            bits = full if late or value.bits > COUNTED_BITS else max(bits, value.bits)
            value = replace(value, bits=min(bits, full))
        names[name] = value
    return names


def _axes(at: Value) -> int:
    """How many axes an index takes away; -1 when it takes slices or is not known."""
    items = at.items if at.kind == "tuple" else (at,)
    return len(items) if all(item.is_integer or item == UNKNOWN for item in items) else -1


def _repeatable(target: ast.Subscript) -> bool:
    """Whether an index can be evaluated twice."""
    return not any(isinstance(n, ast.Call | ast.NamedExpr) for n in ast.walk(target))


def _read(name: ast.Name) -> ast.Name:
    return operations.located(ast.Name(name.id, ast.Load()), name)
