"""The type of what a call of a known function gives: of ``cuda``, ``math``, ``libdevice``, Python.

The simulator's functions are known by module and name, so that nothing of it need be imported here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from kernelbook.simt import numeric
from kernelbook.simt.abstract import INDEX_BITS, UNKNOWN, Value, array, loaded, scalar, tuple_of
from kernelbook.simt.dtypes import as_dtype
from kernelbook.simt.errors import KernelError

INDEX = scalar("int64", INDEX_BITS)
_TRUTH = (math.isnan, math.isinf, math.isfinite)


def cast_kind(function: Any) -> str:
    """The scalar type that a call of ``function`` converts to, or ""."""
    if isinstance(function, (types.Type, str)) or (
        isinstance(function, type) and issubclass(function, np.generic)
    ):
        try:
            name = as_dtype(function).name
        except KernelError:
            return ""
        return name if name in numeric.WIDTH else ""
    return ""


def result(function: Any, arguments: tuple[Value, ...]) -> Value:
    """What ``function(*arguments)`` is, as far as known."""
    name = name_of(function)
    if name in _FIXED:
        return _FIXED[name]
    if name.startswith("math."):
        return _math(function, arguments)
    if not arguments:
        return UNKNOWN
    first = arguments[0]
    if name in ("registers.grid", "registers.gridsize"):
        count = first.object
        if count == 1:
            return INDEX
        return tuple_of(*[INDEX] * count) if count in (2, 3) else UNKNOWN
    if name == "spaces.ConstSpace.array_like":
        return first
    if name in ("spaces.SharedSpace.array", "spaces.LocalSpace.array"):
        return _array(arguments)
    if name.startswith("warp.shfl_"):
        return arguments[1] if len(arguments) == 3 and arguments[1].is_scalar else UNKNOWN
    if name == "intrinsics.selp" and len(arguments) == 3:
        return arguments[1] if arguments[1].kind == arguments[2].kind else UNKNOWN
    if name.startswith("atomics.Atomic."):
        return loaded(first.element)
    if name in BITS:
        return _bits(name, arguments)
    if name == "intrinsics.load_hinted":
        return loaded(first.element) if first.ndim == 1 else UNKNOWN
    if name in ("intrinsics.fma", "intrinsics.cbrt"):
        kinds = {a.kind for a in arguments}
        return scalar("float32" if kinds == {"float32"} else "float64")
    return UNKNOWN


def name_of(function: Any) -> str:
    """Module and name of a function, such as "warp.shfl_sync" or "math.exp"."""
    module = getattr(function, "__module__", None)
    own = getattr(function, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(own, str):
        return ""
    if module in ("math", "builtins"):
        return f"{module}.{own}"
    package, _, name = module.rpartition(".")
    return f"{name}.{own}" if package == "kernelbook.simt" else ""


def libdevice_result(name: str) -> Value:
    """What ``libdevice.name`` gives."""
    if name in ("popc", "clz", "ffs", "isnand", "isnanf"):
        return scalar("int32")
    if name == "brev":
        return scalar("uint32")
    single = name.endswith("f") or name.startswith(("fast_", "frcp"))
    return scalar("float32" if single else "float64")


BITS = ("intrinsics.popc", "intrinsics.clz", "intrinsics.brev", "intrinsics.ffs")
_FIXED = {
    "registers.lane": scalar("int32", 5),
    "scheduler.syncthreads_count": scalar("int32", 10),
    "scheduler.syncthreads_and": scalar("int32", 1),
    "scheduler.syncthreads_or": scalar("int32", 1),
    "warp.ballot_sync": scalar("int32"),
    "warp.match_any_sync": scalar("int32"),
    "warp.match_all_sync": tuple_of(scalar("int32"), scalar("bool")),
    "warp.activemask": scalar("uint32"),
    "warp.lanemask_lt": scalar("uint32"),
    "warp.all_sync": scalar("bool"),
    "warp.any_sync": scalar("bool"),
    "warp.eq_sync": scalar("bool"),
    "builtins.len": INDEX,
}


def _array(arguments: tuple[Value, ...]) -> Value:
    if len(arguments) < 2:
        return UNKNOWN
    shape, element = arguments[:2]
    kind = cast_kind(element.object)
    if shape.kind == "tuple":
        return array(kind, len(shape.items))
    return array(kind, 1) if shape.is_integer else UNKNOWN


def _bits(name: str, arguments: tuple[Value, ...]) -> Value:
    if len(arguments) != 1 or not arguments[0].is_integer:
        return UNKNOWN
    kind = arguments[0].kind
    if name == "intrinsics.ffs":
        return scalar("uint32", 7)
    return scalar(kind) if name == "intrinsics.brev" else scalar(kind, 7)


def _math(function: Any, arguments: tuple[Value, ...]) -> Value:
    if function in _TRUTH:
        return scalar("bool")
    if not arguments or not all(a.is_scalar for a in arguments):
        return UNKNOWN
    if function is math.gcd:
        return UNKNOWN
    kinds = [a.kind for a in arguments[: 1 if function is math.ldexp else 2]]
    if set(kinds) == {"float16"}:
        one = scalar("float16")
    else:
        one = scalar("float32" if set(kinds) <= {"float32"} else "float64")
    if function is math.frexp:
        return tuple_of(one, scalar("int32"))
    return tuple_of(one, one) if function is math.modf else one
