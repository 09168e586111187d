"""A kernel's code compiled anew from its source, changed by passes over the syntax tree.

A pass is a function that changes the tree of one function in place. Line numbers, file name,
argument names and closures stay those of the original, so that messages and tracebacks do not show
that anything was changed.

Limit: a function whose source Python can't find (made by ``exec`` without a line cache, a lambda),
or with an expression too deep to walk, stays as it is.
"""

from __future__ import annotations

import ast
import dis
import inspect
import linecache
import textwrap
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import CodeType, FunctionType

Pass = Callable[[ast.FunctionDef], None]
LINE = "__line__"  # the global that a LINE row is written through
_known: dict[tuple[int, tuple[Pass, ...]], tuple[CodeType, CodeType | None]] = {}


def rewritten(function: FunctionType, passes: tuple[Pass, ...]) -> CodeType | None:
    """The code of ``function`` after ``passes``; the same object every time. None: it can't be."""
    original = function.__code__
    key = id(original), passes
    known = _known.get(key)
    if known is None or known[0] is not original:
        try:
            code = _rewrite(original, passes)
        except RecursionError:  # an expression of a thousand terms
            code = None
        known = _known[key] = original, code
    return known[1]


def forget(unused: Pass) -> None:
    """Drop what was kept for a pass that will not be asked for again."""
    for key in [key for key in _known if unused in key[1]]:
        del _known[key]


def global_names(code: CodeType) -> frozenset[str]:
    """The globals that ``code`` and the functions inside it read."""
    return _global_names(id(code), code)


@lru_cache(maxsize=1024)
def _global_names(key: int, code: CodeType) -> frozenset[str]:
    names = {i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL"}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _global_names(id(constant), constant)
    return frozenset(names)


def with_lines(tree: ast.FunctionDef) -> None:
    """The pass that announces every statement before it runs, and loop heads in each round."""
    tree.body = list(_announced(tree.body))


def _rewrite(original: CodeType, passes: tuple[Pass, ...]) -> CodeType | None:
    tree = parsed(original)
    if tree is None:
        return None
    for change in passes:
        change(tree)
    free = [ast.arg(name) for name in original.co_freevars]
    # Inside a function that has the free names as parameters they stay free.
    around = ast.FunctionDef(
        "around",
        ast.arguments([], free, None, [], [], None, []),
        [tree, ast.Return(ast.Name(tree.name, ast.Load()))],
        [],
    )
    module = ast.fix_missing_locations(ast.Module([around], []))
    outer = _code_in(compile(module, original.co_filename, "exec"), "around")
    code = _code_in(outer, original.co_name)
    if (
        code.co_freevars != original.co_freevars
        or code.co_varnames[: code.co_argcount] != (original.co_varnames[: original.co_argcount])
    ):
        return None  # the file has changed since: this is another function
    return code.replace(co_qualname=original.co_qualname)


def _code_in(code: CodeType, name: str) -> CodeType:
    return next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name)


def parsed(code: CodeType) -> ast.FunctionDef | None:
    """The function's tree with the line numbers of its file; None when there is no source."""
    linecache.checkcache(code.co_filename)
    try:
        lines, first = inspect.getsourcelines(code)
        module = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError, IndexError, ValueError):
        return None
    if len(module.body) != 1 or not isinstance(module.body[0], ast.FunctionDef):
        return None
    tree = module.body[0]
    if tree.name != code.co_name:
        return None
    tree.decorator_list = []
    tree.returns = None
    for argument in ast.walk(tree.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    tree.args.defaults = [ast.Constant(None) for _ in tree.args.defaults]  # the original's are used
    tree.args.kw_defaults = [d and ast.Constant(None) for d in tree.args.kw_defaults]
    ast.increment_lineno(tree, first - 1)
    return tree


def _announced(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for number, statement in enumerate(body):
        docstring = (
            number == 0
            and isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Constant)
        )
        if not docstring and not isinstance(statement, ast.FunctionDef | ast.Global | ast.Nonlocal):
            yield _announcement(statement)
        for block in ("body", "orelse", "finalbody"):
            inner = getattr(statement, block, None)
            if inner:
                setattr(statement, block, list(_announced(inner)))
        if isinstance(statement, ast.While | ast.For):
            statement.body.append(_announcement(statement))
        yield statement


def _announcement(statement: ast.stmt) -> ast.stmt:
    call = ast.Expr(ast.Call(ast.Name(LINE, ast.Load()), [], []))
    for node in (call, call.value, call.value.func):  # type: ignore[attr-defined]
        ast.copy_location(node, statement)
        node.end_lineno = node.lineno  # a statement of several lines is announced at its first
    return call
