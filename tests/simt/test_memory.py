"""Arrays inside a kernel: bounds, views, attributes."""

import numpy as np
import pytest
from numba import cuda

from kernelbook import simt
from kernelbook.simt import BoundsError, KernelError, LaunchError


@cuda.jit
def read(x, at, out):
    out[0] = x[at]


@cuda.jit
def write(x, at, value):
    x[at] = value


@cuda.jit
def read2(x, i, j, out):
    out[0] = x[i, j]


@cuda.jit
def write2(x, i, j, value):
    x[i, j] = value


@cuda.jit
def read3(x, i, j, k, out):
    out[0] = x[i, j, k]


@cuda.jit
def add3(x, i, j, k):
    x[i, j, k] += 1


TYPES = ["int8", "uint32", "int64", "float16", "float32", "float64", "bool", "complex64"]


@pytest.mark.parametrize("dtype", TYPES)
def test_element_in_bounds_is_read_and_written(dtype):
    x, out = np.zeros(3, dtype), np.zeros(1, dtype)
    write[1, 1](x, 2, 1)
    read[1, 1](x, 2, out)
    assert x.tolist() == [0, 0, 1]
    assert out[0] == 1
    x2 = np.zeros((2, 3), dtype)
    write2[1, 1](x2, 1, 2, 1)
    read2[1, 1](x2, 1, 2, out)
    assert x2[1, 2] == x2.sum() == out[0]


@pytest.mark.parametrize("dtype", ["int32", "float32", "int64"])
@pytest.mark.parametrize("at", [-1, -3, 3, 2**40])
def test_vector_index_outside_is_reported(dtype, at):
    x = np.zeros(3, dtype)
    with pytest.raises(BoundsError, match=rf"reads x\[{at}\], size 3\."):
        read[1, 1](x, at, np.zeros(1, dtype))
    with pytest.raises(BoundsError, match=rf"writes x\[{at}\], size 3\."):
        write[1, 1](x, at, 1)


@pytest.mark.parametrize("dtype", ["int32", "float32"])
@pytest.mark.parametrize("at", [(-1, 0), (0, -1), (2, 0), (0, 3), (-1, -1)])
def test_matrix_index_outside_on_any_axis_is_reported(dtype, at):
    x = np.zeros((2, 3), dtype)
    text = rf"x\[{at[0]}, {at[1]}\], shape \(2, 3\)"
    with pytest.raises(BoundsError, match=f"reads {text}"):
        read2[1, 1](x, *at, np.zeros(1))
    with pytest.raises(BoundsError, match=f"writes {text}"):
        write2[1, 1](x, *at, 1)


@pytest.mark.parametrize("at", [(-1, 0, 0), (0, 0, 4), (0, 3, 0)])
def test_three_axes_index_outside_is_reported(at):
    x = np.zeros((2, 3, 4), np.float32)
    with pytest.raises(BoundsError, match=r"reads x\[.*\], shape \(2, 3, 4\)"):
        read3[1, 1](x, *at, np.zeros(1))
    with pytest.raises(BoundsError):
        add3[1, 1](x, *at)
    add3[1, 1](x, 1, 2, 3)
    assert x[1, 2, 3] == x.sum() == 1


def test_bounds_message_tells_negative_from_tail():
    x = np.zeros(3)
    with pytest.raises(BoundsError, match="compiled code silently wraps it"):
        read[1, 1](x, -1, x)
    with pytest.raises(BoundsError, match=r"compare the index with the size before loading"):
        read[1, 1](x, 3, x)
    with pytest.raises(BoundsError, match=r"compare the index with the size before storing"):
        write[1, 1](x, 3, 0)


def test_bounds_message_has_kernel_block_thread_line_and_text(line_of):
    @cuda.jit
    def copy(x, out):
        i = cuda.grid(1)
        out[i] = x[i]

    with pytest.raises(BoundsError) as caught:
        copy[4, 32](np.zeros(100), np.zeros(128))
    line = line_of(copy, "x[i]")
    assert str(caught.value) == (
        f"copy, block 3, thread 4, line {line}: reads x[100], size 100. The tail is not guarded: "
        f"compare the index with the size before loading.\n    {line} | out[i] = x[i]"
    )


