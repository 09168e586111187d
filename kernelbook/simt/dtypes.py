"""Element types: Numba's, NumPy's and strings, all to NumPy dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.np import numpy_support

from kernelbook.simt.errors import KernelError


def as_dtype(spec: Any) -> np.dtype[Any]:
    """The NumPy dtype that ``spec`` names: ``numba.float32``, ``np.float32`` or ``"float32"``.

    Raises KernelError when it names none.
    """
    try:
        if isinstance(spec, types.Type):
            return np.dtype(numpy_support.as_dtype(spec))
        if spec is None:
            raise TypeError("None")
        dtype = np.dtype(spec)
    except (TypeError, NotImplementedError) as error:
        raise KernelError(
            f"{spec!r} is not an element type: use for example numba.float32 or np.float32"
        ) from error
    if dtype == np.dtype(object):
        raise KernelError("a GPU array can't hold Python objects: choose a number type")
    return dtype
