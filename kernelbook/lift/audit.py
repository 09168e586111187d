"""The last look at lifted source, just before it is handed out: an allow-list of all that it holds.

What lifting returns is executed, by a simulator as Python. So it is read once more, from its text
alone: imports of known names, constants written out, functions under ``@cuda.jit``, and in their
bodies known statements, names and attributes only, in dead branches too. What is not listed is
refused, whatever the walk that put the source together made of it.

Limit: that the code is *device* code in every respect is for the compiler to say; this says that
it reaches nothing of the host.
"""

from __future__ import annotations

import ast
import builtins
import re
import symtable
import warnings
from collections.abc import Iterator
from typing import NoReturn

from kernelbook.lift.vocabulary import (
    BODY_NODES,
    BUILTINS,
    DECORATOR_OPTIONS,
    FORBIDDEN,
    FORMATS,
    MAX_INT_BITS,
    VALUE_ATTRIBUTES,
    is_device_name,
    is_type,
    may_be_imported,
)

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
LITERAL_TYPES = (bool, int, float, complex, str, type(None))
BODY_LITERALS = (*LITERAL_TYPES, type(...))
SPEAKERS = frozenset(
    {"print", *(name for name in BUILTINS if isinstance(getattr(builtins, name), type)
                and issubclass(getattr(builtins, name), BaseException))}
)  # fmt: skip


