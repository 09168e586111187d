"""Where a recording's first defect lies: the rows that pictures mark.

It is :func:`kernelbook.simt.verdict.first_defect` that finds it, so a picture marks what the error
says. Limit: a defect that no row shows, such as an index out of bounds, stops the launch and is not
in the recording; the picture then ends where the launch did.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernelbook.errors import SimulatorError
from kernelbook.simt import verdict
from kernelbook.simt.record import Recording

TITLES = {"RaceError": "data race", "UninitialisedError": "read before written"}


@dataclass(frozen=True)
class Defect:
    """What is wrong. rows: of the recording, the one or two accesses. lines: theirs."""

    title: str
    message: str
    rows: tuple[int, ...]
    lines: tuple[int, ...]


def of(recording: Recording) -> Defect | None:
    """The first defect that the recording shows; None for none."""
    error = verdict.first_defect(recording)
    return None if error is None else _defect(recording, error)


def _defect(recording: Recording, error: SimulatorError) -> Defect:
    rows = tuple(
        int(row)
        for name in ("first", "second", "row")
        if (row := getattr(error, name, None)) is not None and 0 <= row < len(recording)
    )
    lines = tuple(recording.sites[recording.site[row]].line for row in rows)
    name = type(error).__name__
    return Defect(TITLES.get(name, name), str(error), rows, lines)
