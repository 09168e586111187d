"""The verdict on a recorded launch: its first data race or read of unwritten memory.

"First" is by the later of the two accesses in the order of execution. A read of what another thread
writes with nothing between, and which happened to come before that store, is a race and not a read
of unwritten memory: the missing barrier is what is wrong.

Limit: it judges the accesses that this run made. A branch that was not taken has none.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from kernelbook.errors import SimulatorError
from kernelbook.simt.happens_before import Meeting, meetings
from kernelbook.simt.race_report import race_error
from kernelbook.simt.races import suspects
from kernelbook.simt.record import Recording
from kernelbook.simt.touches import Touches, touches_of
from kernelbook.simt.uninitialised import first_unwritten_read, uninitialised_error


def first_defect(recording: Recording) -> SimulatorError | None:
    """The RaceError or UninitialisedError that a launch deserves; None when it has no defect."""
    touches = touches_of(recording)
    if not len(touches):
        return None
    read = first_unwritten_read(recording, touches)
    elements = suspects(recording, touches)
    found = meetings(recording, touches, elements)
    first = next(found, None)
    race = first
    if read is not None and (first is None or touches.row[read] <= first.row):
        race = _late_store(recording, touches, elements, read)
        if race is None:
            return uninitialised_error(recording, touches, read)
    if first is None or race is None:
        return None
    return race_error(recording, touches, race, [first, *found])


def _late_store(
    recording: Recording, touches: Touches, elements: NDArray[Any], read: int
) -> Meeting | None:
    """The first store that conflicts with a read and comes later, with nothing to order them."""
    element = touches.element[read : read + 1]
    if element not in elements:
        return None
    row = int(touches.row[read])
    for meeting in meetings(recording, touches, element):
        if row in meeting.others:
            return Meeting(meeting.row, meeting.element, [row])
    return None
