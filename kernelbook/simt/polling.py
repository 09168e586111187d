"""Notices that a thread polls, and lets it give way: so a spin loop makes progress.

A correct spin loop asks by an atomic, and an atomic that changes nothing, again and again, is one
that asks. After :data:`ATTEMPTS` in a row by one thread, of which two were the same call on the
same element with the same operands and the same old value, the thread gives way to whoever can
run: threads of its block first, then other blocks. ``nanosleep`` does so at once.

Limit: a loop on plain loads is not noticed; it is a race, and the launch's time limit ends it.
"""

from __future__ import annotations

import sys
from typing import Any

from greenlet import getcurrent

from kernelbook.simt.errors import user_frame
from kernelbook.simt.registers import now
from kernelbook.simt.scheduler import Waiter, give_way
from kernelbook.simt.standstill import Poll

ATTEMPTS = 8
_MOST_SEEN = 64  # different calls in a row that change nothing: then it is a search, not a spin


def unchanged(array: Any, index: Any, old: Any, operands: tuple[Any, ...]) -> None:
    """The running thread's atomic has left ``array[index]`` at ``old``: give way if it polls."""
    block = now.block
    assert block is not None
    polls = block.grid.polls
    thread = block.first + now.thread
    if polls.thread != thread:
        polls.thread, polls.count = thread, 1
        if polls.seen:
            polls.seen.clear()
        return
    polls.count += 1
    if polls.count < ATTEMPTS - 1:
        return
    frame = user_frame(sys._getframe(1))
    assert frame is not None
    call = frame.f_code, frame.f_lasti, index, old, operands
    if call not in polls.seen:
        polls.seen.add(call)
        if len(polls.seen) > _MOST_SEEN:
            polls.count = 0
            polls.seen.clear()
        return
    polls.count = 0
    polls.seen.clear()
    give_way(Waiter(getcurrent(), now.thread, frame, Poll(array, index, old)), block)
