"""Warp-wide operations: shuffles, votes, match, ``syncwarp``.

Lanes that call an operation with the same mask form a group; the last of them computes everybody's
result. As in PTX, an operation waits for the lanes of its mask that have not returned; a lane that
has returned or never existed takes no part in a vote. To *read* from it in a shuffle has no defined
value on a GPU, so here it is an error.

Source: PTX ISA, ``shfl.sync``, ``vote.sync``, ``match.sync``, ``bar.warp.sync``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from greenlet import getcurrent

from kernelbook.simt import stuck
from kernelbook.simt.errors import KernelError, WarpError, user_frame
from kernelbook.simt.registers import WARP_SIZE, lane, now, outside
from kernelbook.simt.scheduler import Waiter, WarpGroup, mask_of, wait

FULL_MASK = 0xFFFFFFFF
_LAST = WARP_SIZE - 1
Source = Callable[[int, int], int]  # (own lane, operand) -> lane to read from


def shfl_sync(mask: Any, value: Any, src_lane: Any) -> Any:
    """The ``value`` of lane ``src_lane`` (taken modulo 32)."""
    return _join("shfl_sync", mask, (value, int(src_lane)), _shuffle(_from_lane))


def shfl_up_sync(mask: Any, value: Any, delta: Any) -> Any:
    """The ``value`` of the lane ``delta`` below; the own one where there is none."""
    return _join("shfl_up_sync", mask, (value, int(delta)), _shuffle(_from_below))


def shfl_down_sync(mask: Any, value: Any, delta: Any) -> Any:
    """The ``value`` of the lane ``delta`` above; the own one where there is none."""
    return _join("shfl_down_sync", mask, (value, int(delta)), _shuffle(_from_above))


def shfl_xor_sync(mask: Any, value: Any, lane_mask: Any) -> Any:
    """The ``value`` of lane ``laneid ^ lane_mask``; the own one where there is none."""
    return _join("shfl_xor_sync", mask, (value, int(lane_mask)), _shuffle(_from_partner))


def all_sync(mask: Any, predicate: Any) -> bool:
    """Whether ``predicate`` is true in all lanes of ``mask``."""
    return bool(_join("all_sync", mask, bool(predicate), _all))


def any_sync(mask: Any, predicate: Any) -> bool:
    """Whether ``predicate`` is true in any lane of ``mask``."""
    return bool(_join("any_sync", mask, bool(predicate), _any))


def eq_sync(mask: Any, predicate: Any) -> bool:
    """Whether ``predicate`` has one truth value in all lanes of ``mask``."""
    return bool(_join("eq_sync", mask, bool(predicate), _equal))


def ballot_sync(mask: Any, predicate: Any) -> int:
    """Mask of the lanes in ``mask`` whose ``predicate`` is true, a signed 32-bit integer."""
    return _signed(_join("ballot_sync", mask, bool(predicate), _ballot))


def match_any_sync(mask: Any, value: Any) -> int:
    """Mask of the lanes in ``mask`` whose ``value`` has the same bits as this lane's (signed)."""
    return _signed(_join("match_any_sync", mask, value, _match_any))


def match_all_sync(mask: Any, value: Any) -> tuple[int, bool]:
    """``(mask, True)`` when all lanes of ``mask`` have one ``value``, else ``(0, False)``."""
    found, same = _join("match_all_sync", mask, value, _match_all)
    return _signed(found), same


def syncwarp(mask: Any = FULL_MASK) -> None:
    """Wait for the lanes of ``mask`` that have not returned."""
    _join("syncwarp", mask, None, _nothing)


def activemask() -> int:
    """Mask of the lanes of this warp that arrive at this call together."""
    block = now.block
    if block is None:
        raise outside("activemask")
    waiter = Waiter(getcurrent(), now.thread, sys._getframe(1))
    block.asking_active.append(waiter)
    return int(wait(waiter, block))


def lanemask_lt() -> int:
    """Mask of all lanes with a lower index than this one."""
    return (1 << lane()) - 1


def _join(kind: str, mask: Any, value: Any, finish: Callable[[WarpGroup, int], None]) -> Any:
    block = now.block
    if block is None:
        raise outside(kind)
    thread = now.thread
    warp, me = divmod(thread, WARP_SIZE)
    mask = int(mask) & FULL_MASK
    frame = sys._getframe(2)
    waiter = Waiter(getcurrent(), thread, frame, value)
    if not mask >> me & 1:
        raise _error(f"lane {me} calls {kind} with mask {mask:#010x}, which does not name it")
    group = block.warp_groups.get((warp, mask))
    if group is None:
        group = WarpGroup(kind, mask, mask.bit_count(), waiter.site, finish)
        block.warp_groups[warp, mask] = group
    elif kind != group.kind or (waiter.site != group.site and kind != "syncwarp"):
        raise _error(_mismatch(kind, me, group))
    group.lanes[me] = waiter
    if len(group.lanes) < group.size and not (
        (warp == block.broken_warp or block.left.find(1, thread - me, thread - me + WARP_SIZE) >= 0)
        and block.nobody_missing(warp, group)
    ):
        return wait(waiter, block)
    if block.complete((warp, mask), group, running=me):
        return waiter.result
    return wait(waiter, block)


