"""Arithmetic as compiled code does it, not as Python does."""

import math
import warnings

import numpy as np
import pytest
from numba import cuda, float32

from kernelbook.simt import KernelError, abstract, freeze, numeric, recorded, rewrite
from kernelbook.simt.typed import typed


def store(expression, *args, dtype=np.float64):
    """What a kernel stores for ``expression`` of ``args``."""
    out = np.zeros(1, dtype)
    inner = cuda.jit(device=True)(expression)

    @cuda.jit
    def kernel(out, args):
        out[0] = inner(*args)

    kernel[1, 1](out, args)
    return out[0]


def first(dtype, *values):
    return np.array(values, dtype)


def test_float32_loads_multiply_in_float32():
    x = first(np.float32, 0.1)
    assert store(lambda x: x[0] * x[0], x) == float(np.float32(0.1) * np.float32(0.1))


def test_float32_with_float_literal_is_float64():
    x = first(np.float32, 0.1)
    assert store(lambda x: x[0] * 2.7, x) == float(np.float32(0.1)) * 2.7


def test_float_literal_accumulator_is_float64():
    def total(x):
        s = 0.0
        for i in range(x.size):
            s += x[i]
        return s

    x = np.full(1000, 0.1, np.float32)
    assert store(total, x) == pytest.approx(1000 * float(np.float32(0.1)), rel=1e-14)


def test_float32_accumulator_stays_float32():
    def total(x):
        s = float32(0)
        for i in range(x.size):
            s += x[i]
        return s

    x = np.full(1000, 0.1, np.float32)
    assert store(total, x) == np.add.accumulate(x)[-1] != pytest.approx(100, rel=1e-7)


def test_int32_sum_does_not_overflow_at_32_bits():
    x = first(np.int32, 2**31 - 1)
    assert store(lambda x: x[0] + x[0], x, dtype=np.int64) == 2**32 - 2


def test_int64_product_wraps():
    x = first(np.int64, 2**62)
    assert store(lambda x: x[0] * 4 + 1, x, dtype=np.int64) == 1


@pytest.mark.parametrize(
    ("dtype", "value", "stored"),
    [
        (np.int8, 200, -56),
        (np.uint8, -1, 255),
        (np.uint8, 256, 0),
        (np.int32, 2**31, -(2**31)),
        (np.uint32, -1, 2**32 - 1),
        (np.int64, 2**63, -(2**63)),
        (np.int32, 2.9, 2),
        (np.int32, -2.9, -2),
        (np.int32, 1e20, 2**31 - 1),
        (np.int32, -1e20, -(2**31)),
        (np.int32, math.nan, -(2**31)),
        (np.bool_, 7, True),
    ],
)
@pytest.mark.parametrize("shape", [(1,), (1, 1), (1, 1, 1)], ids=["1d", "2d", "3d"])
def test_store_converts_as_c_does(dtype, value, stored, shape):
    @cuda.jit
    def put(out, values):
        if out.ndim == 1:
            out[0] = values[0]
        elif out.ndim == 2:
            out[0, 0] = values[0]
        else:
            out[0, 0, 0] = values[0]

    out = np.zeros(shape, dtype)
    put[1, 1](out, (value,))
    assert out.ravel()[0] == stored


def test_store_float_overflow_is_infinite_and_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store(lambda x: x[0] * 1e300, first(np.float32, 3e38), dtype=np.float32) == np.inf
        assert np.isnan(store(lambda x: x[0] / x[0], first(np.float32, 0)))


