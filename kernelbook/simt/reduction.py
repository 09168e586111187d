"""``cuda.reduce``: a reduction made of a binary function, run by the host."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np


class Reduce:
    """``cuda.reduce``: a binary function as a reduction over a one-dimensional array."""

    def __init__(self, functor: Callable[[Any, Any], Any]) -> None:
        self._functor = functor

    def __call__(
        self, arr: Any, size: int | None = None, res: Any = None, init: Any = 0, stream: Any = 0
    ) -> Any:
        """``init`` combined with all elements; into ``res[0]`` when ``res`` is given."""
        data = np.asarray(arr)
        if data.ndim != 1:
            raise TypeError("only support 1D array")
        values = data if size is None else data[:size]
        result = functools.reduce(self._functor, values, data.dtype.type(init))
        if res is None:
            return result
        res[0] = result
        return None