def test_bounds_message_uses_the_launchs_dimensions():
    @cuda.jit
    def corner(x):
        x[cuda.grid(2)] = 0

    with pytest.raises(BoundsError, match=r"corner, block \(1,0\), thread \(1,0\), line"):
        corner[(2, 2), (4, 2)](np.zeros((5, 2)))
    with pytest.raises(BoundsError, match=r"corner, block \(0,2\), thread \(0,0\), line"):
        corner[(1, 3), (1, 1)](np.zeros((1, 2)))


def test_bounds_in_device_function_names_its_line_and_its_parameter(line_of):
    @cuda.jit(device=True)
    def fetch(row, i):
        return row[i]

    @cuda.jit
    def caller(x, out):
        out[0] = fetch(x, 9)

    with pytest.raises(BoundsError) as caught:
        caller[1, 1](np.zeros(4), np.zeros(1))
    assert str(caught.value).startswith(
        f"caller, block 0, thread 0, in fetch, line {line_of(fetch, 'return row')}, called from "
        f"caller, line {line_of(caller, 'fetch(')}: reads row[9], size 4"
    )


def test_bounds_of_a_shared_array_names_the_variable():
    @cuda.jit
    def stage(x):
        tile = cuda.shared.array(4, np.float32)
        tile[cuda.threadIdx.x] = 0

    with pytest.raises(BoundsError, match=r"thread 4.*writes tile\[4\], size 4"):
        stage[1, 8](np.zeros(1))


def test_row_view_reads_and_writes_the_array():
    @cuda.jit
    def rows(x):
        row = x[cuda.grid(1)]
        for j in range(len(row)):
            row[j] = row[j] * 2 + x.shape[0]

    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    expected = x * 2 + 2
    rows[1, 2](x)
    assert (x == expected).all()


def test_row_view_outside_is_reported():
    @cuda.jit
    def chain(x, i, j):
        x[i][j] = 1

    x = np.zeros((2, 3))
    chain[1, 1](x, 1, 2)
    assert x[1, 2] == 1
    with pytest.raises(BoundsError, match=r"reads x\[-1\], shape \(2, 3\)"):
        chain[1, 1](x, -1, 0)
    with pytest.raises(BoundsError, match=r"writes x\[1\]\[3\], size 3"):
        chain[1, 1](x, 1, 3)


def test_slices_are_views_and_can_be_assigned():
    @cuda.jit
    def slices(x, out):
        middle = x[1:4]
        middle[0] = 10
        x[4:] = 7
        column = out[:, 1]
        column[0] = middle.size
        out[1, :] = x[:2]
        out[..., 0][0] = len(x[::2])

    x, out = np.arange(6.0), np.zeros((2, 2))
    slices[1, 1](x, out)
    assert x.tolist() == [0, 10, 2, 3, 7, 7]
    assert out.tolist() == [[3, 3], [0, 10]]


def test_attributes_are_those_of_the_array():
    @cuda.jit
    def attributes(x, out):
        out[0], out[1] = x.shape
        out[2] = x.size
        out[3] = x.ndim
        out[4] = len(x)
        out[5] = x.strides[0]
        out[6] = x.itemsize
        out[7] = x.nbytes
        out[8] = x.T.shape[0]

    out = np.zeros(9, np.int64)
    attributes[1, 1](np.zeros((2, 3), np.float32), out)
    assert out.tolist() == [2, 3, 6, 2, 2, 12, 4, 24, 3]


def test_iteration_gives_elements():
    @cuda.jit
    def total(x, out):
        for value in x:
            out[0] += value

    out = np.zeros(1)
    total[1, 1](np.arange(4.0), out)
    assert out[0] == 6


