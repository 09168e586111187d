"""Reads of memory that nobody has written: shared, local, and what the host left unwritten.

An atomic reads too, so one on unwritten memory is a defect, and it does not count as writing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelbook.simt.errors import UninitialisedError, quoted
from kernelbook.simt.record import Allocation, Kind, Recording
from kernelbook.simt.touches import Touches

_ADVICE = {
    "shared": "Shared memory holds no values at first: store into all of it that is read, and put "
    "cuda.syncthreads() before the first read.",
    "local": "A local array belongs to one thread and holds no values at first: store into an "
    "element before you read it. What threads share belongs in a cuda.shared.array.",
    "global": "The launch got {} without values: store into it first, or pass zeros.",
}


def first_unwritten_read(recording: Recording, touches: Touches) -> int | None:
    """The touch, by its number, that first reads what no earlier row has stored to. None: none.

    Cost: about 10 ns a row of an allocation that begins unwritten.
    """
    begins_unwritten = np.array([_begins_unwritten(a) for a in recording.allocations], np.bool_)
    if not len(touches) or not begins_unwritten.any():
        return None
    element, kind, row = touches.element, touches.kind, touches.row
    number: NDArray[Any] | None = None
    if not begins_unwritten.all():
        number = np.flatnonzero(begins_unwritten[touches.allocation])
        if not len(number):
            return None
        element, kind, row = element[number], kind[number], row[number]
    stores = np.flatnonzero(kind == Kind.STORE)[::-1]
    # How many rows from the end an element's first store lies; 0 without one. Of several values
    # assigned to one place the last one stays, so the stores are taken in reverse.
    left = len(recording) - row
    since = np.zeros(touches.size, left.dtype)
    since[element[stores]] = left[stores]
    early = np.flatnonzero((since[element] <= left) & (kind != Kind.STORE))
    if number is not None:
        early = number[early]
    unwritten = early[~_written_before_launch(recording, touches, early)] if len(early) else early
    return int(unwritten[0]) if len(unwritten) else None


def _begins_unwritten(allocation: Allocation) -> bool:
    return allocation.written is not None or allocation.space in ("shared", "local")


def _written_before_launch(
    recording: Recording, touches: Touches, some: NDArray[Any]
) -> NDArray[np.bool_]:
    """Whether all bytes of each of ``some`` touches were initialised before the launch."""
    found = np.zeros(len(some), np.bool_)
    owner = touches.allocation[some]
    for number in np.unique(owner):
        allocation = recording.allocations[number]
        if allocation.written is None:
            continue
        mine = np.flatnonzero(owner == number)
        first = touches.address[some[mine]] - allocation.address
        nbytes = touches.nbytes[some[mine]]
        written = np.ones(len(mine), np.bool_)
        for byte in range(int(nbytes.max())):
            inside = np.minimum(first + np.minimum(byte, nbytes - 1), len(allocation.written) - 1)
            written &= allocation.written[inside]
        found[mine] = written
    return found


def uninitialised_error(recording: Recording, touches: Touches, number: int) -> UninitialisedError:
    """The error for a touch that :func:`first_unwritten_read` has found."""
    row = int(touches.row[number])
    element = recording.element(row)
    where = recording.where(row)
    what = f"reads {element}" if recording.kind[row] == Kind.LOAD else f"atomic on {element}"
    what, lines = f"{what}, which no thread has written", {where.line: where.text}
    later = _first_store(touches, int(touches.element[number]))
    if later is not None and (other := recording.where(later)).line != where.line:
        who = f"block {other.block}, thread {other.thread}"
        if other.block == where.block:
            who = f"thread {other.thread}"
        what = f"{what}; {who} does so later, on line {other.line}"
        lines[other.line] = other.text
    allocation = recording.allocations[touches.allocation[number]]
    message = quoted(where, what, _ADVICE[allocation.space].format(allocation.name), lines)
    return UninitialisedError(message, row=row, element=element)


def _first_store(touches: Touches, element: int) -> int | None:
    stores = np.flatnonzero((touches.element == element) & (touches.kind == Kind.STORE))
    return int(touches.row[stores[0]]) if len(stores) else None
