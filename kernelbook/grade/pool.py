"""Worker processes that may die over a job without taking the batch with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import get_context
from typing import TypeVar

Key = TypeVar("Key")
Work = TypeVar("Work")
Result = TypeVar("Result")


class Pool:
    """Worker processes that may die: a job that came to nothing yields None instead of raising."""

    def __init__(self, workers: int) -> None:
        # Spawned, not forked: a worker inherits no open socket, lock or CUDA state.
        self.executor = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.executor.shutdown(wait=True, cancel_futures=True)

    def map(
        self, work: Callable[[Work], Result], todo: Mapping[Key, Work]
    ) -> Iterator[tuple[Key, Result | None]]:
        """``(key, result)`` in the order in which they end."""
        futures: dict[Future[Result], Key] = {}
        for key, item in todo.items():
            with suppress(BrokenProcessPool):
                futures[self.executor.submit(work, item)] = key
        for future in as_completed(futures):
            try:
                yield futures[future], future.result()
            except Exception:  # the process died, or the job raised what it should have recorded
                yield futures[future], None
