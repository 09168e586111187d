"""Turns the state of a stopped launch into an error that names threads and source lines.

Called only when something went wrong, so it may be slow: it walks frames, tracebacks and bytecode.
Limit: which ``return`` a thread took is not recorded; the message lists the kernel's early returns.
"""

from __future__ import annotations

import dis
from collections.abc import Iterable
from math import prod
from types import CodeType, FrameType
from typing import TYPE_CHECKING

from kernelbook.errors import SimulatorError
from kernelbook.simt import device
from kernelbook.simt.errors import (
    BarrierError,
    DeadlockError,
    KernelError,
    LaunchError,
    WarpError,
    Where,
    dims_text,
    line_text,
    user_frame,
    user_line,
)
from kernelbook.simt.registers import WARP_SIZE, now

if TYPE_CHECKING:
    from kernelbook.simt.scheduler import Block, Grid, Waiter, WarpGroup

_ADVICE = {
    ZeroDivisionError: "Compiled code does not stop here: it gives 0 for integers, inf or nan "
    "for floats. Guard the division.",
    NameError: "Define the name before the kernel is launched.",
    AttributeError: "The simulator offers what Numba offers inside a kernel; check the name.",
}


def here(frame: FrameType | None) -> Where:
    """The running thread's place, for an error raised in its own call chain."""
    block = now.block
    assert block is not None
    at = user_frame(frame)
    if at is None:
        return place(block, now.thread, "", 0)
    return place(block, now.thread, at.f_code.co_filename, at.f_lineno or 0)


def place(block: Block, thread: int, file: str, line: int) -> Where:
    """The place of ``thread`` (linear index in ``block``) at a known line."""
    return Where(
        kernel=block.grid.kernel.name,
        block=block_text(block),
        thread=thread_text(block, thread),
        line=line,
        text=line_text(file, line),
    )


def block_text(block: Block) -> str:
    grid = block.grid
    return dims_text(block.index, grid.grid_dim, grid.kernel.grid_ndim)


def thread_text(block: Block, thread: int) -> str:
    """The thread's index with as many axes as the launch gave to a block."""
    grid = block.grid
    return dims_text(grid.coordinates[thread][1:], grid.block_dim, grid.kernel.block_ndim)


def explain(error: Exception, grid: Grid) -> Exception:
    """The same error if it is ours and complete, else a :class:`KernelError` that says where."""
    block, name = now.block, type(error).__name__
    if isinstance(error, SimulatorError) and not isinstance(error, KernelError):
        return error
    if block is None or getattr(error, "placed", False):
        return error
    found = user_line(error.__traceback__, grid.kernel.frozen.files)
    file, line = found or ("", 0)
    where = place(block, now.thread, file, line)
    if isinstance(error, KernelError):
        wrapped = KernelError(where.says(str(error)))
    else:
        advice = next((text for kind, text in _ADVICE.items() if isinstance(error, kind)), "")
        wrapped = KernelError(where.says(f"{name}: {error}.", advice))
        wrapped.__cause__ = error
    wrapped.placed = True  # type: ignore[attr-defined]
    return wrapped


def require_one_site(block: Block) -> None:
    """Raise :class:`BarrierError` when the threads of ``block`` wait at different barriers."""
    first = block.at_barrier[0].frame
    code, offset = first.f_code, first.f_lasti
    if any(w.frame.f_code is not code or w.frame.f_lasti != offset for w in block.at_barrier):
        raise BarrierError(
            f"{_head(block)}: the threads wait at different barriers: "
            f"{_by_line(block, block.at_barrier)}. "
            "Every thread of a block must reach the same barrier: move it out of the branch."
            + _quote(block.at_barrier)
        )


def require_resident(block: Block, waiting: int) -> None:
    """Raise LaunchError when more blocks wait for the grid than the device can hold at once."""
    limit = device.resident_blocks(block.size)
    if waiting > limit:
        total = prod(block.grid.grid_dim)
        raise LaunchError(
            f"{block.grid.kernel.name}: a grid of {total:,} blocks of {block.size} threads can't "
            f"sync: all blocks must be on the device at once, which holds {limit:,} of them. "
            "Launch fewer blocks and let each thread do more (a grid-stride loop)."
            + _quote(block.at_grid_sync)
        )


def block_error(block: Block) -> SimulatorError:
    """Why no thread of ``block`` can go on."""
    if block.warp_groups:
        return _warp_error(block)
    if block.at_grid_sync:
        return _grid_in_block_error(block)
    return _barrier_error(block)


def grid_error(block: Block, finished: int) -> SimulatorError:
    """Why blocks that wait for the whole grid can't go on: ``finished`` others have returned."""
    line = block.at_grid_sync[0].frame.f_lineno
    waiting = len(block.at_grid_sync)
    return DeadlockError(
        f"{_head(block)}: {waiting} threads wait at the grid sync on line {line}, which "
        f"{finished} {'block' if finished == 1 else 'blocks'} of the grid never reached. "
        "Every thread of every block must reach it: move it out of the branch."
        + _quote(block.at_grid_sync)
    )