def test_reshape_ravel_and_view_share_memory():
    @cuda.jit
    def reshaped(x, bits):
        x.reshape(2, 3)[1, 0] = 5
        x.reshape((3, 2)).ravel()[0] = 1
        bits[0] = x.view(np.uint32)[0]

    x, bits = np.zeros(6, np.float32), np.zeros(1, np.uint32)
    reshaped[1, 1](x, bits)
    assert x.tolist() == [1, 0, 0, 5, 0, 0]
    assert bits[0] == np.float32(1).view(np.uint32)


def test_zero_dimensional_array_is_indexed_with_an_empty_tuple():
    @cuda.jit
    def bump(x):
        x[()] += 1

    x = np.array(4.0)
    bump[1, 1](x)
    assert x == 5


@pytest.mark.parametrize("at", [1.0, np.float32(1), None, "a"], ids=type)
def test_index_that_is_no_integer_is_refused(at):
    @cuda.jit
    def odd(x):
        x[table_of_index[0]] = 1

    table_of_index[0] = at
    with pytest.raises(KernelError, match="an index must be an integer"):
        odd[1, 1](np.zeros(3))


table_of_index = [0]


def test_too_many_indices_are_refused():
    with pytest.raises(KernelError, match="x has 1 axes and is indexed with 2"):
        read2[1, 1](np.zeros(3), 0, 0, np.zeros(1))


def test_read_only_host_array_can_be_read_not_written():
    x, out = np.arange(3.0), np.zeros(1)
    x.flags.writeable = False
    read[1, 1](x, 2, out)
    assert out[0] == 2
    with pytest.raises(KernelError, match="read-only"):
        write[1, 1](x, 0, 1)


def test_records_have_fields():
    @cuda.jit
    def move(points):
        i = cuda.grid(1)
        points[i].x += points[i]["y"]

    points = np.array([(1, 2), (3, 4)], [("x", "f4"), ("y", "f4")])
    move[1, 2](points)
    assert points["x"].tolist() == [3, 7]


def test_tuple_argument_holds_arrays_and_numbers():
    @cuda.jit
    def fill(pair):
        array, value = pair
        array[cuda.grid(1)] = value

    x = np.zeros(2)
    fill[1, 2]((x, 4))
    assert x.tolist() == [4, 4]


def test_global_array_is_a_read_only_constant():
    @cuda.jit
    def lookup(out, i):
        out[0] = TABLE[i]

    out = np.zeros(1)
    lookup[1, 1](out, 1)
    assert out[0] == 20
    with pytest.raises(BoundsError, match=r"reads TABLE\[2\]"):
        lookup[1, 1](out, 2)


TABLE = np.array([10, 20])


def test_store_to_read_only_memory_says_what_made_it_so():
    @cuda.jit
    def store(out):
        out[0] = 1

    @cuda.jit
    def change():
        cuda.const.array_like(TABLE)[0] = 1

    with pytest.raises(KernelError, match="writes out, which is read-only; the host made it so"):
        store[1, 1](np.broadcast_to(np.zeros(1), 3))
    with pytest.raises(KernelError, match="which is read-only; a kernel can only read it"):
        change[1, 1]()


@pytest.mark.parametrize("diagnosing", [False, True])
def test_unsigned_index_below_zero_is_out_of_bounds(diagnosing):
    @cuda.jit
    def before(a, out):
        out[0] = a[a[0] - a[1]]

    values = np.array([0, 1, 2], np.uint64)
    with simt.diagnosis(diagnosing), pytest.raises(BoundsError, match=r"a\[18446744073709551615\]"):
        before[1, 1](values, np.zeros(1))


@pytest.mark.parametrize("array", [np.zeros(3, ">f4"), np.array([None])])
def test_array_that_the_compiler_has_no_type_for_is_refused(array):
    @cuda.jit
    def nothing(a):
        pass

    with pytest.raises(LaunchError, match="which a kernel can't take"):
        nothing[1, 1](array)
