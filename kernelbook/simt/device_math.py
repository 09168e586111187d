"""Python's :mod:`math` as compiled device code does it.

Where Python raises, the hardware answers: ``exp(1000)`` is inf, ``log(0)`` is -inf, ``sqrt(-1)`` is
nan. A float32 argument gives a float32 result, anything else a float64 (a NumPy scalar, so that a
later product with a float32 is a float64, as compiled).

Limit: float32 results are computed in double and rounded; a GPU may differ in the last bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

# fmt: off
_FLOAT_RESULTS = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "degrees", "erf", "erfc",
    "exp", "exp2", "expm1", "fabs", "gamma", "lgamma", "log10", "log1p", "log2", "radians",
    "sin", "sinh", "sqrt", "tan", "tanh", "cbrt",
)
# fmt: on
_TWO_ARGUMENTS = ["atan2", "copysign", "fmod", "hypot", "ldexp", "remainder"]
_AS_THEY_ARE = ["isnan", "isinf", "isfinite", "gcd"]


def _result(value: float, *args: Any) -> Any:
    narrow = {np.float32: np.float32, np.float16: np.float16}.get(type(args[0]))
    if narrow and all(isinstance(a, (narrow, int)) for a in args):
        return narrow(value)
    return np.float64(value)


def _one(name: str) -> Callable[[Any], Any]:
    plain: Callable[[Any], float] = getattr(math, name)

    def function(x: Any) -> Any:
        try:
            value = plain(x)
        except OverflowError:
            value = -math.inf if name == "sinh" and x < 0 else math.inf
        except ValueError:
            value = _outside_domain(name, float(x))
        if x.__class__ is np.float32:
            return np.float32(value)
        return _result(value, x)

    function.__name__ = name
    return function


def _two(name: str) -> Callable[[Any, Any], Any]:
    plain: Callable[[Any, Any], float] = getattr(math, name)

    def function(x: Any, y: Any) -> Any:
        try:
            value = plain(x, int(y) if name == "ldexp" else y)
        except OverflowError:
            value = math.copysign(math.inf, x)
        except ValueError:
            value = math.nan
        return _result(value, x) if name == "ldexp" else _result(value, x, y)

    function.__name__ = name
    return function


def _outside_domain(name: str, x: float) -> float:
    """IEEE result where Python raises ValueError: a pole gives an infinity, the rest NaN."""
    if x == 0 and name in ("log", "log10", "log2"):
        return -math.inf
    if name == "log1p" and x == -1:
        return -math.inf
    if name == "atanh" and abs(x) == 1:
        return math.copysign(math.inf, x)
    if name in ("gamma", "lgamma") and x == math.floor(x):
        return math.inf if name == "lgamma" or x == 0 else math.nan
    return math.nan


def log(x: Any, base: Any = None) -> Any:
    """Natural logarithm, or the one to ``base``."""
    value = _LOG(x)
    return value if base is None else value / _LOG(base)


def pow_(x: Any, y: Any) -> Any:
    """``x`` to the power ``y``."""
    try:
        value = math.pow(x, y)
    except OverflowError:
        value = -math.inf if x < 0 and y % 2 == 1 else math.inf
    except ValueError:
        value = math.inf if x == 0 else math.nan
    return _result(value, x, y)


def cbrt(x: Any) -> Any:
    """The cube root."""
    return _result(float(np.cbrt(np.float64(x))), x)


def floor(x: Any) -> Any:
    """The largest integer not above ``x``, as a float."""
    return _whole(np.floor, x)


def ceil(x: Any) -> Any:
    """The smallest integer not below ``x``, as a float."""
    return _whole(np.ceil, x)


def trunc(x: Any) -> Any:
    """The integral part of ``x``, as a float."""
    return _whole(np.trunc, x)


def nextafter(x: Any, y: Any) -> Any:
    """The next float of this type after ``x`` towards ``y``."""
    kind = np.float32 if x.__class__ is y.__class__ is np.float32 else np.float64
    return np.nextafter(kind(x), kind(y))


def frexp(x: Any) -> Any:
    """Mantissa in [0.5, 1) and exponent."""
    mantissa, exponent = math.frexp(x)
    return _result(mantissa, x), exponent


def modf(x: Any) -> Any:
    """Fractional and integral part, both floats."""
    fraction, whole = math.modf(x)
    return _result(fraction, x), _result(whole, x)


def _whole(function: Callable[[Any], Any], x: Any) -> Any:
    return function(x if isinstance(x, np.floating) else np.float64(x))


_LOG = _one("log")
_functions: dict[str, Any] = {
    **{name: _one(name) for name in _FLOAT_RESULTS},
    **{name: _two(name) for name in _TWO_ARGUMENTS},
    **{name: getattr(math, name) for name in _AS_THEY_ARE},
    "log": log,
    "pow": pow_,
    "floor": floor,
    "ceil": ceil,
    "trunc": trunc,
    "nextafter": nextafter,
    "cbrt": cbrt,
    "frexp": frexp,
    "modf": modf,
}
_constants = {name: np.float64(getattr(math, name)) for name in ("pi", "e", "tau", "inf", "nan")}

device_math = SimpleNamespace(__name__="math", **_functions, **_constants)
replacement: dict[Any, Any] = {getattr(math, name): new for name, new in _functions.items()}
