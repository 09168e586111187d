"""A time limit on launches, so that a loop that never ends becomes a message.

The limit counts processor time, by a timer of the process whose signal raises the error inside the
running thread of the kernel: it costs a launch two system calls and a loop nothing. Default 10 s;
the environment variable KERNELBOOK_LAUNCH_SECONDS changes it, 0 lifts it.

Limit: signals reach the main thread only, so a launch from another thread has no limit; nor has one
where somebody else uses the timer, or where the system has none.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from greenlet import getcurrent

from kernelbook.errors import SimulatorError
from kernelbook.simt import stuck
from kernelbook.simt.errors import LaunchError, LaunchInterrupted, TimeLimitError
from kernelbook.simt.loops import awaited_load, loop_around
from kernelbook.simt.registers import now

if TYPE_CHECKING:
    from kernelbook.simt.scheduler import Block

SECONDS = 10.0
VARIABLE = "KERNELBOOK_LAUNCH_SECONDS"
_AGAIN_SECONDS = 0.02  # between attempts while the signal finds no thread of the kernel running
_LOG_SECONDS = 0.1  # between looks at the size of a log: some 300,000 rows


def seconds() -> float:
    """The limit in seconds of processor time; 0 for none. Raises LaunchError for no number."""
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return SECONDS
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise LaunchError(
            f"the environment variable {VARIABLE} is {text!r}: it holds a number of seconds, "
            "or 0 for no limit"
        )
    return value


@contextmanager
def time_limit() -> Iterator[None]:
    """Raise :class:`TimeLimitError` in the launch that runs inside when it takes too long."""
    limit = seconds()
    if not limit or not _free():
        yield
        return

    end = time.process_time() + limit
    log, ringing = now.log, False

    def ring(number: int, frame: FrameType | None) -> None:
        nonlocal ringing
        if ringing:
            return  # this ring came while an earlier one is still being answered
        ringing = True
        try:
            if log is not None:
                log.compact()
                if time.process_time() < end:
                    return
            block = now.block
            if block is None or now.thread < 0 or getcurrent() is block.grid.hub:
                return  # between two threads, or the launch is over: the timer rings again
            at = stuck.kernel_frame(frame, block)
            if at is not None:
                raise _too_long(block, at, limit)
        finally:
            ringing = False

    signal.signal(signal.SIGVTALRM, ring)
    try:
        first, again = limit, _AGAIN_SECONDS
        if log is not None:
            first = again = min(limit, _LOG_SECONDS)
        signal.setitimer(signal.ITIMER_VIRTUAL, first, again)
        yield
    finally:
        # In this order: no signal may come once the handler is no longer ours.
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL)


def interrupted(error: BaseException, block: Block | None) -> LaunchInterrupted:
    """The keyboard's interrupt with the place in the kernel instead of the simulator's frames."""
    where = stuck.where_raised(error, block) if block is not None and now.thread >= 0 else None
    if where is None or not where.line:  # between two threads
        return LaunchInterrupted("the launch was interrupted; its results were not copied back.")
    return LaunchInterrupted(where.says("interrupted; nothing was copied back"))


def _free() -> bool:
    """Whether this launch may use the timer."""
    return (
        hasattr(signal, "setitimer")
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGVTALRM) is signal.SIG_DFL
        and signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
    )


def _too_long(block: Block, frame: FrameType, limit: float) -> SimulatorError:
    loop = loop_around(frame.f_code.co_filename, frame.f_lineno or 0)
    what = f"still running after {limit:g} s"
    total = block.grid.number_of_blocks
    done = block.grid.started - 1 - block.grid.waiting
    progress = (
        f"{done:,} of {total:,} blocks are done. The simulator runs one thread after the other: "
        f"launch fewer, or set {VARIABLE} higher"
    )
    if not loop:
        return TimeLimitError(stuck.here(frame).says(what, progress))
    element = awaited_load(frame)
    if element:
        name, value = element
        array, _, index = name[:-1].partition("[")
        return TimeLimitError(
            stuck.here(frame, line=loop.lineno).says(
                f"{what}: waits for {name} to change from {value}",
                "A plain load in a loop waits for ever: no other thread runs meanwhile, and a "
                "compiler may load once only. Let an atomic read it: "
                f"cuda.atomic.add({array}, {_as_index(index)}, 0)",
            )
        )
    advice = "Does the loop on this line ever end?"
    if done:
        advice += f" If it does, the launch is too large: {progress}"
    return TimeLimitError(stuck.here(frame, line=loop.lineno).says(what, advice))


def _as_index(index: str) -> str:
    return f"({index})" if "," in index else index
