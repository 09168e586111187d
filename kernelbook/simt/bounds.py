"""The advice of a BoundsError, chosen by what was seen: which axis, which index, which thread.

Limit: whether a guard is there, and which, is not known; a comparison anywhere in the function that
fails counts as one.
"""

from __future__ import annotations

import dis
from functools import lru_cache
from types import CodeType, FrameType
from typing import TYPE_CHECKING

from kernelbook.simt.registers import blockDim, blockIdx, threadIdx

if TYPE_CHECKING:
    from kernelbook.simt.memory import Array

_BEFORE = {"reads": "loading", "writes": "storing"}
_AXES = ("row", "column")
_OWN_MEMORY = ("shared", "local")
_ORDER = frozenset("<>")
_GUARD = "Is this access guarded, and by < rather than <=?"


def advice(array: Array, verb: str, at: tuple[int | None, ...], frame: FrameType | None) -> str:
    """What to do about an access to ``array[at]`` that is out of bounds.

    at: one index an axis, None for a slice. verb: "reads", "writes" or another. frame: of the
    kernel's failing line.
    """
    before = _BEFORE.get(verb, "the atomic")
    if any(i is not None and i < 0 for i in at):
        return (
            "A negative index is a defect: compiled code silently wraps it to the other end. "
            f"Compare the index with 0 before {before}."
        )
    axis, index = next(
        (axis, i)
        for axis, (i, n) in enumerate(zip(at, array.shape, strict=False))
        if i is not None and i >= n
    )
    length = array.shape[axis]
    guarded = frame is not None and _compares(frame.f_code)
    if array.space in _OWN_MEMORY:
        which = f" {_GUARD}" if index == length and guarded else ""
        return _own_memory(array, axis) + which
    if length == 0:
        return f"The array is empty: compare the index with the size before {before}."
    if length == 1:
        what = "The array has one element" if array.ndim == 1 else f"Axis {axis} has length 1"
        unguarded = array.ndim == 1 and index == _own_index()
        more = f" Compare the index with the size before {before}." if unguarded else ""
        return f"{what}: its only index is 0.{more}"
    if array.ndim == 2 and _fits_swapped(at, array.shape):
        return (
            f"Index {axis} is {index}, but there are {length} {_AXES[axis]}s: is it compared with "
            f"shape[{axis}], or are row and column swapped?"
        )
    if array.ndim == 1 and _is_neighbour(index, length):
        own = length - 1
        return (
            f"This thread's own index {own} is valid, that of its neighbour is not: "
            f"compare {index} with the size too before {before}."
        )
    size = "the size" if array.ndim == 1 else f"shape[{axis}]"
    if index == length and guarded:
        return f"The last valid index is {length - 1}. {_GUARD}"
    return f"The tail is not guarded: compare the index with {size} before {before}."


def _own_memory(array: Array, axis: int) -> str:
    length = array.shape[axis]
    if array.ndim == 1:
        what = f"{array.space} array of {length} elements".capitalize()
    else:
        what = f"{array.space} array of shape {array.shape}: on axis {axis}".capitalize()
    last = "its only index is 0" if length == 1 else f"its indices go from 0 to {length - 1}"
    if length == 0:
        last = "it was given no memory at the launch"
    return f"{what}{':' if array.ndim == 1 else ''} {last}."


def _fits_swapped(at: tuple[int | None, ...], shape: tuple[int, ...]) -> bool:
    row, column = at if len(at) == 2 else (None, None)
    if row is None or column is None:
        return False
    return column < shape[0] and row < shape[1]


def _is_neighbour(index: int, length: int) -> bool:
    """Whether the thread's own position is the last valid index and ``index`` the one after."""
    return index == length and _own_index() == length - 1


def _own_index() -> int:
    """The running thread's number along the grid's x."""
    return blockIdx.x * blockDim.x + threadIdx.x


@lru_cache(maxsize=256)
def _compares(code: CodeType) -> bool:
    """Whether the function holds an ordering comparison that could be meant as a guard."""
    return any(
        instruction.opname == "COMPARE_OP" and not _ORDER.isdisjoint(instruction.argrepr)
        for instruction in dis.get_instructions(code)
    )
