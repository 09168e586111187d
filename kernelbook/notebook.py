"""What a lab adds to the notebook it runs in: a line after a passed check, plainer first errors.

Beginners meet three of Python's own errors before any of ours: a plain function is launched like a
kernel, a check runs before its answer cell, a cell runs before the first one. IPython shows each as
a page of traceback; here it stays an error (a runner such as nbval must see one) and becomes a
sentence. Everything else keeps its traceback.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

_attached: set[int] = set()


def before_each_cell(call: Callable[[], None]) -> None:
    """Call ``call`` before every cell of the running IPython shell. Outside IPython never."""
    shell = _shell()
    if shell is not None:
        shell.events.register("pre_run_cell", lambda *_: call())


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


def attach(compared: Callable[[], int], forget: Callable[[], None]) -> None:
    """Hook into the running IPython shell, once. Outside IPython nothing happens.

    compared: how many comparisons of the cell that just ran have held; forget: start from 0.
    """
    shell = _shell()
    if shell is None or id(shell) in _attached:
        return
    _attached.add(id(shell))

    def after(result: Any) -> None:
        count = compared()
        if count and result.success:
            print(f"✓ Public check passed ({count} comparison{'s' * (count > 1)}).")

    shell.events.register("pre_run_cell", lambda *_: forget())
    shell.events.register("post_run_cell", after)
    shell.set_custom_exc((TypeError, NameError), _show)


def _show(
    shell: Any,
    kind: type[BaseException],
    error: BaseException,
    traceback: TracebackType | None,
    tb_offset: int | None = None,
) -> list[str]:
    sentence = plainly(error, traceback)
    if sentence is None:
        lines = shell.InteractiveTB.structured_traceback(kind, error, traceback, tb_offset or 1)
    else:
        lines = [f"{kind.__name__}: {sentence}"]
    shell._showtraceback(kind, error, lines)
    return list(lines)


def plainly(error: BaseException, traceback: TracebackType | None) -> str | None:
    """The sentence for a beginner's error at the top level of a cell; None for any other error."""
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None or traceback.tb_frame.f_code.co_name != "<module>":
        return None
    if isinstance(error, NameError) and error.name:
        if error.name in ("lab", "cuda", "np"):
            return f"{error.name!r} is not there yet. Run the first code cell of this notebook."
        return (
            f"{error.name!r} is not defined. Run the cell that defines it first, and look whether "
            "both spell it alike."
        )
    plain = re.search(r"'(function|CPUDispatcher)' object is not subscriptable", str(error))
    if plain is None:
        return None
    wanted = "put @cuda.jit on the line above its def"
    if plain[1] == "CPUDispatcher":
        wanted = "it is compiled for the CPU: write @cuda.jit, not @jit, above its def"
    return (
        f"what this cell launches with [blocks, threads] is not a kernel; {wanted}, run that cell."
    )
