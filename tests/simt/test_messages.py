"""What a learner reads when a kernel indexes out of bounds, or computes with a whole array."""

import importlib
import math

import numpy as np
import pytest
from numba import cuda

from kernelbook import simt
from kernelbook.simt import BoundsError, KernelError, RaceError


def message(kernel, *args, grid=1, block=1, kind=KernelError):
    with pytest.raises(kind) as caught:
        kernel[grid, block](*args)
    return str(caught.value)


def bounds(kernel, *args, **launch):
    return message(kernel, *args, kind=BoundsError, **launch)


def test_bounds_index_equal_to_size_under_a_guard_asks_which_comparison():
    @cuda.jit
    def copy(x, out):
        i = cuda.grid(1)
        if i <= x.size:
            out[i] = x[i]

    said = bounds(copy, np.zeros(8), np.zeros(8), block=16)
    assert "reads x[8], size 8. The last valid index is 7. Is this access guarded, and by <" in said


def test_bounds_without_any_comparison_says_that_the_tail_is_not_guarded():
    @cuda.jit
    def copy(x, out):
        i = cuda.grid(1)
        out[i] = x[i]

    assert "The tail is not guarded" in bounds(copy, np.zeros(8), np.zeros(8), block=16)


def test_bounds_neighbour_of_the_last_element_is_named_as_such():
    @cuda.jit
    def pairs(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = x[i] + x[i + 1]

    said = bounds(pairs, np.zeros(8), np.zeros(8), block=16)
    assert "own index 7 is valid, that of its neighbour is not: compare 8 with the size" in said


def test_bounds_of_one_element_or_an_axis_of_length_one_says_that_0_is_all():
    @cuda.jit
    def spread(x):
        x[cuda.grid(1)] = 1

    @cuda.jit
    def diagonal(x):
        i = cuda.grid(1)
        x[i, i] = 1

    assert "one element: its only index is 0" in bounds(spread, np.zeros(1), block=2)
    said = bounds(diagonal, np.zeros((8, 1)), block=2)
    assert "Axis 1 has length 1: its only index is 0" in said


def test_bounds_of_row_and_column_swapped_asks_so():
    @cuda.jit
    def ones(x):
        column, row = cuda.grid(2)
        if column < x.shape[1] and row < x.shape[0]:
            x[column, row] = 1

    said = bounds(ones, np.zeros((3, 5)), grid=(2, 2), block=(4, 4))
    assert "Index 0 is 3, but there are 3 rows" in said
    assert "are row and column swapped?" in said


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (4, "Shared array of 4 elements: its indices go from 0 to 3."),
        ((4, 4), "Shared array of shape (4, 4): on axis 1 its indices go from 0 to 3."),
    ],
)
def test_bounds_of_a_shared_array_gives_its_own_size(shape, words):
    @cuda.jit
    def stage(x):
        tile = cuda.shared.array(shape, np.float32)
        t = cuda.threadIdx.x
        if t < x.size:
            if tile.ndim == 1:
                tile[t] = x[t]
            else:
                tile[0, t] = x[t]

    said = bounds(stage, np.zeros(8), block=8)
    assert f"{words} Is this access guarded, and by < rather than <=?" in said
    assert "tail" not in said


WHOLE = {
    "sum": ("out = x + 10", "x[i] + 10"),
    "two": ("out[i] = x * y", "x[i] * y[i]"),
    "scalar-first": ("out[i] = np.float32(2) * x", "np.float32(2) * x[i]"),
    "in-place": ("out += x", "out[i] += x[i]"),
    "store": ("out[i] = x", "x[i]"),
    "comparison": ("if x < 3: out[i] = 1", "x[i] < 3"),
    "equality": ("if x == 3: out[i] = 1", "x[i] == 3"),
    "truth": ("if x: out[i] = 1", "x[i]"),
    "math": ("out[i] = math.sqrt(x)", "math.sqrt(x[i])"),
    "ufunc": ("out[i] = np.exp(x)", "np.exp(x[i])"),
    "conversion": ("out[i] = float(x)", "float(x[i])"),
    "negative": ("out[i] = -x", "-x[i]"),
}