def _barrier_error(block: Block) -> BarrierError:
    waiters = block.at_barrier
    lines = {w.frame.f_lineno for w in waiters}
    reached = f"{len(waiters)} of {block.size} threads reached the barrier on "
    if len(lines) == 1:
        reached += f"line {lines.pop()}"
    else:
        reached = f"the threads wait at different barriers: {_by_line(block, waiters)}"
    return BarrierError(
        f"{_head(block)}: {reached}; {_left_text(block)}. "
        "A barrier is for all threads of the block: move it out of the branch or loop, and let "
        "threads with no work skip the work, not the barrier." + _quote(waiters)
    )


def _grid_in_block_error(block: Block) -> DeadlockError:
    parts = [f"{_by_line(block, block.at_grid_sync)} (grid sync)"]
    if block.at_barrier:
        parts.append(f"{_by_line(block, block.at_barrier)} (block barrier)")
    if any(block.left):
        parts.append(_left_text(block))
    return DeadlockError(
        f"{_head(block)}: the threads wait for each other: {'; '.join(parts)}. "
        "Every thread of every block must reach the grid sync." + _quote(block.at_grid_sync)
    )


def _warp_error(block: Block) -> WarpError:
    (warp, _), group = next(iter(block.warp_groups.items()))
    missing = [n for n in range(WARP_SIZE) if group.mask >> n & 1 and n not in group.lanes]
    first = next(iter(group.lanes.values()))
    fates = "; ".join(_fates(block, warp, missing, group))
    return WarpError(
        f"{_head(block)}, warp {warp}: {group.kind} on line {first.frame.f_lineno} waits for "
        f"{_ranges(missing, 'lane')}, named in its mask {group.mask:#010x}: {fates}. "
        "All lanes in the mask must make the same call: move it out of the branch, or name only "
        "the lanes that take part." + _quote([first])
    )


def _fates(block: Block, warp: int, lanes: list[int], group: WarpGroup) -> Iterable[str]:
    elsewhere: dict[str, list[int]] = {}
    for lane in lanes:
        elsewhere.setdefault(_fate(block, warp * WARP_SIZE + lane, group), []).append(lane)
    return (f"{_ranges(some, 'lane')} {fate}" for fate, some in elsewhere.items())


def _fate(block: Block, thread: int, group: WarpGroup) -> str:
    if thread >= block.size:
        return f"not in the block of {block.size} threads"
    if block.left[thread]:
        return "returned"
    for waiter in block.at_barrier:
        if waiter.thread == thread:
            return f"at the barrier on line {waiter.frame.f_lineno}"
    for other in block.warp_groups.values():
        for waiter in other.lanes.values():
            if waiter.thread == thread and other is not group:
                mask = f" with mask {other.mask:#010x}"
                return f"in {other.kind} on line {waiter.frame.f_lineno}{mask}"
    return "at the grid sync"


def _head(block: Block) -> str:
    return f"{block.grid.kernel.name}, block {block_text(block)}"


def _by_line(block: Block, waiters: list[Waiter]) -> str:
    lines: dict[int, list[int]] = {}
    for waiter in waiters:
        lines.setdefault(waiter.frame.f_lineno or 0, []).append(waiter.thread)
    return ", ".join(
        f"{len(threads)} on line {line} (first thread {thread_text(block, min(threads))})"
        for line, threads in sorted(lines.items())
    )


def _left_text(block: Block) -> str:
    gone = [thread for thread, left in enumerate(block.left) if left]
    if not gone:
        return "no thread has left"
    count = "1 thread" if len(gone) == 1 else f"{len(gone)} threads"
    which = thread_text(block, gone[0])
    if len(gone) > 1:
        which = f"first {which}"
    returns = sorted(_early_returns(_kernel_code(block)))
    how = f", by the return on line {' or '.join(map(str, returns))}" if returns else ""
    return f"{count} ({which}) left the kernel without passing it{how}"


def _kernel_code(block: Block) -> CodeType:
    code: CodeType = block.grid.function.__code__
    return code


def _early_returns(code: CodeType) -> set[int]:
    """Lines that hold a ``return`` before the kernel's last line."""
    last = max((line for _, _, line in code.co_lines() if line), default=0)
    lines: set[int] = set()
    for instruction in dis.get_instructions(code):
        line = instruction.positions.lineno if instruction.positions else None
        if instruction.opname in ("RETURN_VALUE", "RETURN_CONST") and line and line < last:
            lines.add(line)
    return {line for line in lines if "return" in line_text(code.co_filename, line)}


def _ranges(numbers: list[int], noun: str) -> str:
    """``lane 3`` or ``lanes 4-7, 9``."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    text = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
    return f"{noun}{'' if len(numbers) == 1 else 's'} {text}"


def _quote(waiters: list[Waiter]) -> str:
    """The source lines at which ``waiters`` wait, one quoted line each."""
    seen: dict[int, str] = {}
    for waiter in waiters:
        line = waiter.frame.f_lineno or 0
        seen.setdefault(line, line_text(waiter.frame.f_code.co_filename, line))
    return "".join(f"\n    {line} | {text}" for line, text in sorted(seen.items()) if text)
