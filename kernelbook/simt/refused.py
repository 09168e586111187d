"""What Python takes in a kernel and the real compiler does not: refused before it can run.

Source: each entry was given to numba-cuda 0.30.4, which refuses it. Limit: only what the source
shows by its form. What depends on types (a variable that is a float and then an array, a call of a
function that has no device version) is for the real compile to find.
"""

from __future__ import annotations

import ast
from types import CodeType

from kernelbook.simt import rewrite
from kernelbook.simt.errors import KernelError, line_text

_MEMORY = "Use cuda.local.array for a thread's own memory, cuda.shared.array for the block's."
_FLOW = "Use if and else: no exception is caught on a GPU."
_STATEMENTS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Try: ("try", _FLOW),
    ast.TryStar: ("try", _FLOW),
    ast.With: ("with", "A kernel has no files and no contexts."),
    ast.Yield: ("yield", "A kernel returns nothing: write into an array."),
    ast.YieldFrom: ("yield", "A kernel returns nothing: write into an array."),
    ast.ClassDef: ("a class", "Use arrays, tuples or records."),
    ast.Import: ("import", "Import at the top of the file or cell."),
    ast.ImportFrom: ("import", "Import at the top of the file or cell."),
    ast.Global: ("global", "A kernel can't change a global: write into an array."),
    ast.Delete: ("del", "Leave it out."),
    ast.Dict: ("a dict", _MEMORY),
    ast.DictComp: ("a dict", _MEMORY),
    ast.Set: ("a set", _MEMORY),
    ast.SetComp: ("a set", _MEMORY),
    ast.List: ("a list", _MEMORY),
    ast.ListComp: ("a list", _MEMORY),
    ast.GeneratorExp: ("a generator expression", "Write the loop out."),
    ast.Starred: ("*", "Name each element."),
}
_CALLS = {
    **dict.fromkeys(("list", "dict", "set", "sorted"), _MEMORY),
    **dict.fromkeys(("open", "input"), "A kernel has no files and no keyboard."),
}
_MADE_BY_NUMPY = frozenset(
    ("zeros", "ones", "empty", "full", "array", "arange", "linspace", "concatenate", "sort")
)
_checked: dict[int, CodeType] = {}  # by id; the code is kept, so that the id stays its own


def require_accepted(code: CodeType) -> None:
    """Raise KernelError for the first construct in ``code`` that the real compiler refuses."""
    if id(code) in _checked:
        return
    tree = rewrite.parsed(code)
    loops = (node for node in ast.walk(tree) if isinstance(node, ast.For)) if tree else ()
    allowed = {id(loop.iter) for loop in loops}
    for node in ast.walk(tree) if tree else ():
        found = _refusal(node)
        # A loop over a list written out is unrolled.
        if found is None or id(node) in allowed:
            continue
        what, advice = found
        line = node.lineno  # type: ignore[attr-defined]
        text = line_text(code.co_filename, line)
        raise KernelError(
            f"{code.co_name}, line {line}: the compiler refuses {what} in a kernel. {advice}"
            + (f"\n    {line} | {text}" if text else "")
        )
    _checked[id(code)] = code


def _refusal(node: ast.AST) -> tuple[str, str] | None:
    if isinstance(node, ast.Starred) and not isinstance(node.ctx, ast.Store):
        return None
    if isinstance(node, ast.Call):
        function = node.func
        if isinstance(function, ast.Name) and function.id in _CALLS:
            return f"{function.id}()", _CALLS[function.id]
        if (
            isinstance(function, ast.Attribute)
            and isinstance(function.value, ast.Name)
            and function.value.id in ("np", "numpy")
            and function.attr in _MADE_BY_NUMPY
        ):
            return f"{function.value.id}.{function.attr}()", _MEMORY
    return _STATEMENTS.get(type(node))