def kernel_of(line, tmp_path, monkeypatch):
    """A kernel of one line, from a file, because the message reads its source."""
    name = f"one_{abs(hash(line))}"
    (tmp_path / f"{name}.py").write_text(
        "import math\nimport numpy as np\nfrom numba import cuda\n\n\n@cuda.jit\n"
        f"def one(x, y, out):\n    i = cuda.grid(1)\n    {line}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return importlib.import_module(name).one


@pytest.mark.parametrize("case", WHOLE)
def test_whole_array_as_a_number_is_shown_with_its_index(case, tmp_path, monkeypatch):
    line, proposed = WHOLE[case]
    one = kernel_of(line, tmp_path, monkeypatch)
    said = message(one, np.ones(4), np.ones(4), np.ones(4))
    text = line.split(":")[0] if line.endswith(":") else line
    wanted = (
        f"line 9: {text} computes with a whole array; a kernel works on single elements: {proposed}"
    )
    assert wanted in said
    assert "Vector" not in said


@pytest.mark.parametrize("line", ["out[i] = x[i] * 2", "out[i] = x[i]", "if x[i] > 2: out[i] = 1"])
def test_whole_row_as_a_number_asks_for_two_indices(line, tmp_path, monkeypatch):
    one = kernel_of(line, tmp_path, monkeypatch)
    said = message(one, np.ones((4, 4)), np.ones(4), np.ones(4))
    assert "x[i] is a whole row of a 2-dimensional array, not one element; give two indices" in said


def test_flat_reads_and_writes_rows_first():
    @cuda.jit
    def double(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out.flat[i] = x.flat[i] * 2

    x, out = np.arange(6.0).reshape(2, 3), np.zeros((2, 3))
    double[1, 8](x, out)
    assert (out == x * 2).all()


NAMES = {
    "cuda": ("out[0] = cuda.threadidx.x", "cuda.threadidx does not exist; did you mean cuda.thr"),
    "numpy": ("out[0] = np.sqr(x[0])", "np.sqr does not exist; did you mean np.sqrt?"),
    "math": ("out[0] = math.sqr(x[0])", "math.sqr does not exist; did you mean math.sqrt?"),
    "array": ("out[0] = x.shap[0]", "an array in a kernel has no attribute 'shap'; did you mean s"),
    "array-other": ("out[0] = x.lenght", "It has shape, size, ndim and dtype."),
    "global": ("out[0] = mat.sqrt(2.0)", "name 'mat' is not defined; did you mean math?"),
    "short": ("out[0] = n", "name 'n' is not defined. A kernel knows its parameters, and"),
    "unbound": ("if x[0] > 5: q = 1\n    out[0] = q", "on every path that leads here"),
}  # fmt: skip


@pytest.mark.parametrize("case", NAMES)
def test_misspelt_name_gets_the_nearest_one(case, tmp_path, monkeypatch):
    line, words = NAMES[case]
    said = message(kernel_of(line, tmp_path, monkeypatch), np.ones(4), np.ones(4), np.ones(4))
    assert words in said
    assert "?." not in said


def test_returned_value_names_its_line(line_of):
    @cuda.jit
    def gives(x):
        if x[0] > 5:
            return
        return math.sqrt(x[0])

    line = line_of(gives, "math.sqrt")
    said = message(gives, np.ones(1))
    assert said == (
        f"gives, block 0, thread 0, line {line}: returns a value. A kernel returns nothing: write "
        f"it into an array.\n    {line} | return math.sqrt(x[0])"
    )


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (lambda x: x.fill(0), "an array in a kernel has no attribute 'fill'"),
        (lambda x: x[cuda.grid(1) / 2], "not float64 (0.0). Use // instead of /"),
        (lambda x: cuda.atomic.add(x, 0), "cuda.atomic.add() missing 1 required"),
        (lambda x: cuda.atomic.add(x, 0), "Call it as cuda.atomic.add(array, index, value)."),
        (lambda x: cuda.syncthreads(1), "Call it as cuda.syncthreads()."),
        (lambda x: cuda.shfl_sync(1, x[0]), "Call it as cuda.shfl_sync(mask, value, src_lane)."),
    ],
)
def test_python_error_names_nothing_of_the_simulator_and_says_what_to_do(kernel, words):
    with pytest.raises(KernelError) as caught, simt.diagnosis():
        cuda.jit(kernel)[1, 1](np.zeros(4))
    said = str(caught.value)
    assert words in said
    assert not any(name in said for name in ("Recorded", "Vector", "Atomic.", "np.float64"))


def test_race_of_many_stores_asks_whether_the_index_counts_the_blocks():
    @cuda.jit
    def forgets_the_block(x):
        x[cuda.threadIdx.x] = 1

    with pytest.raises(RaceError, match="do index and stride count all blocks"), simt.diagnosis():
        forgets_the_block[2, 4](np.zeros(4))


@pytest.mark.parametrize(
    ("grid", "words"), [(1, "Read into a variable first"), (2, "Write to another array")]
)
def test_race_in_place_advises_a_barrier_only_where_one_block_runs(grid, words):
    @cuda.jit
    def blur(x):
        i = cuda.grid(1)
        if 0 < i < x.size - 1:
            x[i] = x[i - 1] + x[i + 1]

    with pytest.raises(RaceError, match=words), simt.diagnosis():
        blur[grid, 64 // grid](np.zeros(64))
