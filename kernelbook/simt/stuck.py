"""Turns the state of a stopped launch into an error that names threads and source lines.

Called only when something went wrong, so it may be slow: it walks frames, tracebacks and bytecode.
Limit: which ``return`` a thread took is not recorded; the message lists the kernel's early returns.
"""

from __future__ import annotations

import dis
from collections.abc import Iterable
from functools import lru_cache
from math import prod
from types import CodeType, FrameType
from typing import TYPE_CHECKING

from kernelbook.errors import SimulatorError
from kernelbook.simt import device
from kernelbook.simt.advice import python_error
from kernelbook.simt.errors import (
    BarrierError,
    Call,
    DeadlockError,
    KernelError,
    LaunchError,
    WarpError,
    Where,
    dims_text,
    is_ours,
    line_text,
    user_entries,
    user_frame,
)
from kernelbook.simt.registers import WARP_SIZE, now

if TYPE_CHECKING:
    from kernelbook.simt.scheduler import Block, Grid, Waiter, WarpGroup


_MOST_CALLS = 6  # named in a message


def here(frame: FrameType | None, line: int = 0) -> Where:
    """The running thread's place, for an error raised in its own call chain.

    line: names another line of the innermost function than the one that runs.
    """
    block = now.block
    assert block is not None
    calls = _calls(user_frame(frame), block)
    if line and calls:
        calls[0] = Call(calls[0].function, calls[0].file, line)
    return place(block, now.thread, calls)


def kernel_frame(frame: FrameType | None, block: Block) -> FrameType | None:
    """The innermost frame, from ``frame`` outwards, of the kernel or its device functions."""
    while frame is not None and frame.f_code.co_filename not in block.grid.kernel.frozen.files:
        frame = frame.f_back
    return frame


def waiting(block: Block, waiter: Waiter) -> Where:
    """The place at which a parked thread waits."""
    waiter.greenlet.gr_frame  # noqa: B018 (makes the frames of a suspended greenlet readable)
    return place(block, waiter.thread, _calls(waiter.frame, block))


def frames(block: Block, waiter: Waiter) -> list[FrameType]:
    """The frames of a parked thread, from the call that waits out to the kernel's own."""
    waiter.greenlet.gr_frame  # noqa: B018 (makes the frames of a suspended greenlet readable)
    found: list[FrameType] = []
    frame: FrameType | None = waiter.frame
    while frame is not None:
        found.append(frame)
        if frame.f_code is _kernel_code(block):
            break
        frame = frame.f_back
    return found


def standing(block: Block) -> list[str]:
    """Where the threads of ``block`` stand that do not run: at a barrier, or gone."""
    found = []
    if block.at_barrier:
        found.append(f"at the barrier wait {_by_line(block, block.at_barrier)}")
    if block.at_grid_sync:
        found.append(f"at the grid sync wait {_by_line(block, block.at_grid_sync)}")
    for group in block.warp_groups.values():
        found.append(f"in {group.kind} wait {_by_line(block, list(group.lanes.values()))}")
    gone = [thread for thread, left in enumerate(block.left) if left]
    if gone:
        count = "1 thread" if len(gone) == 1 else f"{len(gone)} threads"
        first = "" if len(gone) == 1 else "first "
        found.append(
            f"{count} of the block ({first}{thread_text(block, gone[0])}) left the kernel"
            f"{at_end_or_return(block)}"
        )
    return found


def at_end_or_return(block: Block) -> str:
    """Where threads leave a kernel that has early returns; "" for one that has none."""
    by = _by_return(block)
    return f" at its end or{by[1:]}" if by else ""


def where_raised(error: BaseException, block: Block) -> Where:
    """The running thread's place, from the traceback of an error that has left its greenlet."""
    entries = user_entries(error.__traceback__, block.grid.kernel.frozen.files)
    calls = [
        Call(e.tb_frame.f_code.co_name, e.tb_frame.f_code.co_filename, e.tb_lineno) for e in entries
    ]
    return place(block, now.thread, calls)