def test_division_by_zero_of_loaded_floats_and_wide_integers_does_not_raise():
    assert store(lambda x: 1.0 / x[0], first(np.float32, 0)) == np.inf
    assert store(lambda x: x[0] // 0, first(np.int64, 7), dtype=np.int64) == 0


def test_division_by_zero_of_python_integers_is_reported():
    with pytest.raises(KernelError, match=r"ZeroDivisionError.*gives 0 for integers"):
        store(lambda x: x[0] // 0, first(np.int32, 7))


@pytest.mark.parametrize(
    ("function", "x", "expected"),
    [
        (lambda x: math.exp(x[0]), 1000.0, np.inf),
        (lambda x: math.log(x[0]), 0.0, -np.inf),
        (lambda x: math.log(x[0]), -1.0, np.nan),
        (lambda x: math.sqrt(x[0]), -1.0, np.nan),
        (lambda x: math.pow(x[0], -1), 0.0, np.inf),
        (lambda x: math.fmod(x[0], 0), 1.0, np.nan),
        (lambda x: math.sinh(x[0]), -1e4, -np.inf),
        (lambda x: math.atan2(x[0], 1), 1.0, math.pi / 4),
        (lambda x: math.floor(x[0]) + math.ceil(x[0]), 2.5, 5),
        (lambda x: math.log(x[0], 2), 8.0, 3),
        (lambda x: math.pi * x[0], 2.0, 2 * math.pi),
        (lambda x: math.isnan(x[0]), math.nan, 1),
    ],
)
def test_math_answers_where_python_raises(function, x, expected):
    np.testing.assert_allclose(store(function, first(np.float64, x)), expected)


def test_floor_and_ceil_are_floats_and_keep_what_no_integer_holds():
    assert store(lambda x: math.floor(x[0]), first(np.float32, np.inf)) == np.inf
    assert math.copysign(1, store(lambda x: math.ceil(x[0]), first(np.float64, -0.5))) == -1


def test_math_of_float32_is_float32():
    x = first(np.float32, 0.3)
    assert store(lambda x: math.exp(x[0]), x) == float(np.float32(math.exp(np.float32(0.3))))


def test_math_imported_by_name_is_replaced_too():
    from math import exp

    assert store(lambda x: exp(x[0]), first(np.float32, 1e6)) == np.inf


def test_float_of_a_float32_is_float64():
    x = first(np.float32, 0.1)
    assert store(lambda x: float(x[0]) * x[0], x) == float(np.float32(0.1)) ** 2


def test_float_default_is_float64():
    @cuda.jit
    def scale(out, x, factor=2.7):
        out[0] = x[0] * factor

    out = np.zeros(1)
    scale[1, 1](out, first(np.float32, 0.1))
    assert out[0] == float(np.float32(0.1)) * 2.7


def test_float_global_is_float64():
    assert store(lambda x: x[0] * SCALE, first(np.float32, 0.1)) == float(np.float32(0.1)) * 2.7


SCALE = 2.7


def helpers(kernel, *arguments):
    """The names of machine arithmetic that the rewritten ``kernel`` uses."""
    code = rewrite.rewritten(kernel, (typed(kernel, tuple(map(abstract.of_argument, arguments))),))
    return {name for name in code.co_names if name.startswith("__")}


def wrapped(*arrays):
    return tuple(recorded.wrap(array, "x", "global") for array in arrays)


def test_index_arithmetic_and_floats_of_one_type_stay_as_they_are():
    def kernel(x, y, n):
        i = cuda.grid(1)
        row, column = i // 32, i % 32
        total = np.float32(0)
        for k in range(n):
            total += x[row * n + k] * x[(column << 2) + k]
        while i < n:
            y[i] = total * x[i]
            i += cuda.gridsize(1)

    x = np.zeros(4, np.float32)
    assert helpers(kernel, *wrapped(x, x), 100) == {"__float32__"}  # of the cast: np.float32(0)


def test_only_the_operation_that_differs_is_changed():
    def kernel(x, n, y):
        i = cuda.grid(1)
        y[i] = x[i] * n[i]

    x, n = np.zeros(4, np.float32), np.zeros(4, np.int32)
    assert helpers(kernel, *wrapped(x, n, x)) == {"__float64__"}
    assert helpers(kernel, *wrapped(x, n.astype(np.int16), x)) == set()
    assert helpers(kernel, *wrapped(x, x, x)) == set()


def test_types_are_followed_anew_when_a_global_changes(monkeypatch):
    def kernel(x, y):
        y[0] = x[0] * FACTOR

    scaled = cuda.jit(kernel)
    x, y = first(np.float32, 0.1), np.zeros(1)
    scaled[1, 1](x, y)
    assert y[0] == float(np.float32(0.1)) * 3
    monkeypatch.setitem(globals(), "FACTOR", np.float32(3))
    scaled[1, 1](x, y)
    assert y[0] == np.float32(0.1) * np.float32(3)


FACTOR = 3


def test_device_function_is_typed_for_each_of_its_calls():
    @cuda.jit(device=True)
    def twice(v):
        return v * 2

    @cuda.jit
    def kernel(x, n, out):
        out[0] = twice(x[0])
        out[1] = twice(n[0])

    out = np.zeros(2)
    kernel[1, 1](first(np.float32, 16777217.5), first(np.int64, 2**62), out)
    assert out.tolist() == [2 * 16777218.0, -(2.0**63)]


def test_error_in_a_rewritten_kernel_names_its_own_line(line_of):
    @cuda.jit
    def kernel(x, n, y):
        i = cuda.grid(1)
        y[i] = (
            x[i] * 3
            + n[i + 7]
        )  # fmt: skip

    x = np.zeros(2, np.float32)
    with pytest.raises(IndexError, match=f"line {line_of(kernel, 'n[i + 7]')}"):
        kernel[1, 1](x, x, x)


@pytest.mark.parametrize(
    ("operation", "left", "right", "result"),
    [
        ("add", "uint8", "uint8", "uint64"),
        ("sub", "uint64", "int64", "int64"),
        ("mult", "float32", "int32", "float64"),
        ("mult", "float32", "int16", "float32"),
        ("mult", "float32", "uint16", "float64"),
        ("div", "int8", "int8", "float64"),
        ("pow", "float32", "int64", "float32"),
        ("lshift", "uint8", "int64", "uint64"),
        ("add", "float16", "float16", "float16"),
        ("floordiv", "float16", "float16", "float32"),
        ("add", "complex64", "float64", "complex128"),
        ("bitand", "float32", "int32", ""),
    ],
)
def test_type_of_a_result_is_numbas(operation, left, right, result):
    assert numeric.kind(operation, left, right) == result


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        ("int64", "float32", "float64"),
        ("uint16", "float32", "float32"),
        ("int32", "uint32", "int64"),
        ("int64", "uint64", "float64"),
        ("bool", "uint8", "uint8"),
        ("int8", "uint8", "int16"),
    ],
)
def test_type_of_a_variable_on_two_ways_is_numbas(left, right, result):
    assert numeric.either(left, right) == numeric.either(right, left) == result


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32, np.uint64])
def test_negated_and_inverted_unsigned_integers_take_all_their_bits(dtype):
    def negated(x):
        return -(x[0] >> 1) * x[1]

    def inverted(x):
        return ~(x[0] >> 1) * x[1]

    x = first(dtype, 6, 5)
    assert store(negated, x, dtype=np.float64) == float(2**64 - 15)
    assert store(inverted, x, dtype=np.float64) == float(2**64 - 20)


