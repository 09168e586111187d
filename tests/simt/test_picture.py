"""The picture of a launch shows what the trace holds: every access, and nothing else."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
from numba import cuda

from kernelbook.simt import picture

mpl.use("Agg")


@cuda.jit
def reverse(x, out):
    i = cuda.threadIdx.x
    shared = cuda.shared.array(8, np.float32)
    shared[i] = x[cuda.grid(1)]
    cuda.syncthreads()
    out[cuda.grid(1)] = shared[7 - i]


@cuda.jit
def nothing(x, out):
    pass


@cuda.jit
def too_far(x, out):
    i = cuda.grid(1)
    out[i] = x[i]


def points(axis) -> set[tuple[int, int]]:
    """(element, thread) of every mark on one panel."""
    return {
        (round(x), round(y))
        for marks in axis.collections
        for x, y in np.asarray(marks.get_offsets())
    }


def test_accesses_draws_each_array_once_with_every_access() -> None:
    x = np.arange(16, dtype=np.float32)
    figure = picture.accesses(reverse[2, 8], x, np.zeros(16, np.float32))
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles == ["global x [16]", "global out [16]", "shared shared [8], block (0, 0, 0)"]
    diagonal = {(i, i) for i in range(16)}
    assert points(figure.axes[0]) == diagonal
    assert points(figure.axes[1]) == diagonal
    assert points(figure.axes[2]) == {(i, i) for i in range(8)} | {(7 - i, i) for i in range(8)}


def test_accesses_unsolved_kernel_says_so() -> None:
    figure = picture.accesses(nothing[1, 4], np.zeros(4), np.zeros(4))
    assert "does nothing yet" in figure.axes[0].texts[0].get_text()


def test_accesses_failing_kernel_is_drawn_up_to_the_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    x = np.zeros(3, np.float32)
    figure = picture.accesses(too_far[1, 5], x, np.zeros(3, np.float32))
    assert "up to the error" in figure.get_suptitle()
    assert points(figure.axes[0]) == {(0, 0), (1, 1), (2, 2)}
    assert "BoundsError" in capsys.readouterr().out