def place(block: Block, thread: int, calls: list[Call]) -> Where:
    """The place of ``thread`` (linear index in ``block``); ``calls``: innermost first."""
    inner = calls[0] if calls else Call("", "", 0)
    via = ""
    if len(calls) > 1:
        texts = [f"{_function(call)}, line {call.line}" for call in calls]
        if len(texts) > _MOST_CALLS:  # a recursion: how it began and where it is now
            texts[2:-2] = [f"{len(texts) - 4:,} more calls"]
        via = f"in {', called from '.join(texts)}"
    return Where(
        kernel=block.grid.kernel.name,
        block=block_text(block),
        thread=thread_text(block, thread),
        line=inner.line,
        text=line_text(inner.file, inner.line),
        via=via,
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
    where = where_raised(error, block)
    if isinstance(error, KernelError):
        wrapped = KernelError(where.says(str(error)))
    else:
        entries = user_entries(error.__traceback__, grid.kernel.frozen.files)
        text, advice = python_error(error, entries[0].tb_frame if entries else None)
        stop = "" if text.endswith("?") else "."
        wrapped = KernelError(where.says(f"{name}: {text}{stop}", advice))
        wrapped.__cause__ = error
    wrapped.placed = True  # type: ignore[attr-defined]
    return wrapped


def returned_value(block: Block, thread: int) -> KernelError:
    """The error for a thread whose kernel returned something."""
    code = _kernel_code(block)
    lines = sorted(_value_returns(code))
    calls = [Call(code.co_name, code.co_filename, lines[0])] if lines else []
    where = place(block, thread, calls)
    more = f" (also on line {' and '.join(map(str, lines[1:]))})" if lines[1:] else ""
    error = KernelError(
        where.says(f"returns a value{more}", "A kernel returns nothing: write it into an array.")
    )
    error.placed = True  # type: ignore[attr-defined]
    return error


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


def require_early_return(block: Block) -> None:
    """Raise :class:`BarrierError` when threads have left ``block``, not by an early return.

    The barrier that the rest wait at does not wait for them. A ``return`` before it is fine; a
    thread that came to the end of the kernel has passed it by, in a branch or a loop.
    """
    if not _early_returns(_kernel_code(block)):
        raise _barrier_error(block)


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
    return _grid_in_block_error(block)


def grid_error(block: Block, finished: int) -> SimulatorError:
    """Why blocks that wait for the whole grid can't go on: ``finished`` others have returned."""
    line = _line(block, block.at_grid_sync[0])
    count = len(block.at_grid_sync)
    return DeadlockError(
        f"{_head(block)}: {count} threads wait at the grid sync on {line}, which "
        f"{finished} {'block' if finished == 1 else 'blocks'} of the grid never reached"
        f"{_by_return(block)}. "
        "Every thread of every block must reach it: move it out of the branch."
        + _quote(block.at_grid_sync)
    )


def _barrier_error(block: Block) -> BarrierError:
    waiters = block.at_barrier
    return BarrierError(
        f"{_head(block)}: {len(waiters)} of {block.size} threads reached the barrier on "
        f"{_line(block, waiters[0])}; {_left_text(block)}. "
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
        f"{_head(block)}, warp {warp}: {group.kind} on {_line(block, first)} waits for "
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
        return how_left(block)
    for waiter in block.at_barrier:
        if waiter.thread == thread:
            return f"at the barrier on {_line(block, waiter)}"
    for other in block.warp_groups.values():
        for waiter in other.lanes.values():
            if waiter.thread == thread and other is not group:
                mask = f" with mask {other.mask:#010x}"
                return f"in {other.kind} on {_line(block, waiter)}{mask}"
    return "at the grid sync"


def _head(block: Block) -> str:
    return f"{block.grid.kernel.name}, block {block_text(block)}"


def _by_line(block: Block, waiters: list[Waiter]) -> str:
    lines: dict[tuple[int, str], list[int]] = {}
    for waiter in waiters:
        key = (waiter.frame.f_lineno or 0, _line(block, waiter))
        lines.setdefault(key, []).append(waiter.thread)
    return ", ".join(
        f"{len(threads)} on {line} (first thread {thread_text(block, min(threads))})"
        for (_, line), threads in sorted(lines.items())
    )


def _left_text(block: Block) -> str:
    gone = [thread for thread, left in enumerate(block.left) if left]
    count = "1 thread" if len(gone) == 1 else f"{len(gone)} threads"
    which = thread_text(block, gone[0])
    if len(gone) > 1:
        which = f"first {which}"
    return f"{count} ({which}) left the kernel without passing it{_by_return(block)}"


def how_left(block: Block) -> str:
    """How a lane that has returned missed a warp operation."""
    how = _by_return(block) or " (it reached the end of the kernel)"
    return f"left without making the call{how}"


def _by_return(block: Block) -> str:
    returns = sorted(_early_returns(_kernel_code(block)))
    return f", by the return on line {' or '.join(map(str, returns))}" if returns else ""


def _calls(frame: FrameType | None, block: Block) -> list[Call]:
    """The way from ``frame`` out to the kernel itself, innermost first."""
    calls: list[Call] = []
    kernel = _kernel_code(block)
    while frame is not None:
        code = frame.f_code
        if not is_ours(code):
            calls.append(Call(code.co_name, code.co_filename, frame.f_lineno or 0))
        if code is kernel:
            break
        frame = frame.f_back
    return calls


def _function(call: Call) -> str:
    return "a lambda" if call.function == "<lambda>" else call.function


def _line(block: Block, waiter: Waiter) -> str:
    """``line 7``, or ``line 7 of warp_sum`` in a device function."""
    code = waiter.frame.f_code
    line = f"line {waiter.frame.f_lineno}"
    return line if code is _kernel_code(block) else f"{line} of {code.co_name}"


def _value_returns(code: CodeType) -> set[int]:
    """Lines of the returns that give something other than a plain None."""
    lines: set[int] = set()
    before: dis.Instruction | None = None
    for instruction in dis.get_instructions(code):
        line = instruction.positions.lineno if instruction.positions else None
        nothing = before is not None and before.opname == "LOAD_CONST" and before.argval is None
        if instruction.opname == "RETURN_CONST":
            nothing = instruction.argval is None
        if instruction.opname in ("RETURN_VALUE", "RETURN_CONST") and line and not nothing:
            lines.add(line)
        if instruction.opname != "CACHE":
            before = instruction
    return lines


def _kernel_code(block: Block) -> CodeType:
    code: CodeType = block.grid.function.__code__
    return code


@lru_cache(maxsize=256)
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