def test_variable_that_is_narrow_on_one_way_wraps_at_64_bits_after_both():
    def scaled(x):
        v = x[0]
        if x[1] > 0:
            v = np.int32(x[2]) * 2 + x[1]
        return v * (1 << 40)

    x = first(np.int64, 1, 1, 1 << 30)
    assert store(scaled, x) == float(((1 << 31) + 1) * (1 << 40) - (1 << 71))
    x[1] = 0
    assert store(scaled, x) == float(1 << 40)


def test_narrow_integer_in_a_loop_beside_int64_wraps_at_64_bits():
    def powers(x):
        v = x[0]
        for k in range(3):
            if k == 0:
                v = int(np.int32(x[1]))
            v = v * x[1] if k > 5 else v * v
        return v

    x = first(np.int64, 1, 3_000_001)
    exact = 3_000_001**8 & (2**64 - 1)
    assert store(powers, x, dtype=np.float64) == float(exact - 2**64 if exact >> 63 else exact)


def test_abs_of_a_truth_value_is_an_integer():
    def inverted(x):
        return ~abs(x[0])

    assert store(inverted, first(np.bool_, True), dtype=np.int64) == -2


def test_kernels_of_one_factory_are_changed_once_each():
    def make(n):
        @cuda.jit
        def kernel(out):
            out[0] = out[0] * n + n

        return kernel

    out = np.zeros(1, np.float32)
    kernels = [make(n) for n in (2, 3, 4)]
    for kernel in kernels:
        kernel[1, 1](out)
    known = len(rewrite._known)
    for kernel in kernels * 3:
        kernel[1, 1](out)
    assert len(rewrite._known) == known
    out[0] = 1
    kernels[1][1, 1](out)
    assert out[0] == 6


