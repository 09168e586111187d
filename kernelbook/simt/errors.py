"""What a kernel may not do, said with kernel, block, thread, source line and advice.

Every message has one form, so that a learner finds the same fact in the same place::

    softmax_v2, block (3,0), thread 130, line 14: reads x[66561], size 66560. The tail is not
    guarded: compare i with n before loading.
        14 | s += x[i]

Line numbers count within the file or notebook cell that holds the kernel. Limit: names of arrays
are found by identity among the locals of the failing line; a view shows how it was made instead.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType, FrameType, TracebackType

from kernelbook.errors import KernelbookError, SimulatorError

_PACKAGE = str(Path(__file__).parent)


class BoundsError(SimulatorError, IndexError):
    """An index lies outside its array; a negative one too, though compiled code wraps it."""


class BarrierError(SimulatorError):
    """A block-wide barrier that some threads of the block never reach, or reach elsewhere."""


class DeadlockError(SimulatorError):
    """No thread can go on, for a reason other than one block-wide barrier."""


class WarpError(DeadlockError):
    """A warp operation whose mask and lanes do not fit."""


class RaceError(SimulatorError):
    """Two threads touch one element with nothing between, and one of them writes.

    first, second: rows of the recording, in the order of execution. element: such as ``tile[3]``.
    more: how many other elements the same two lines were seen to race on.
    """

    def __init__(
        self, message: str, *, first: int = -1, second: int = -1, element: str = "", more: int = 0
    ) -> None:
        super().__init__(message)
        self.first, self.second, self.element, self.more = first, second, element, more


class UninitialisedError(SimulatorError):
    """A thread reads memory that nobody has written. row: of the recording, the read."""

    def __init__(self, message: str, *, row: int = -1, element: str = "") -> None:
        super().__init__(message)
        self.row, self.element = row, element


class TimeLimitError(SimulatorError):
    """A launch took longer than it may: mostly a loop that never ends."""


class LaunchInterrupted(KeyboardInterrupt):
    """The learner interrupted a launch. A notebook shows the message, not our frames."""

    def _render_traceback_(self) -> list[str]:
        return [f"KeyboardInterrupt: {self}"]


class LaunchError(SimulatorError):
    """The launch asks for what the device does not have, or is not a launch at all."""


class HostOrderError(SimulatorError):
    """Host code or a launch relies on work that it has not waited for."""


class KernelError(SimulatorError):
    """A Python exception inside a kernel, or a use of it that the real compiler refuses."""


class NotSimulated(KernelbookError, ImportError, NotImplementedError):
    """The name exists in ``numba.cuda`` but means nothing here."""


class SimulatorWarning(UserWarning):
    """The simulator answers, but with less than a GPU could say."""


@dataclass(frozen=True)
class Where:
    """A place in a running kernel. ``text`` is the source line, stripped ("" if not known).

    via: the way there when the line is a device function's, such as "in warp_sum, line 7, called
    from reduce_block, line 12": line numbers count in the cell that holds the function.
    """

    kernel: str
    block: str
    thread: str
    line: int
    text: str
    via: str = ""

    def says(self, what: str, advice: str = "") -> str:
        """The message for this place: the one form that all simulator errors share."""
        place = self.via or f"line {self.line}"
        head = f"{self.kernel}, block {self.block}, thread {self.thread}, {place}: {what}"
        if advice:
            head = f"{head.rstrip('.')}. {advice}"
        return f"{head}\n    {self.line} | {self.text}" if self.text else head


def quoted(where: Where, what: str, advice: str, lines: dict[int, str]) -> str:
    """``where.says`` with several source lines quoted: ``lines`` gives their texts by number."""
    head = replace(where, text="").says(what, advice)
    return head + "".join(f"\n    {n} | {text}" for n, text in sorted(lines.items()) if text)


@dataclass(frozen=True)
class Call:
    """One step of the way to a place: a function of the kernel's and the line that it is on."""

    function: str
    file: str
    line: int


def user_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame, from ``frame`` outwards, that is not the simulator's own."""
    while frame is not None and is_ours(frame.f_code):
        frame = frame.f_back
    return frame


def user_entries(traceback: TracebackType | None, files: Iterable[str]) -> list[TracebackType]:
    """Traceback entries in ``files``, innermost first; else the innermost that is not ours."""
    known = set(files)
    found: list[TracebackType] = []
    other: list[TracebackType] = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename in known:
            found.insert(0, traceback)
        elif not is_ours(code):
            other = [traceback]
        traceback = traceback.tb_next
    return found or other


def is_ours(code: CodeType) -> bool:
    """Whether ``code`` belongs to this package rather than to a kernel."""
    return code.co_filename.startswith(_PACKAGE)


def line_text(file: str, line: int) -> str:
    """The stripped source line, from the file or from the notebook's line cache."""
    return linecache.getline(file, line).strip()


def lines_text(lines: Sequence[int]) -> str:
    """``line 7``, or ``lines 5, 6 and 7``."""
    if len(lines) == 1:
        return f"line {lines[0]}"
    return f"lines {', '.join(map(str, lines[:-1]))} and {lines[-1]}"


def dims_text(index: tuple[int, ...], dims: tuple[int, ...], ndim: int) -> str:
    """``index`` written with the dimensions that the launch gave: ``7`` or ``(3,0)``."""
    shown = max(ndim, max((axis + 1 for axis, n in enumerate(dims) if n > 1), default=1))
    return str(index[0]) if shown == 1 else f"({','.join(map(str, index[:shown]))})"