class Fault(Exception):
    """Something outside the allow-list. ``line`` counts in the audited source."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.reason, self.line = reason, line


def audit(source: str) -> None:
    """Refuse source that holds anything but imports, literals and device functions.

    Raises: Fault.
    """
    _check_letters(source)
    imports: dict[str, str] = {}
    defined: set[str] = set()
    statements = ast.parse(source).body
    for statement in statements:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            for name, path in _imported(statement).items():
                if imports.setdefault(name, path) != path:
                    _refuse(f"imports two things by the name {name}", statement)
        elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            defined.add(statement.targets[0].id)
        elif isinstance(statement, ast.FunctionDef):
            defined.add(statement.name)
        else:
            _refuse("holds a statement that is no import, constant or function", statement)
    if both := sorted(imports.keys() & defined):
        _refuse(f"gives the name of an import, {both[0]}, to something else", statements[0])
    for statement in statements:
        if isinstance(statement, ast.Assign):
            if len(statement.targets) != 1 or not _is_literal(statement.value, imports):
                _refuse("holds a constant that is not written out", statement)
        elif isinstance(statement, ast.FunctionDef):
            _check_decorator(statement, imports)
            _check_function(source, statement, imports, defined)


def _check_letters(source: str) -> None:
    """Refuse what a notebook would read as other lines than Python does, such as a form feed.

    IPython splits a cell by ``str.splitlines``: a "comment" with U+2028 in it would go on as a
    line of its own, a shell command if it starts with an exclamation mark.
    """
    if found := CONTROL.search(source):
        line = source.count("\n", 0, found.start()) + 1
        raise Fault(f"holds the invisible letter U+{ord(found[0]):04X}; delete it", line)


def _imported(node: ast.Import | ast.ImportFrom) -> dict[str, str]:
    """{name: full name} of one import."""
    found: dict[str, str] = {}
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            path = f"{'.' * node.level}{node.module}.{alias.name}"
            found[alias.asname or alias.name] = path
        else:
            path = alias.name
            name = alias.name.partition(".")[0]
            found[alias.asname or name] = alias.name if alias.asname else name
        if not may_be_imported(path):
            _refuse(f"imports {path}, which is not device code", node)
    return found


def _is_literal(node: ast.expr, imports: dict[str, str]) -> bool:
    if isinstance(node, ast.Constant):
        return _is_small(node.value, LITERAL_TYPES)
    if isinstance(node, ast.Tuple):
        return all(_is_literal(item, imports) for item in node.elts)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.operand, ast.Constant) and _is_literal(node.operand, imports)
    if isinstance(node, ast.BinOp):  # of a complex number, and of "not a number"
        parts = (node.left, node.right)
        return isinstance(node.op, ast.Add | ast.Sub) and all(
            isinstance(part, ast.Constant | ast.UnaryOp) and _is_literal(part, imports)
            for part in parts
        )
    if isinstance(node, ast.Call):
        return (
            _is_type_name(node.func, imports)
            and len(node.args) == 1
            and not node.keywords
            and _is_literal(node.args[0], imports)
        )
    return _is_type_name(node, imports)


def _is_type_name(node: ast.expr, imports: dict[str, str]) -> bool:
    return isinstance(node, ast.Name) and is_type(imports.get(node.id, ""))


def _check_decorator(function: ast.FunctionDef, imports: dict[str, str]) -> None:
    decorator = function.decorator_list[0] if len(function.decorator_list) == 1 else function
    call = decorator if isinstance(decorator, ast.Call) else None
    path = _path(call.func if call else decorator, imports)
    if path != "numba.cuda.jit" or (call is not None and call.args):
        _refuse("is under something other than @cuda.jit alone", function)
    for option in call.keywords if call else []:
        plain = isinstance(option.value, ast.Constant) and (
            option.value.value in ("always", "never")
            or _is_small(option.value.value, (bool, int, type(None)))
        )
        if option.arg not in DECORATOR_OPTIONS or not plain:
            _refuse(f"gives @cuda.jit an option that it may not have ({option.arg})", function)


def _check_function(
    source: str, function: ast.FunctionDef, imports: dict[str, str], defined: set[str]
) -> None:
    if function.returns or any(arg.annotation for arg in ast.walk(function.args)
                               if isinstance(arg, ast.arg)):  # fmt: skip
        _refuse("has annotations, which Python would run", function)
    local, outside = _names(source, function)
    for node in _parts(function):
        if not isinstance(node, BODY_NODES):
            _refuse(FORBIDDEN.get(type(node), "uses a statement or expression that a "
                                              "kernel cannot"), node)  # fmt: skip
        if isinstance(node, ast.arguments):
            _check_arguments(node, function)
        elif isinstance(node, ast.FunctionDef) and (node.decorator_list or node.returns):
            _refuse("holds a function with a decorator or an annotation", node)
        elif isinstance(node, ast.arg) and node.annotation:
            _refuse("holds a function with an annotation", node)
        elif isinstance(node, ast.keyword) and node.arg is None:
            _refuse("passes arguments with **, which a kernel cannot; write each value", node)
        elif isinstance(node, ast.Constant) and not _is_small(node.value, BODY_LITERALS):
            what = "a number that is too large" if isinstance(node.value, int) else "bytes"
            _refuse(f"uses {what}", node)
        elif isinstance(node, ast.Call) and not isinstance(node.func, ast.Name | ast.Attribute):
            _refuse("calls something that has no name", node)
        elif isinstance(node, ast.Compare) and _asks_for_identity(node):
            # The compiler drops the branch that it rules out, unread; a simulator may take it.
            _refuse("compares by `is`; a kernel compares values, by ==", node)
    for name in outside - imports.keys() - defined:
        if name not in BUILTINS:
            _refuse(f"uses {name!r}, which is not device code", function)
    _check_strings(function, SPEAKERS - local - defined - imports.keys())
    _check_dotted(function, imports, local, outside)


def _asks_for_identity(node: ast.Compare) -> bool:
    """``is`` with anything but a written-out None."""
    sides = [node.left, *node.comparators]
    nothing = [isinstance(side, ast.Constant) and side.value is None for side in sides]
    return any(
        isinstance(op, ast.Is | ast.IsNot) and not (nothing[n] or nothing[n + 1])
        for n, op in enumerate(node.ops)
    )


def _check_arguments(args: ast.arguments, function: ast.FunctionDef) -> None:
    if args.defaults or args.kw_defaults or args.kwonlyargs or args.vararg or args.kwarg:
        _refuse("takes other than plain arguments", function)


def _check_strings(function: ast.FunctionDef, speakers: frozenset[str]) -> None:
    """A string may be printed, raised, or stand alone as a docstring; no more."""
    spoken: set[int] = set()
    for node in _parts(function):
        texts: list[ast.expr | None] = []
        if isinstance(node, ast.Expr):
            texts = [node.value]
        elif isinstance(node, ast.Assert):
            texts = [node.msg]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            texts = list(node.args) if node.func.id in speakers else []
        spoken |= {id(text) for text in texts}
        if isinstance(getattr(node, "value", None), str) and id(node) not in spoken:
            _refuse(FORMATS, node)


def _check_dotted(
    function: ast.FunctionDef, imports: dict[str, str], local: set[str], outside: set[str]
) -> None:
    """Names of imports by their whole path, attributes of values by the list."""
    judged: set[int] = set()
    for node in _parts(function):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            _refuse(f"sets .{node.attr}; a kernel writes to the elements of its arrays", node)
        if id(node) in judged or not isinstance(node, ast.Attribute | ast.Name):
            continue
        root: ast.expr = node
        while isinstance(root, ast.Attribute):
            root = root.value
            judged.add(id(root))
        name = root.id if isinstance(root, ast.Name) else ""
        if name in imports and name in outside:
            if name in local:
                _refuse(f"uses {name!r} both for an import and for a variable", node)
            path = _path(node, imports)
            if not is_device_name(path):
                _refuse(f"uses {path}, which is not device code", node)
            continue
        while isinstance(node, ast.Attribute):
            if node.attr not in VALUE_ATTRIBUTES:
                _refuse(
                    f"reads .{node.attr}, which no value in a kernel has; arrays have shape, size, "
                    "ndim, strides, dtype and T",
                    node,
                )
            node = node.value


def _path(node: ast.AST, imports: dict[str, str]) -> str:
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    root = imports.get(node.id, "") if isinstance(node, ast.Name) else ""
    return ".".join([root, *reversed(attributes)])


def _names(source: str, function: ast.FunctionDef) -> tuple[set[str], set[str]]:
    """(names of variables, names looked up outside) of a function and of those inside it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tables = [
            table
            for table in symtable.symtable(source, "<lifted>", "exec").get_children()
            if table.get_name() == function.name
        ]
    local: set[str] = set()
    outside: set[str] = set()
    while tables:
        table = tables.pop()
        for symbol in table.get_symbols():
            (outside if symbol.is_global() else local).add(symbol.get_name())
        tables.extend(table.get_children())
    return local, outside


def _parts(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """The arguments and all nodes of the body in source order."""
    stack: list[ast.AST] = [*reversed(function.body), function.args]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(list(ast.iter_child_nodes(node))))


def _is_small(value: object, types: tuple[type, ...]) -> bool:
    """Whether a literal is of one of these types, and no number too long to be written out."""
    if isinstance(value, int) and value.bit_length() > MAX_INT_BITS:
        return False
    return isinstance(value, types)


def _refuse(reason: str, node: ast.AST) -> NoReturn:
    raise Fault(reason, getattr(node, "lineno", 1))
