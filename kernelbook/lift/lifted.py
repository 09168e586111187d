"""What lifting yields: device code with the origin of its lines, or the reason why not."""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelbook.errors import CompileError

AS_DEF = "write it as a def under @cuda.jit at the top level of a cell"
MAX_MESSAGE = 600
MAX_REASON = 460  # characters; names and places fill the rest


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
    """What was handed in cannot be lifted as device code. Cells count from 0, lines from 1.

    inside, elsewhere: see :func:`place`.
    """

    def __init__(
        self,
        name: str,
        reason: str,
        cell: int | None = None,
        line: int | None = None,
        *,
        inside: str = "",
        elsewhere: bool = False,
    ) -> None:
        name, reason = shortened(name, 60), shortened(reason, MAX_REASON)
        stop = "" if reason.endswith("?") else "."
        message = f"{place(name, line, inside, elsewhere)}: {reason}{stop}"
        super().__init__(shortened(message, MAX_MESSAGE))
        self.name, self.reason, self.cell, self.line = name, reason, cell, line
        self.inside = inside if inside != name else ""


def place(name: str, line: int | None, inside: str = "", elsewhere: bool = False) -> str:
    """Where something stands: the function and the line in its cell, which is what a reader sees.

    inside: the function that holds the line, where it is one that ``name`` needs. elsewhere:
    whether that stands in another cell.
    """
    inside = shortened(inside, 60) if inside != name else ""
    where = f"{name}, in {inside}" if inside else name
    where += f", line {line}" if line is not None else ""
    return where + (f" of the cell that defines {inside}" if inside and elsewhere else "")


def shortened(text: str, limit: int) -> str:
    """``text``, its middle left out where it has more than ``limit`` characters."""
    if len(text) <= limit:
        return text
    half = (limit - 3) // 2
    return f"{text[:half]} … {text[-half:]}"
