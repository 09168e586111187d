"""From a live kernel object to its source: what a notebook hands to `lab.compiles`.

In IPython the cells that were run are lifted, so that a kernel is judged here as it is when the
notebook is handed in. Elsewhere the text of the file is.
"""

from __future__ import annotations

import linecache
import sys
import types
from pathlib import Path
from typing import Any

from kernelbook.errors import CompileError
from kernelbook.lift import AS_DEF, Lifted, lift


def kernel_of(function: Any) -> tuple[Lifted, str]:
    """(lifted source, name) of a kernel: a simulated one, numba-cuda's, or its Python function.

    Raises: NotAKernel when it cannot be lifted; CompileError when its source is not known.
    """
    python = _python_function(function)
    name = python.__name__
    if name == "<lambda>" or "<locals>" in python.__qualname__:
        what = "a lambda" if name == "<lambda>" else f"{name}, defined inside another function"
        raise CompileError(f"The kernel is {what}; {AS_DEF}.")
    cells = _cells_of(python)
    return lift(cells, name), name


def _python_function(function: Any) -> types.FunctionType:
    for attribute in ("py_func", "function", "__wrapped__"):
        if isinstance(function, types.FunctionType):
            break
        function = getattr(function, attribute, function)
    if not isinstance(function, types.FunctionType):
        found = type(function).__name__
        raise CompileError(
            f"found a {found} where a kernel was wanted; pass the function under @cuda.jit itself, "
            "not its name or a launch"
        )
    return function


def _cells_of(function: types.FunctionType) -> list[str]:
    own = "".join(linecache.getlines(function.__code__.co_filename))
    cells = _notebook_cells(function)
    if not any(f"def {function.__name__}" in cell for cell in cells):
        cells = [*cells, own]
    if not any(cells):
        raise CompileError(
            f"{function.__name__}: its source is not known. Define it in a notebook cell or a file."
        )
    return cells


def _notebook_cells(function: types.FunctionType) -> list[str]:
    """The cells that were run, as written; [] when the function belongs to no notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None:
        return []
    if function.__globals__ is not shell.user_ns:
        graded = function.__code__.co_filename.startswith("<")  # an answer put together in a lab
        return _cells_without_history(function) if graded else []
    history = [str(cell) for cell in shell.history_manager.input_hist_raw[1:]]
    return history if any(history) else _cells_without_history(function)


def _cells_without_history(function: types.FunctionType) -> list[str]:
    """The cells that a runner such as nbval sent with no history kept, in the order first run.

    The kernel keeps the text of every cell for its tracebacks, all of them under one folder.
    """
    folder = Path(function.__code__.co_filename).parent
    names = [name for name in linecache.cache if Path(name).parent == folder]
    return ["".join(linecache.getlines(name)) for name in names]
