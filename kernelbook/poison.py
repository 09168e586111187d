"""What memory holds that nobody has written: a pattern that no computation gives.

Floats hold a NaN with a payload of its own, so that a computed NaN is told from it; everything else
holds ``BYTE`` in each byte. Limit: booleans have no pattern, for both of their values are answers.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

BYTE = 0xCD


@lru_cache(maxsize=256)
def element(dtype: np.dtype[Any]) -> NDArray[Any]:
    """One poisoned element, an array of shape (1,)."""
    if dtype.fields is not None or dtype.kind not in "biufc":
        return np.frombuffer(bytes([BYTE]) * dtype.itemsize, np.uint8).view(dtype)
    code = bytearray([BYTE]) * dtype.itemsize
    if dtype.kind in "fc":
        part = dtype.itemsize // (2 if dtype.kind == "c" else 1)
        # Little-endian: sign 0, exponent all ones, quiet bit set; what is left is the payload.
        high = {2: b"\x7e", 4: b"\xc0\x7f", 8: b"\xf8\x7f"}[part]
        code = (code[: part - len(high)] + high) * (dtype.itemsize // part)
    found = np.frombuffer(bytes(code), dtype.newbyteorder("<"))
    return np.ones(1, dtype) if dtype.kind == "b" else found.astype(dtype)


def untouched(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where an element still holds the poison; nowhere for booleans."""
    if values.dtype.kind == "b":
        return np.zeros(values.shape, np.bool_)
    raw = np.ascontiguousarray(values).reshape(*values.shape, 1).view(np.uint8)
    same: NDArray[np.bool_] = (raw == element(values.dtype).view(np.uint8)).all(axis=-1)
    return same