def _signed(mask: int) -> int:
    """As Numba types it: int32, so that all 32 lanes are -1."""
    return mask - (1 << 32) if mask >> 31 else mask


def _mismatch(kind: str, me: int, group: WarpGroup) -> str:
    other, waiter = next(iter(group.lanes.items()))
    return (
        f"lane {me} calls {kind} while lane {other} waits in {group.kind} on line "
        f"{waiter.frame.f_lineno} with the same mask {group.mask:#010x}"
    )


def _error(what: str) -> WarpError:
    where = stuck.here(user_frame(sys._getframe(1)))
    advice = (
        "All lanes in the mask must make the same call: move it out of the branch, or name only "
        "the lanes that take part."
    )
    return WarpError(where.says(what, advice))


def _shuffle(source: Source) -> Callable[[WarpGroup, int], None]:
    finish = _SHUFFLES.get(source)
    if finish is None:
        finish = _SHUFFLES[source] = _make_shuffle(source)
    return finish


_SHUFFLES: dict[Source, Callable[[WarpGroup, int], None]] = {}


def _make_shuffle(source: Source) -> Callable[[WarpGroup, int], None]:
    def finish(group: WarpGroup, gone: int) -> None:
        lanes = group.lanes
        for me, waiter in lanes.items():
            value, operand = waiter.value
            read = source(me, operand)
            if not 0 <= read <= _LAST:
                waiter.result = value
            elif read in lanes:
                waiter.result = lanes[read].value[0]
            else:
                raise _absent(group, me, read, gone, waiter)

    return finish


def _absent(group: WarpGroup, me: int, read: int, gone: int, waiter: Waiter) -> WarpError:
    block = now.block
    assert block is not None
    where = stuck.waiting(block, waiter)
    thread = waiter.thread - me + read
    if thread >= block.size:
        why = f"does not exist: the block has {block.size} threads"
    elif gone >> read & 1:
        why = stuck.how_left(block)
    else:
        why = f"is not in the mask {group.mask:#010x}"
    return WarpError(
        where.says(
            f"lane {me} reads from lane {read} in {group.kind}, but lane {read} {why}; "
            "on a GPU the value is undefined",
            "Let every lane that is read take part, with a neutral value where it has no work.",
        )
    )


def _from_lane(me: int, src_lane: int) -> int:
    return src_lane & _LAST


def _from_below(me: int, delta: int) -> int:
    return me - (delta & 0xFFFFFFFF if delta < 0 else delta)


def _from_above(me: int, delta: int) -> int:
    return me + (delta & 0xFFFFFFFF if delta < 0 else delta)


def _from_partner(me: int, lane_mask: int) -> int:
    return me ^ lane_mask


def _nothing(group: WarpGroup, gone: int) -> None:
    pass


def _to_all(group: WarpGroup, result: Any) -> None:
    for waiter in group.lanes.values():
        waiter.result = result


def _all(group: WarpGroup, gone: int) -> None:
    _to_all(group, all(w.value for w in group.lanes.values()))


def _any(group: WarpGroup, gone: int) -> None:
    _to_all(group, any(w.value for w in group.lanes.values()))


def _equal(group: WarpGroup, gone: int) -> None:
    _to_all(group, len({w.value for w in group.lanes.values()}) == 1)


def _ballot(group: WarpGroup, gone: int) -> None:
    _to_all(group, mask_of(n for n, w in group.lanes.items() if w.value))


def _match_any(group: WarpGroup, gone: int) -> None:
    same: dict[Any, list[int]] = {}
    for number, waiter in group.lanes.items():
        same.setdefault(_bits(waiter.value), []).append(number)
    for numbers in same.values():
        mask = mask_of(numbers)
        for number in numbers:
            group.lanes[number].result = mask


def _match_all(group: WarpGroup, gone: int) -> None:
    values = {_bits(w.value) for w in group.lanes.values()}
    _to_all(group, (mask_of(group.lanes), True) if len(values) == 1 else (0, False))


def _bits(value: Any) -> Any:
    """What match compares: the bit pattern, so NaN equals itself and 0.0 differs from -0.0."""
    if isinstance(value, (float, np.floating)):
        return np.asarray(value).tobytes()
    if isinstance(value, (int, np.integer, np.bool_)):
        return int(value)
    raise KernelError(f"match compares numbers, not {type(value).__name__}")
