"""Finding, once for each kernel and types of its arguments, what :class:`Arithmetic` makes of it."""

from __future__ import annotations

from types import CodeType, FunctionType
from typing import Any

from kernelbook.simt import rewrite
from kernelbook.simt.abstract import UNKNOWN, Value, of
from kernelbook.simt.arithmetic import Arithmetic

_known: dict[Any, tuple[CodeType, Arithmetic]] = {}
_running: set[int] = set()


def typed(function: FunctionType, arguments: tuple[Value, ...]) -> Arithmetic:
    """The pass for ``function`` with such arguments; the same object while its globals stay.

    After :func:`kernelbook.simt.rewrite.rewritten` has applied it, its ``calls`` are complete.
    """
    code = function.__code__
    key = id(code), arguments, _surroundings(function)
    known = _known.get(key)
    if known is None or known[0] is not code:
        known = _known[key] = code, Arithmetic(function, arguments, result_of)
    return known[1]


def result_of(function: FunctionType, arguments: tuple[Value, ...]) -> Value:
    """What a device function returns for such arguments; unknown while it calls itself."""
    found = typed(function, arguments)
    if id(found) in _running:
        return UNKNOWN
    _running.add(id(found))
    try:
        code = rewrite.rewritten(function, (found,))
    finally:
        _running.discard(id(found))
    return UNKNOWN if code is None or found.result is None else found.result


def _surroundings(function: FunctionType) -> tuple[Any, ...]:
    """What the types of a function depend on besides its arguments, as something to compare."""
    code = function.__code__
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    found: list[Any] = []
    for name, cell in cells:
        try:
            found.append((name, _token(cell.cell_contents)))
        except ValueError:  # an empty cell
            found.append((name, None))
    names = function.__globals__
    found += [(name, _token(names[name])) for name in code.co_names if name in names]
    return tuple(found)


def _token(value: Any) -> Any:
    known = of(value)
    return id(value) if known.kind == "object" else known
