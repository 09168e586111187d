"""Lifting CUDA C++: the string literal that a cell assigns to the exercise's name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from kernelbook.lift.cells import Binding, Notebook
from kernelbook.lift.lifted import Lifted, NotAKernel
from kernelbook.lift.literals import DESCRIBED, MAX_LENGTH, Constants, NotLiteral

MAX_PIECES = 1000
UNREADABLE = re.compile("[\0\ud800-\udfff]")  # the compiler's API takes UTF-8 up to a null

Piece = tuple[str, int, ast.expr]  # (text, cell, the literal that it stands in)


def lift_source(notebook: Notebook, name: str) -> Lifted:
    """The text of the string that is last assigned to ``name``.

    A string is literals put together by ``+`` or by standing side by side, other such strings by
    name, and f-strings whose fields are plain constants. Raises: NotAKernel.
    """
    found = notebook.bindings.get(name, [])
    if not found:
        raise NotAKernel(name, "no cell defines it")
    binding = found[-1]
    if binding.what != "constant" or binding.value is None:
        described = (
            binding.described or f"a{'n' if binding.what == 'import' else ''} {binding.what}"
        )
        raise NotAKernel(
            name,
            f"is {described}; set it to a string of CUDA C++ at the top level of a cell",
            binding.cell,
            binding.node.lineno,
        )
    pieces: list[Piece] = []
    try:
        for piece in _pieces(Constants(notebook), binding.value, binding):
            pieces.append(piece)
            if len(pieces) > MAX_PIECES or sum(len(p[0]) for p in pieces) > MAX_LENGTH:
                raise NotLiteral("a string that is too long")
    except NotLiteral as problem:
        raise NotAKernel(
            name,
            f"is set to {problem}; write the CUDA C++ out as a string",
            binding.cell,
            binding.node.lineno,
        ) from None
    text = "".join(p[0] for p in pieces)
    if UNREADABLE.search(text):
        raise NotAKernel(
            name,
            "holds a letter that no C++ source can hold (a null or half of a pair); write it out",
            binding.cell,
            binding.node.lineno,
        )
    return Lifted(text, (name,), _origin(pieces), tuple(notebook.notes))


def _pieces(constants: Constants, node: ast.expr, binding: Binding) -> Iterator[Piece]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value, binding.cell, node
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _pieces(constants, node.left, binding)
        yield from _pieces(constants, node.right, binding)
    elif isinstance(node, ast.JoinedStr):
        yield "".join(_fields(constants, node, binding)), binding.cell, node
    elif isinstance(node, ast.Name):
        earlier = constants.earlier(node.id, binding)
        if earlier is None or earlier.value is None:
            raise NotLiteral(f"something with {node.id!r} in it, which is no string literal")
        yield from _pieces(constants, earlier.value, earlier)
    else:
        raise NotLiteral(DESCRIBED.get(type(node), "something computed"))


def _fields(constants: Constants, node: ast.JoinedStr, binding: Binding) -> Iterator[str]:
    for part in node.values:
        if isinstance(part, ast.Constant):
            yield str(part.value)
            continue
        assert isinstance(part, ast.FormattedValue)
        plain = part.conversion == -1 and part.format_spec is None
        value = constants.evaluate(part.value, binding) if plain else None
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise NotLiteral("an f-string with more than plain constants in it")
        yield str(value)


def _origin(pieces: list[Piece]) -> dict[int, tuple[int, int]]:
    """Line of the source → (cell, line). A literal of as many lines as its text maps one to one."""
    origin: dict[int, tuple[int, int]] = {}
    at = 1
    for text, cell, node in pieces:
        breaks = text.count("\n")
        straight = breaks == (node.end_lineno or node.lineno) - node.lineno
        for offset in range(breaks + 1):
            origin.setdefault(at + offset, (cell, node.lineno + (offset if straight else 0)))
        at += breaks
    return origin
