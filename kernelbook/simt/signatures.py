"""Explicit signatures of ``cuda.jit``: parsed by Numba, held against the arguments of a launch.

Checked: the number of arguments, axes and element type of arrays. Scalars are converted to the
declared type, as the compiled call does. Limit: the layout in a signature (``[::1]``) is left to
the real compiler.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.core import sigutils

from kernelbook.lift.signature import require_types
from kernelbook.simt import host
from kernelbook.simt.args import ArgHint
from kernelbook.simt.dtypes import as_dtype
from kernelbook.simt.errors import LaunchError

Arguments = tuple[tuple[Any, ...], Any]  # argument types, return type


def parse(given: Any) -> tuple[Arguments, ...]:
    """One signature or a list of them, each a string, a tuple of types or a numba signature.

    A string is evaluated, by Numba, only after it was seen to hold types alone.
    Raises TypeError when it is none of these.
    """
    return tuple(_parse_one(one) for one in (given if isinstance(given, list) else [given]))


def require_void(given: tuple[Arguments, ...]) -> None:
    """Raise TypeError when a kernel's signature returns something."""
    for _, result in given:
        if result not in (None, types.void):
            raise TypeError("CUDA kernel must have void return type.")


def convert(
    given: tuple[Arguments, ...], kernel: str, names: list[str], args: tuple[Any, ...]
) -> tuple[Any, ...]:
    """``args`` with scalars converted to the first signature that fits; as they are without any.

    Raises LaunchError when none fits.
    """
    if not given:
        return args
    reasons = []
    for wanted, _ in given:
        reason = _mismatch(wanted, names, args)
        if reason is None:
            return tuple(_scalar(t, v) for t, v in zip(wanted, args, strict=True))
        reasons.append(reason)
    raise LaunchError(f"{kernel}: no signature fits these arguments: {'; '.join(reasons)}")


def _parse_one(one: Any) -> Arguments:
    try:
        if isinstance(one, str):
            require_types(one)
        normalize: Any = sigutils.normalize_signature
        arguments, result = normalize(one)
    except Exception as error:
        raise TypeError(f"cuda.jit: {one!r} is neither a function nor a signature") from error
    return tuple(arguments), result


def _mismatch(wanted: tuple[Any, ...], names: list[str], args: tuple[Any, ...]) -> str | None:
    if len(wanted) != len(args):
        return f"it takes {len(wanted)} arguments, got {len(args)}"
    for kind, name, value in zip(wanted, names, args, strict=False):
        if isinstance(value, ArgHint):
            value = value.value
        is_array = isinstance(value, (np.ndarray, host.DeviceNDArray))
        if isinstance(kind, types.Array) != is_array:
            return f"{name} is declared {kind}, got {type(value).__name__}"
        if is_array:
            dtype = as_dtype(kind.dtype)
            if value.ndim != kind.ndim or value.dtype != dtype:
                found = f"{value.ndim}-d {value.dtype}"
                return f"{name} is declared {kind.ndim}-d {dtype}, got {found}"
    return None


def _scalar(kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Number) and isinstance(value, (int, float, np.number)):
        return as_dtype(kind).type(value)
    return value
