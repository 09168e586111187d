"""``numba.cuda.libdevice``: the functions of it that kernels in practice use.

A name ending in ``f``, and the ``fast_…`` ones, take and give float32, the others float64. Results
are those of the exact function, rounded once: a GPU's fast versions are less exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kernelbook.simt import intrinsics
from kernelbook.simt.device_math import device_math
from kernelbook.simt.errors import NotSimulated

# fmt: off
_SAME_NAME = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "copysign", "cos",
    "cosh", "erf", "erfc", "exp", "exp2", "expm1", "fabs", "fmod", "hypot", "log", "log10",
    "log1p", "log2", "pow", "sin", "sinh", "sqrt", "tan", "tanh",
)
# fmt: on
_FAST = ["cosf", "exp10f", "expf", "log10f", "log2f", "logf", "powf", "sinf", "tanf"]


def _typed(function: Callable[..., Any], kind: Any) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        return kind(function(*(np.float64(a) for a in args)))

    return call


def _rsqrt(x: Any) -> Any:
    return np.float64(1) / device_math.sqrt(x)


def _rcp(x: Any) -> Any:
    return np.float64(1) / x


def _saturate(x: Any) -> float:
    return min(float(x), 1.0) if x > 0 else 0.0


def _larger(x: Any, y: Any) -> Any:
    return np.fmax(x, y)


def _smaller(x: Any, y: Any) -> Any:
    return np.fmin(x, y)


def _exp10(x: Any) -> Any:
    return device_math.pow(np.float64(10), x)


def _divide(x: Any, y: Any) -> Any:
    return np.float64(x) / y


_plain: dict[str, Callable[..., Any]] = {
    **{name: getattr(device_math, name) for name in _SAME_NAME},
    "rsqrt": _rsqrt,
    "fmax": _larger,
    "fmin": _smaller,
    "exp10": _exp10,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
}
_functions: dict[str, Callable[..., Any]] = {
    **{name: _typed(function, np.float64) for name, function in _plain.items()},
    **{f"{name}f": _typed(function, np.float32) for name, function in _plain.items()},
    **{f"fast_{name}": _typed(_plain[name[:-1]], np.float32) for name in _FAST},
    "fast_fdividef": _typed(_divide, np.float32),
    "saturatef": _typed(_saturate, np.float32),
    "frcp_rn": _typed(_rcp, np.float32),
    "drcp_rn": _typed(_rcp, np.float64),
    "fmaf": lambda a, b, c: intrinsics.fma(np.float32(a), np.float32(b), np.float32(c)),
    "fma": lambda a, b, c: intrinsics.fma(np.float64(a), np.float64(b), np.float64(c)),
    "popc": intrinsics.popc,
    "clz": intrinsics.clz,
    "ffs": intrinsics.ffs,
    "brev": lambda x: intrinsics.signed(intrinsics.brev(np.int32(x))),
    "isnand": lambda x: int(math.isnan(x)),
    "isnanf": lambda x: int(math.isnan(x)),
}


def __getattr__(name: str) -> Callable[..., Any]:
    if name in _functions:
        return _functions[name]
    if name.startswith("_"):
        raise AttributeError(name)
    raise NotSimulated(f"numba.cuda.libdevice.{name} is not simulated")
