"""Guard zones: a write past either end of an allocation is seen, whichever way it comes."""

import ctypes
import gc

import numpy as np
import pytest
from numba import cuda

from kernelbook import poison, simt
from kernelbook.simt import BoundsError, guard


def write_byte(array, offset: int) -> None:
    """Write one byte, ``offset`` bytes from the first element, past NumPy's own checks."""
    address = array.__array_interface__["data"][0]
    ctypes.c_uint8.from_address(address + offset).value = 1


@pytest.mark.parametrize("order", ["C", "F"])
def test_guarded_memory_is_an_ordinary_array(order):
    array = guard.guarded((3, 5), np.dtype(np.float64), order, poison.element(np.dtype("f8")))
    assert array.shape == (3, 5)
    assert array.flags[f"{order}_CONTIGUOUS"]
    assert array.__array_interface__["data"][0] % 16 == 0
    assert poison.untouched(array).all()
    array[...] = np.arange(15.0).reshape(3, 5)
    assert array[2].tolist() == [10, 11, 12, 13, 14]
    assert guard.damaged(array) is None


@pytest.mark.parametrize("shape", [0, (), 1, (2, 0, 3), [4]], ids=str)
def test_guarded_any_shape_is_made_and_whole(shape):
    array = guard.guarded(shape, np.dtype(np.int16))
    assert array.shape == np.empty(shape).shape
    assert guard.damaged(array) is None


@pytest.mark.parametrize(
    ("offset", "message"),
    [
        (12, "1 byte behind its end, the nearest 0 bytes away"),
        (12 + guard.ZONE - 1, "1 byte behind its end, the nearest 255 bytes away"),
        (-1, "1 byte before its start, the nearest 0 bytes away"),
        (-guard.ZONE, "1 byte before its start, the nearest 255 bytes away"),
    ],
)
def test_damaged_one_byte_past_either_end_is_found(offset, message):
    array = guard.guarded(3, np.dtype(np.float32))
    write_byte(array, offset)
    assert guard.damaged(array) == message


def test_damaged_by_a_view_with_too_large_a_shape_is_found():
    array = guard.guarded(4, np.dtype(np.int32))
    stray = np.lib.stride_tricks.as_strided(array, (6,), (4,))
    stray[5] = 0
    assert guard.damaged(array) == "4 bytes behind its end, the nearest 4 bytes away"


def test_damaged_sees_through_slices_and_types():
    array = guard.guarded((4, 4), np.dtype(np.int32))
    write_byte(array, array.nbytes)
    assert guard.damaged(array[1:, 2]) is not None
    assert guard.damaged(array.reshape(-1).view(np.int8)) is not None


def test_damaged_every_write_inside_is_none():
    array = guard.guarded(7, np.dtype(np.uint8))
    for offset in range(7):
        write_byte(array, offset)
    assert guard.damaged(array) is None


def test_damaged_ordinary_memory_is_none():
    assert guard.damaged(np.full(600, 1, np.uint8)) is None


def test_mend_restores_the_zones():
    array = guard.guarded(2, np.dtype(np.int32))
    write_byte(array, -3)
    write_byte(array, 9)
    guard.mend(array)
    assert guard.damaged(array) is None


def test_copied_keeps_values_and_order():
    source = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    made = guard.copied(source, "F")
    assert made.flags.f_contiguous
    assert made.tolist() == source.tolist()
    write_byte(made, 48)
    assert guard.damaged(made) is not None


@cuda.jit
def set_first(x):
    x[0] = 1


def test_launch_after_which_a_zone_is_damaged_is_reported_once():
    x = cuda.to_device(np.zeros(3, np.float32))
    write_byte(x.memory, x.nbytes + 4)
    with simt.diagnosis():
        with pytest.raises(BoundsError, match=r"set_first: wrote 1 byte behind its end.*, of x,"):
            set_first[1, 1](x)
        set_first[1, 1](x)
    assert x[0] == 1


def test_launch_without_diagnosis_looks_at_no_zone():
    x = cuda.to_device(np.zeros(3, np.float32))
    write_byte(x.memory, -1)
    with simt.diagnosis(False):
        set_first[1, 1](x)
    assert x[0] == 1


def test_host_array_lies_between_zones_while_a_diagnosed_launch_runs():
    with simt.diagnosis():
        memory, _ = cuda.InOut(np.zeros(3, np.float32)).stage()
    write_byte(memory, memory.nbytes)
    assert guard.damaged(memory) is not None


def test_copied_python_objects_have_no_zones():
    made = guard.copied(np.array([{}, None], object))
    assert made.tolist() == [{}, None]
    assert guard.damaged(made) is None


def test_guarded_memory_that_is_gone_is_forgotten():
    gc.collect()
    before = len(guard._guarded)
    array = guard.guarded(3, np.dtype(np.int8))
    assert len(guard._guarded) == before + 1
    del array
    assert len(guard._guarded) == before
