"""Plain words for a Python exception inside a kernel: what it says, and what to do next.

Names that do not exist get the nearest one that does. Names of the simulator's own classes never
reach the reader.
"""

from __future__ import annotations

import builtins
import inspect
import re
from types import FrameType, ModuleType

from kernelbook.lift.vocabulary import did_you_mean

_OWN_CLASSES = re.compile(
    r"'(?:Recorded)?(?:Narrow)?(?:Vector|Matrix|Records)'|'(?:Array|Recorded)'"
)
_OF_ARRAYS = (
    "T", "dtype", "flat", "itemsize", "nbytes", "ndim", "ravel", "reshape", "shape", "size",
    "strides", "transpose", "view",
)  # fmt: skip
_CALLED = re.compile(r"^(Atomic\.)?(\w+)\(\)(?= (?:missing|takes|got) )")
_DIVISION = (
    "Compiled code does not stop here: it gives 0 for integers, inf or nan for floats. "
    "Guard the division."
)
_UNBOUND = "Give it a value on every path that leads here."
_UNDEFINED = (
    "A kernel knows its parameters, and constants defined before it is launched: pass it in, or "
    "define it first."
)
_DIVIDED = "Use // instead of / to divide integers."
_NONE = "The value is None: was it ever given one, or does a function return nothing?"
_ATTRIBUTE = "The simulator offers what Numba offers inside a kernel; check the name."


def python_error(error: Exception, frame: FrameType | None) -> tuple[str, str]:
    """(what to say, advice) for an exception raised on the line that ``frame`` is on."""
    text = _OWN_CLASSES.sub("array", str(error)).rstrip(".")
    if isinstance(error, ZeroDivisionError):
        return text, _DIVISION
    if isinstance(error, UnboundLocalError):
        return text, _UNBOUND
    if isinstance(error, NameError):
        meant = did_you_mean(error.name or "", _names_in(frame))
        return text + meant, "" if meant else _UNDEFINED
    if isinstance(error, AttributeError):
        return _attribute(error, text)
    if isinstance(error, TypeError):
        return _type(text)
    return text, ""


def _type(text: str) -> tuple[str, str]:
    """For a type that does not fit, by what Python says of it."""
    if "float" in text and "cannot be interpreted as an integer" in text:
        return text, _DIVIDED
    if "'NoneType' object" in text:
        return text, _NONE
    called = _CALLED.match(text)
    usage = _usage(*called.groups()) if called else ""
    if not usage:
        return text, ""
    return _CALLED.sub(usage.split("(")[0] + "()", text), f"Call it as {usage}."


def _usage(of_atomic: str | None, name: str) -> str:
    """How a function of ``cuda`` or ``cuda.atomic`` is called; "" for any other."""
    from kernelbook.simt import cuda
    from kernelbook.simt.atomics import atomic

    home = "cuda.atomic" if of_atomic else "cuda"
    function = getattr(atomic if of_atomic else cuda, name, None)
    if not callable(function) or isinstance(function, type):
        return ""
    return f"{home}.{name}({', '.join(inspect.signature(function).parameters)})"


def _attribute(error: AttributeError, text: str) -> tuple[str, str]:
    """For a module the nearest name in it; the others say it themselves."""
    owner, name = error.obj, error.name or ""
    module = getattr(owner, "__name__", "")
    if _OWN_CLASSES.fullmatch(f"'{type(owner).__name__}'"):
        meant = did_you_mean(name, _OF_ARRAYS)
        text = f"an array in a kernel has no attribute {name!r}{meant}"
        return text, "" if meant else "It has shape, size, ndim and dtype."
    if isinstance(owner, ModuleType) or module == "math":
        called = {"numpy": "np", "kernelbook.simt.cuda": "cuda"}.get(module, module)
        public = [n for n in dir(owner) if not n.startswith("_")]
        meant = did_you_mean(name, public, f"{called}.")
        return f"{called}.{name} does not exist{meant}", "" if meant else _ATTRIBUTE
    return text, _ATTRIBUTE


def _names_in(frame: FrameType | None) -> list[str]:
    """Names that a line of the kernel could have meant, the nearest scope first."""
    if frame is None:
        return []
    code = frame.f_code
    known = [*code.co_varnames, *code.co_freevars, *frame.f_globals, *vars(builtins)]
    return [name for name in reversed(known) if not name.startswith("_")]
