"""Compares an answer with the reference's, outside the process that gave it.

An answer is raw bytes of a declared dtype and shape (:func:`kernelbook.lab.answer` makes them). All
of it is untrusted until :func:`decode` has checked it; tolerances are the reference's own.
"""

from __future__ import annotations

import base64
import binascii
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_DIMS = 8
NUMERIC_KINDS = "biufc"


@dataclass(frozen=True)
class Answer:
    """One value handed over by a hidden test, with the tolerance declared beside it."""

    value: NDArray[Any]
    rtol: float
    atol: float | None
    equal_nan: bool


def decode(item: Any) -> Answer:
    """The answer in one wire item. Raises ValueError for anything that is not exactly one."""
    if not isinstance(item, dict):
        raise ValueError(f"an answer is an object, found {type(item).__name__}")
    dtype = _dtype(item.get("dtype"))
    shape = _shape(item.get("shape"))
    try:
        data = base64.b64decode(item.get("data", ""), validate=True)
    except (TypeError, ValueError, binascii.Error) as error:
        raise ValueError(f"the bytes are not base64: {error}") from None
    wanted = math.prod(shape) * dtype.itemsize
    if len(data) != wanted:
        raise ValueError(f"{dtype}{list(shape)} takes {wanted} bytes, found {len(data)}")
    return Answer(
        value=np.frombuffer(data, dtype).reshape(shape),
        rtol=_tolerance(item.get("rtol")) or 0.0,
        atol=_tolerance(item.get("atol")),
        equal_nan=item.get("equal_nan") is True,
    )


def mismatch(answer: Answer, reference: Answer) -> str | None:
    """What differs, for the instructor's eyes (it shows expected values), or None.

    Values agree where |a − r| ≤ atol + rtol·|r|; atol defaults to rtol times the root mean square
    of the reference, so that a sum near zero is judged by the size of its neighbours. A NaN agrees
    only with a NaN, and only where the reference run declared equal_nan. Integers and booleans are
    compared exactly.
    """
    got, wanted = answer.value, reference.value
    if got.shape != wanted.shape:
        return f"shape {got.shape}, expected {wanted.shape}"
    if not _may_stand_for(got.dtype, wanted.dtype):
        return f"dtype {got.dtype}, expected {wanted.dtype}"
    wrong = _wrong(got, wanted, reference)
    count = int(np.count_nonzero(wrong))
    if count == 0:
        return None
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (
        f"{count} of {wrong.size} differ; first at {first}: {got[first]}, expected {wanted[first]}"
    )


def _wrong(got: NDArray[Any], wanted: NDArray[Any], reference: Answer) -> NDArray[np.bool_]:
    if wanted.dtype.kind in "biu":
        return np.asarray(got != wanted)
    exact: type = np.complex128 if wanted.dtype.kind == "c" else np.float64
    a: NDArray[Any] = got.astype(exact)
    r: NDArray[Any] = wanted.astype(exact)
    with np.errstate(invalid="ignore", over="ignore"):
        finite = np.abs(r[np.isfinite(r)])
        rms = float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0
        atol = reference.rtol * rms if reference.atol is None else reference.atol
        close = np.abs(a - r) <= atol + reference.rtol * np.abs(r)
    close = np.where(np.isinf(r), a == r, close & np.isfinite(r))
    if reference.equal_nan:
        close |= np.isnan(a) & np.isnan(r)
    return ~close


def _may_stand_for(got: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """An integer may stand for a float (2 for 2.0), never a float for an integer."""
    ranks = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
    return got.kind == wanted.kind or 1 <= ranks[got.kind] <= ranks[wanted.kind]


def _dtype(text: Any) -> np.dtype[Any]:
    try:
        dtype = np.dtype(text) if isinstance(text, str) and len(text) <= 8 else None
    except TypeError:
        dtype = None
    if dtype is None or dtype.kind not in NUMERIC_KINDS or dtype.hasobject:
        raise ValueError(f"not a numeric dtype: {text!r:.40}")
    return dtype


def _shape(shape: Any) -> tuple[int, ...]:
    if (
        not isinstance(shape, list)
        or len(shape) > MAX_DIMS
        or not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in shape)
    ):
        raise ValueError(f"not a shape: {shape!r:.80}")
    return tuple(shape)


def _tolerance(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError(f"not a tolerance: {value!r:.40}")
    return float(value)
