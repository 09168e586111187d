"""One kernel of the conformance suite: what it is launched with and what is kept of it.

A kernel is a plain function; ``conformance`` registers it. It says what compiled code computes by
storing it: an int64 result into an int64 array, and where the type is the question, into a float64
array too (an unsigned 64-bit -1 becomes 1.8e19, a float32 keeps its 24 bits).

Floats are recorded by their hexadecimal notation, so that all bits but a NaN's payload are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

Dims = int | tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Out:
    """An array argument that is recorded. ``start``: what it holds before the launch."""

    start: np.ndarray[Any, Any]


def out(dtype: str, shape: Dims = 1) -> Out:
    """An output that starts as zeros."""
    return Out(np.zeros(shape, dtype))


def inout(values: Any, dtype: str) -> Out:
    """An output that starts with ``values``."""
    return Out(array(values, dtype))


def array(values: Any, dtype: str) -> np.ndarray[Any, Any]:
    """``values`` as an array of ``dtype``, converted as NumPy does."""
    with np.errstate(all="ignore"):
        return np.array(values).astype(dtype) if dtype != "complex64" else np.array(values, dtype)


def pairs(left: Any, right: Any, dtype: str, other: str = "") -> tuple[Any, Any]:
    """All pairs of two lists of values, as two arrays."""
    both = list(product(left, right))
    firsts, seconds = [a for a, _ in both], [b for _, b in both]
    return np.array(firsts, dtype), np.array(seconds, other or dtype)


@dataclass(frozen=True, eq=False)
class Case:
    """One launch. ``ulp``: how far a float may be off, in units in the last place of its type."""

    name: str
    function: Callable[..., None]
    grid: Dims
    block: Dims
    args: tuple[Any, ...]
    shared_bytes: int
    ulp: int
    why: str


CASES: dict[str, Case] = {}


def conformance(
    grid: Dims = 1,
    block: Dims = 1,
    args: tuple[Any, ...] = (),
    *,
    each: dict[str, tuple[Any, ...]] | None = None,
    shared_bytes: int = 0,
    ulp: int = 0,
    why: str = "",
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register the decorated kernel, once or ``each`` time with other arguments.

    ulp: a bound that is not 0 needs ``why``.
    """
    assert not ulp or why

    def register(function: Callable[..., None]) -> Callable[..., None]:
        theme = function.__module__.rsplit(".", 1)[-1]
        for variant, given in (each or {"": args}).items():
            name = f"{theme}.{function.__name__}" + (f"[{variant}]" if variant else "")
            assert name not in CASES, name
            CASES[name] = Case(name, function, grid, block, given, shared_bytes, ulp, why)
        return function

    return register


def fresh_arguments(case: Case) -> tuple[list[Any], list[np.ndarray[Any, Any]]]:
    """Arguments for one launch, and those among them that are outputs."""
    outputs: list[np.ndarray[Any, Any]] = []

    def fresh(value: Any) -> Any:
        if isinstance(value, Out):
            outputs.append(value.start.copy(order="K"))
            return outputs[-1]
        if type(value) is tuple:
            return tuple(fresh(v) for v in value)
        return value.copy(order="K") if isinstance(value, np.ndarray) else value

    return [fresh(value) for value in case.args], outputs


def launch(case: Case, cuda: Any) -> list[dict[str, Any]]:
    """The outputs of ``case``, encoded, run by ``cuda``: the real module or the simulator."""
    arguments, outputs = fresh_arguments(case)
    kernel = cuda.jit(case.function)
    kernel[case.grid, case.block, 0, case.shared_bytes](*arguments)
    cuda.synchronize()
    return [encoded(output) for output in outputs]


def encoded(values: np.ndarray[Any, Any]) -> dict[str, Any]:
    """``values`` as JSON can hold them, exactly."""
    flat = values.reshape(-1)
    if values.dtype.kind == "c":
        flat = flat.view(np.float32 if values.dtype.itemsize == 8 else np.float64)
    if flat.dtype.kind == "f":
        return {"dtype": str(values.dtype), "values": " ".join(float(v).hex() for v in flat)}
    return {"dtype": str(values.dtype), "values": " ".join(str(int(v)) for v in flat)}


def decoded(output: dict[str, Any]) -> np.ndarray[Any, Any]:
    """One axis of numbers from what :func:`encoded` made; complex ones as pairs of floats."""
    dtype = np.dtype(output["dtype"])
    words = output["values"].split()
    if dtype.kind in "fc":
        kind = {"complex64": "float32", "complex128": "float64"}.get(dtype.name, dtype.name)
        return np.array([float.fromhex(word) for word in words]).astype(kind)
    return np.array([int(word) for word in words], dtype)


def ulps(found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> Iterator[int]:
    """How far each element is off: 0 for equal bits and for two NaNs, in units in the last place.

    The units are those of the narrowest type that holds all numbers of both, since a result is
    stored in a wider type to show its own: a float32 that ought to be a float64 is far off.
    Integers count their difference. A NaN, an infinity or a zero of another sign where the other
    has none is as far as can be.
    """
    for kind in (np.float16, np.float32):
        with np.errstate(over="ignore"):
            narrow = found.astype(kind), wanted.astype(kind)
        if found.dtype.kind == "f" and all(
            np.array_equal(x, y, equal_nan=True)
            for x, y in zip(narrow, (found, wanted), strict=True)
        ):
            found, wanted = narrow
            break
    for a, b in zip(found.tolist(), wanted.tolist(), strict=True):
        if found.dtype.kind != "f":
            yield abs(int(a) - int(b))
        elif a != a or b != b:
            yield 0 if a != a and b != b else 2**62
        else:
            yield abs(_ordered(a, found.dtype) - _ordered(b, found.dtype))


def _ordered(value: float, dtype: np.dtype[Any]) -> int:
    """The number of ``value`` among all floats of its type; -0.0 comes just before 0.0."""
    bits = dtype.itemsize * 8
    number = int(np.array(value, dtype).view(f"u{dtype.itemsize}"))
    return number if number < 1 << (bits - 1) else (1 << (bits - 1)) - 1 - number
