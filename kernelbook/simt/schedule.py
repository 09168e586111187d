"""Seeded schedules: the order that a launch takes wherever the programming model leaves it open.

Seed 0 is the natural order: blocks, warps and lanes ascending. Any other seed permutes the blocks
of the grid, the warps of a block and the lanes of a warp when they start, and once more whenever a
barrier or a warp operation lets threads go on. The same seed gives the same run, in any process.

A block's orders are drawn from a few that are made once for each seed and block size: to draw a
fresh permutation at every barrier would cost more than the barrier.

Limit: threads change places only where one of them waits. What two of them do between two waits
runs in one order or the other, never interleaved; races are found from the record instead.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from kernelbook.simt.registers import WARP_SIZE

if TYPE_CHECKING:
    from kernelbook.simt.scheduler import Waiter

T = TypeVar("T")
Pick = Callable[[Sequence[Any]], tuple[Any, ...]]  # all entries of a sequence, permuted
_BITS = 4
_ORDERS = 2**_BITS  # in a table, for a block size; seeds share the tables and draw on their own
_TABLES = 8
_CHUNK = 65536  # blocks permuted at once, so that a huge grid needs no huge list


@dataclass(frozen=True, slots=True)
class Schedule:
    """Which of the possible orders a launch takes. Raises ValueError for a negative seed."""

    seed: int = 0

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ValueError(f"a schedule's seed is 0 (the natural order) or more: {self.seed}")

    def choices(self, threads: int) -> Choices | None:
        """The choices of one launch with ``threads`` threads a block; None for the natural ones."""
        return Choices(self.seed, threads) if self.seed else None


NATURAL = Schedule()


class Choices:
    """The choices of one launch, drawn one after the other: so its state belongs to that launch."""

    def __init__(self, seed: int, threads: int) -> None:
        self._seed = seed
        self._random = random.Random(seed)
        self._last = 0
        self._starts: dict[Pick, Any] = {}
        self._size = threads
        self._threads = _orders(seed % _TABLES, threads)
        self._lanes = _orders(seed % _TABLES, WARP_SIZE)

    def blocks(self, count: int) -> Iterator[int]:
        """The numbers of all blocks, permuted."""
        rng = np.random.default_rng((self._seed, count))
        chunks = range(0, count, _CHUNK)
        for chunk in rng.permutation(len(chunks)).tolist():
            start = chunks[chunk]
            yield from (rng.permutation(min(_CHUNK, count - start)) + start).tolist()

    def start(self, threads: Sequence[T]) -> Sequence[T]:
        """The threads of a block in the order in which they start: warps and lanes permuted."""
        pick = self._another(self._threads)
        known = self._starts.get(pick)
        if known is None:
            known = self._starts[pick] = pick(threads)
        return known

    def released(self, waiters: list[Waiter]) -> Iterable[Waiter]:
        """Threads of a block in the order in which they go on: warps and lanes permuted."""
        if len(waiters) == 1:
            return waiters
        return _permuted(waiters, self._size, self._another(self._threads))

    def lanes(self, lanes: dict[int, Waiter]) -> list[Waiter]:
        """Lanes of one warp in the order in which they go on."""
        places: list[Waiter | None] = [None] * WARP_SIZE
        for lane, waiter in lanes.items():
            places[lane] = waiter
        return list(filter(None, self._another(self._lanes)(places)))

    def runs_ahead(self) -> bool:
        """Whether a warp goes on before other threads of its block, or a block before others."""
        return self._random.random() < 0.5

    def shuffled(self, values: Sequence[T]) -> list[T]:
        """The values in an order of their own."""
        draw = self._random.random
        return [values[n] for _, n in sorted((draw(), n) for n in range(len(values)))]

    def _another(self, orders: tuple[Pick, ...]) -> Pick:
        """An order, another than the last: so threads go on in another order than they came."""
        step = 1 + self._random.getrandbits(_BITS) % (_ORDERS - 1)
        self._last = (self._last + step) % _ORDERS
        return orders[self._last]


def _permuted(waiters: list[Waiter], size: int, pick: Pick) -> Iterator[Waiter]:
    places: list[Waiter | None] = [None] * size
    for waiter in waiters:
        places[waiter.thread] = waiter
    return filter(None, pick(places))


@lru_cache(maxsize=64)  # some 130 KB for each at 1,024 threads
def _orders(table: int, size: int) -> tuple[Pick, ...]:
    """Permutations of a block of ``size`` threads that keep each warp together."""
    if size == 1:
        return (tuple,) * _ORDERS
    rng = np.random.default_rng((table, size))
    warps = -(-size // WARP_SIZE)
    lanes = rng.random((_ORDERS, warps, WARP_SIZE)).argsort(axis=2)
    threads = lanes + WARP_SIZE * np.arange(warps)[:, None]
    order = rng.random((_ORDERS, warps)).argsort(axis=1)
    flat = np.take_along_axis(threads, order[:, :, None], axis=1).reshape(_ORDERS, -1)
    return tuple(operator.itemgetter(*row[row < size].tolist()) for row in flat)
