"""Reads of memory that nobody has written."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from recordings import Builder

from kernelbook import simt
from kernelbook.simt.verdict import first_defect

SOURCE = """
def kernel(x, out):
    mine[0] = x[t]
    out[t] = mine[0]
    cuda.atomic.add(mine, 0, 1)
"""


def launch(space, written=None, dtype=np.float32):
    made = Builder(SOURCE, 2, 32)
    array = made.array("mine", 8, dtype, space)
    made.allocations[array] = dataclasses.replace(made.allocations[array], written=written)
    return made, array


def test_unwritten_shared_read_names_the_line_and_the_advice():
    made, mine = launch("shared")
    made.store(0, mine, 0, 2)
    row = made.load(0, mine, 1, 3)
    error = first_defect(made.recording())
    assert isinstance(error, simt.UninitialisedError)
    assert str(error) == (
        "kernel, block 0, thread 0, line 3: reads mine[1], which no thread has written. Shared "
        "memory holds no values at first: store into all of it that is read, and put "
        "cuda.syncthreads() before the first read.\n"
        "    3 | out[t] = mine[0]"
    )
    assert (error.row, error.element) == (row, "mine[1]")


@pytest.mark.parametrize("space", ["shared", "local", "global"])
def test_unwritten_read_in_each_space_is_reported(space):
    written = np.zeros(32, np.bool_) if space == "global" else None
    made, mine = launch(space, written)
    made.load(0, mine, 0, 3)
    assert isinstance(first_defect(made.recording()), simt.UninitialisedError)


@pytest.mark.parametrize("space", ["global", "const"])
def test_read_of_initialised_memory_is_allowed(space):
    made, mine = launch(space)
    made.load(0, mine, 0, 3)
    assert first_defect(made.recording()) is None


def test_read_of_the_initialised_half_is_allowed_and_of_the_other_reported():
    made, mine = launch("global", np.arange(32) < 16)
    made.load(0, mine, 3, 3)
    assert first_defect(made.recording()) is None
    made.load(0, mine, 4, 3)
    assert first_defect(made.recording()).element == "mine[4]"


def test_read_of_an_element_half_initialised_is_reported():
    made, mine = launch("global", np.arange(32) < 18)
    made.load(0, mine, 3, 3)
    made.load(0, mine, 4, 3)
    assert first_defect(made.recording()).element == "mine[4]"


def test_read_after_a_store_is_allowed():
    made, mine = launch("shared")
    made.store(0, mine, 0, 2)
    made.load(0, mine, 0, 3)
    assert first_defect(made.recording()) is None


def test_store_after_the_read_is_named():
    made, mine = launch("shared")
    made.load(0, mine, 0, 3)
    made.sync()
    made.store(8, mine, 0, 2)
    error = first_defect(made.recording())
    assert isinstance(error, simt.UninitialisedError)
    assert "no thread has written; thread 8 does so later, on line 2" in str(error)
    assert "\n    2 | mine[0] = x[t]\n    3 | out[t] = mine[0]" in str(error)


def test_atomic_on_unwritten_memory_is_reported_and_does_not_write():
    made, mine = launch("shared")
    made.atomic(0, mine, 0, 4)
    error = first_defect(made.recording())
    assert isinstance(error, simt.UninitialisedError)
    assert "line 4: atomic on mine[0], which no thread has written" in str(error)
    made, mine = launch("shared")
    made.store(0, mine, 1, 2)
    made.atomic(0, mine, 0, 4)
    made.load(0, mine, 0, 3)
    assert first_defect(made.recording()).row == 1


def test_read_of_half_a_word_that_was_stored_is_allowed_and_of_all_reported():
    made, mine = launch("shared")
    base = made.allocations[mine].address
    made._row(1, 0, 2, base, 2, mine)
    made._row(0, 0, 3, base, 2, mine)
    assert first_defect(made.recording()) is None
    row = made._row(0, 0, 3, base, 4, mine)
    assert first_defect(made.recording()).row == row


def test_unwritten_read_before_a_race_comes_first():
    made, mine = launch("shared")
    made.load(0, mine, 5, 3)
    made.store(0, mine, 0, 2)
    made.store(1, mine, 0, 2)
    assert isinstance(first_defect(made.recording()), simt.UninitialisedError)


def test_race_before_an_unwritten_read_comes_first():
    made, mine = launch("shared")
    made.store(0, mine, 0, 2)
    made.store(1, mine, 0, 2)
    made.load(0, mine, 5, 3)
    assert isinstance(first_defect(made.recording()), simt.RaceError)


def test_kernel_that_reads_its_fresh_output_is_reported():
    from numba import cuda

    @cuda.jit
    def accumulate(x, out):
        out[cuda.threadIdx.x] += x[cuda.threadIdx.x]

    x = np.ones(8, np.float32)
    out = cuda.device_array(8, np.float32)
    with simt.diagnosis(), pytest.raises(simt.UninitialisedError, match=r"reads out\[\d\]"):
        accumulate[1, 8](x, out)
