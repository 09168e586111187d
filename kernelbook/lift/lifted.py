"""What lifting yields: device code with the origin of its lines, or the reason why not."""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelbook.errors import CompileError


@dataclass(frozen=True)
class Lifted:
    """Device code and where each of its lines came from.

    ``names``: what ``source`` defines besides imports, in its order. ``lines``: line of ``source``
    → (cell, line in that cell); cells count from 0, lines from 1. ``dropped``: one sentence for
    each cell that was passed over.
    """

    source: str
    names: tuple[str, ...]
    lines: dict[int, tuple[int, int]] = field(hash=False)
    dropped: tuple[str, ...]


class NotAKernel(CompileError):
    """What was handed in cannot be lifted as device code. Cells count from 0, lines from 1."""

    def __init__(self, name: str, reason: str, cell: int | None = None, line: int | None = None):
        where = name
        where += f", code cell {cell + 1}" if cell is not None else ""
        where += f", line {line}" if line is not None else ""
        super().__init__(f"{where}: {reason}.")
        self.name, self.reason, self.cell, self.line = name, reason, cell, line
