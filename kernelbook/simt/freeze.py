"""The kernel as the compiler would see it: constants typed, globals looked up once.

Numba reads a kernel's globals when it compiles and gives every constant a type. Here each launch
makes such a copy: float constants become float64 scalars (so ``x * 2.0`` with a float32 ``x`` is a
float64, as compiled), :mod:`math` becomes :mod:`kernelbook.simt.device_math`, device functions
become plain functions, which makes their calls cheap. What the kernel computes otherwise than
compiled code would is changed by :mod:`kernelbook.simt.arithmetic`.

Limit: a function whose source Python can't find keeps Python's arithmetic, as it does when a value
is called of which nothing is known: there a float32 times an int stays float32, and an integer
division by zero is reported instead of answered.
"""

from __future__ import annotations

import math
import weakref
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from kernelbook.simt import log, machine, rewrite
from kernelbook.simt.abstract import Value
from kernelbook.simt.device_math import device_math, replacement
from kernelbook.simt.errors import KernelError
from kernelbook.simt.recorded import wrap
from kernelbook.simt.refused import require_accepted
from kernelbook.simt.registers import now
from kernelbook.simt.typed import typed

_KNOWN_PACKAGES = ("kernelbook.simt", "numpy", "numba", "math", "builtins")


class Frozen:
    """Frozen functions of one launch, by the original: each is made once."""

    def __init__(self) -> None:
        self.functions: dict[Any, FunctionType] = {}
        self.files: set[str] = set()
        lines = now.log is not None and now.log.lines
        self.passes: tuple[rewrite.Pass, ...] = (rewrite.with_lines,) if lines else ()

    def function(
        self, original: FunctionType, arguments: tuple[Value, ...] | None = None
    ) -> FunctionType:
        """A copy of ``original`` with typed constants and frozen globals and closure.

        arguments: what is known about those that it will be called with; None: nothing.
        """
        key = original, arguments
        known = self.functions.get(key)
        if known is not None:
            return known
        require_accepted(original.__code__)
        passes, arithmetic = self.passes, None
        if arguments is not None:
            arithmetic = typed(original, arguments)
            passes = (*passes, arithmetic)
        code = rewrite.rewritten(original, passes) if passes else None
        calls = arithmetic.calls if code and arithmetic else {}
        code = typed_constants(code or original.__code__)
        names = {**original.__globals__, **machine.NAMES}
        names[rewrite.LINE] = log.note_line
        frozen = FunctionType(
            code,
            names,
            original.__name__,
            _typed_constant(original.__defaults__),
            _cells(len(code.co_freevars)),
        )
        frozen.__kwdefaults__ = original.__kwdefaults__
        self.functions[key] = frozen
        self.files.add(code.co_filename)
        for name in rewrite.global_names(code):
            if name in names:
                names[name] = self._value(name, names[name])
            elif name == "float":
                names[name] = np.float64
        cells = zip(
            code.co_freevars, original.__closure__ or (), frozen.__closure__ or (), strict=True
        )
        for name, cell, new in cells:
            try:
                new.cell_contents = self._value(name, cell.cell_contents)
            except ValueError:  # an empty cell: a name that is not defined yet
                continue
        for name, (inner, values) in calls.items():
            names[name] = self.function(inner, values)
        return frozen

    def _value(self, name: str, value: Any) -> Any:
        value = simulated(value)
        if value.__class__ is float:
            return np.float64(value)
        if value is math:
            return device_math
        if isinstance(value, BuiltinFunctionType):
            return replacement.get(value, value)
        if type(value) is np.ndarray and value.dtype != object:
            constant = value.view()
            constant.flags.writeable = False
            return wrap(constant, name, "const")
        if isinstance(value, (type, ModuleType, np.ndarray, np.generic)):
            return value
        inner = getattr(value, "py_func", None)
        if isinstance(inner, FunctionType):
            if getattr(value, "is_kernel", False):
                return value  # calling it is an error that the dispatcher explains
            return self.function(inner)
        if isinstance(value, FunctionType):
            package = value.__module__ or ""
            if not package.startswith(_KNOWN_PACKAGES):
                raise KernelError(
                    f"{name} is a plain Python function, which a kernel can't call: decorate it "
                    "with @cuda.jit(device=True)"
                )
        return value


def simulated(value: Any) -> Any:
    """The simulator's counterpart of something from the real ``numba.cuda``, else ``value``.

    So a kernel that was written for a GPU, and has the real module in its globals, runs here too.
    """
    home = getattr(value, "__name__" if isinstance(value, ModuleType) else "__module__", None)
    if not isinstance(home, str) or not home.startswith("numba.cuda") or hasattr(value, "py_func"):
        return value
    from kernelbook.simt import cg, cuda, libdevice

    if isinstance(value, ModuleType):
        return {"numba.cuda.cg": cg, "numba.cuda.libdevice": libdevice}.get(home, cuda)
    of = libdevice if home == "numba.cuda.libdevice" else cg if home == "numba.cuda.cg" else cuda
    return getattr(of, getattr(value, "__name__", ""), value)


def _cells(count: int) -> tuple[CellType, ...]:
    return tuple(CellType() for _ in range(count))


_typed: dict[int, tuple[weakref.ref[CodeType], CodeType]] = {}


def typed_constants(code: CodeType) -> CodeType:
    """``code`` with float64 scalars for its float constants; the same object while it lives."""
    key = id(code)
    known = _typed.get(key)
    if known is None or known[0]() is not code:
        constants = tuple(_typed_constant(c) for c in code.co_consts)
        alive = weakref.ref(code, lambda _: _typed.pop(key, None))
        known = _typed[key] = alive, code.replace(co_consts=constants)
    return known[1]


def _typed_constant(constant: Any) -> Any:
    if constant.__class__ is float:
        return np.float64(constant)
    if isinstance(constant, tuple):
        return tuple(_typed_constant(c) for c in constant)
    if isinstance(constant, CodeType):
        return typed_constants(constant)
    return constant