def test_many_kernels_of_one_factory_leave_few_of_them_kept():
    def make(n):
        @cuda.jit
        def kernel(out):
            out[0] = out[0] + n

        return kernel

    out = np.zeros(1, np.int64)
    known, constants = len(rewrite._known), len(freeze._typed)
    for n in range(60):
        make(n)[1, 1](out)
    assert out[0] == sum(range(60))
    assert len(rewrite._known) < known + 20
    assert len(freeze._typed) < constants + 20


def test_global_that_only_an_attribute_is_named_after_changes_nothing(monkeypatch):
    @cuda.jit
    def kernel(out):
        out[cuda.threadIdx.x] = 1

    out = np.zeros(1)
    kernel[1, 1](out)
    known = len(rewrite._known)
    for _ in range(3):
        monkeypatch.setitem(globals(), "x", object())
        kernel[1, 1](out)
    assert len(rewrite._known) == known


def test_device_function_converts_to_the_types_that_it_declares():
    @cuda.jit("int32(int32)", device=True)
    def following(x):
        return x + 1

    @cuda.jit("float32(float32)", device=True)
    def square(x):
        return x * x

    @cuda.jit
    def kernel(out):
        out[0] = following(2.9)
        out[1] = following(2**31 - 1)
        out[2] = square(0.1)

    out = np.zeros(3)
    kernel[1, 1](out)
    assert out.tolist() == [3, -(2**31), float(np.float32(0.1) * np.float32(0.1))]


def test_defaults_keywords_and_unpacked_tuples_have_their_types():
    @cuda.jit(device=True)
    def times(x, n=3):
        return x * n

    @cuda.jit
    def kernel(out, x, three=3):
        both = x[0], 3
        out[0] = times(x[0])
        out[1] = times(n=3, x=x[0])
        out[2] = times(*both)
        out[3] = x[0] * three

    out = np.zeros(4)
    kernel[1, 1](out, first(np.float32, 0.1))
    assert (out == float(np.float32(0.1)) * 3).all()


def test_functions_of_one_factory_with_other_defaults_are_told_apart():
    def make(default):
        @cuda.jit(device=True)
        def times(x, n=default):
            return x * n

        @cuda.jit
        def kernel(out, x):
            out[0] = times(x[0])

        return kernel

    x, out = first(np.float32, 0.1), np.zeros(1)
    make(np.float32(3))[1, 1](out, x)
    assert out[0] == float(np.float32(0.1) * np.float32(3))
    make(3)[1, 1](out, x)
    assert out[0] == float(np.float32(0.1)) * 3


def test_expression_of_a_thousand_terms_runs_as_it_stands(tmp_path):
    file = tmp_path / "long.py"
    total = " + ".join(["x[0]"] * 1000)
    file.write_text(f"@cuda.jit\ndef kernel(x, out):\n    out[0] = {total}\n")
    names = {"cuda": cuda}
    exec(compile(file.read_text(), str(file), "exec"), names)
    out = np.zeros(1)
    names["kernel"][1, 1](np.ones(1), out)
    assert out[0] == 1000
