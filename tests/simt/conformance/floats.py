"""Floating-point arithmetic: where float32 stays, where it is promoted, special values.

Products and sums stand in separate statements that store, because the compiler may fuse
``a * b + c`` into one rounding.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, float64

from conformance.case import array, conformance, out, pairs

INF, NAN = float("inf"), float("nan")
SPECIAL = [0.0, -0.0, 1.1, -2.7, INF, -INF, NAN, 3e38, 1e-45]
PLAIN = [0.1, -0.3, 2.7, 1e10, 16777217.0, 1e-30]
FLOATS = ("float32", "float64")


def each_pair(count, values=SPECIAL, kind="float64"):
    given = {}
    for dtype in FLOATS:
        a, b = pairs(array(values, dtype), array(values, dtype), dtype)
        given[dtype] = (a, b, *(out(kind, a.size) for _ in range(count)))
    return given


def each_alone(count, values=SPECIAL, kind="float64"):
    return {
        dtype: (array(values, dtype), *(out(kind, len(values)) for _ in range(count)))
        for dtype in FLOATS
    }


@conformance(3, 32, each=each_pair(4))
def add_subtract_multiply_divide(a, b, total, difference, product, quotient):
    i = cuda.grid(1)
    if i < a.size:
        total[i] = a[i] + b[i]
        difference[i] = a[i] - b[i]
        product[i] = a[i] * b[i]
        quotient[i] = a[i] / b[i]


@conformance(3, 32, each=each_pair(2, [7.5, -7.5, 2.0, -2.0, 0.1, -0.0, 0.0, 1e10]))
def floor_division_and_remainder(a, b, quotient, remainder):
    i = cuda.grid(1)
    if i < a.size and b[i] != 0:
        quotient[i] = a[i] // b[i]
        remainder[i] = a[i] % b[i]


@conformance(3, 32, each=each_pair(2, [INF, -INF, NAN, 1.5, -1.5]))
def floor_division_and_remainder_of_specials(a, b, quotient, remainder):
    i = cuda.grid(1)
    if i < a.size:
        quotient[i] = a[i] // b[i]
        remainder[i] = a[i] % b[i]


@conformance(1, 8, each=each_alone(2, [1.5, -1.5, 0.0, INF, NAN]))
def floor_division_and_remainder_by_zero(a, quotient, remainder):
    i = cuda.grid(1)
    if i < a.size:
        zero = a[2]
        quotient[i] = a[i] // zero
        remainder[i] = a[i] % zero


@conformance(3, 32, each=each_pair(2, [7.5, -7.5, 2.0, -2.0, 0.25, 1e10]))
def divmod_of(a, b, quotient, remainder):
    i = cuda.grid(1)
    if i < a.size:
        q, r = divmod(a[i], b[i])
        quotient[i] = q
        remainder[i] = r


@conformance(3, 32, each=each_pair(1, kind="int64"))
def comparisons(a, b, result):
    i = cuda.grid(1)
    if i < a.size:
        less = 1 if a[i] < b[i] else 0
        at_most = 2 if a[i] <= b[i] else 0
        same = 4 if a[i] == b[i] else 0
        other = 8 if a[i] != b[i] else 0
        more = 16 if a[i] > b[i] else 0
        result[i] = less + at_most + same + other + more


@conformance(3, 32, each=each_pair(2))
def min_max(a, b, smaller, larger):
    i = cuda.grid(1)
    if i < a.size:
        smaller[i] = min(a[i], b[i])
        larger[i] = max(a[i], b[i])


@conformance(3, 32, each=each_pair(2, [v for v in SPECIAL if v == v]))
def min_max_by_comparison(a, b, smaller, larger):
    i = cuda.grid(1)
    if i < a.size:
        smaller[i] = a[i] if a[i] < b[i] else b[i]
        larger[i] = a[i] if a[i] > b[i] else b[i]


@conformance(1, 16, each=each_alone(3))
def sign(a, negative, absolute, positive):
    i = cuda.grid(1)
    if i < a.size:
        negative[i] = -a[i]
        absolute[i] = abs(a[i])
        positive[i] = +a[i]


@conformance(1, 16, each=each_alone(1, kind="int64"))
def truth_value(a, result):
    i = cuda.grid(1)
    if i < a.size:
        if a[i]:
            result[i] = 1
        if not a[i]:
            result[i] += 2


@conformance(1, 8, each=each_alone(4, PLAIN))
def with_an_int_literal(a, total, product, quotient, difference):
    i = cuda.grid(1)
    if i < a.size:
        total[i] = a[i] + 1
        product[i] = a[i] * 3
        quotient[i] = a[i] / 3
        difference[i] = 1 - a[i]


@conformance(1, 8, each=each_alone(3, PLAIN))
def with_a_float_literal(a, total, product, quotient):
    i = cuda.grid(1)
    if i < a.size:
        total[i] = a[i] + 0.1
        product[i] = 2.7 * a[i]
        quotient[i] = 1.0 / a[i]


@conformance(1, 8, each=each_alone(4, PLAIN))
def with_an_int_variable(a, total, product, quotient, difference):
    i = cuda.grid(1)
    n = a.size + i
    if i < a.size:
        total[i] = a[i] + i
        product[i] = a[i] * n
        quotient[i] = a[i] / n
        difference[i] = cuda.blockDim.x - a[i]


@conformance(1, 8, each=each_alone(3, PLAIN))
def with_a_quotient_of_ints(a, product, total, scaled):
    i = cuda.grid(1)
    if i < a.size:
        product[i] = a[i] * (i / 3)
        total[i] = a[i] + 1 / 3
        scaled[i] = a[i] / (a.size / 7)


# fmt: off
NARROW = {"int8": [-3, 7, 100], "int16": [-3, 7, 30001], "int32": [-3, 7, 2**31 - 1],
          "int64": [-3, 7, 2**62 + 1], "uint8": [3, 7, 200], "uint16": [3, 7, 60001],
          "uint32": [3, 7, 2**32 - 1], "uint64": [3, 7, 2**64 - 1], "bool": [0, 1, 1]}
# fmt: on


@conformance(
    1, 8,
    each={t: (array([0.1, -0.3, 2.7], "float32"), array(v, t), *(out("float64", 3) for _ in "1234"))
          for t, v in NARROW.items()},
)  # fmt: skip
def float32_with_an_integer_load(a, n, total, product, quotient, inverse):
    i = cuda.grid(1)
    if i < a.size:
        total[i] = a[i] + n[i]
        product[i] = a[i] * n[i]
        quotient[i] = a[i] / n[i]
        inverse[i] = n[i] - a[i]


@conformance(
    1, 8,
    each={t: (array([0.1, -0.3, 2.7], "float32"), array(v, t), out("int64", 3))
          for t, v in NARROW.items()},
)  # fmt: skip
def float32_compared_with_an_integer(a, n, result):
    i = cuda.grid(1)
    if i < a.size:
        less = 1 if a[i] < n[i] else 0
        result[i] = less + (2 if a[i] * n[i] == a[i] else 0)


@conformance(1, 8, args=(array([0.1, 0.5, 0.7, 1.1], "float32"), out("int64", 4)))
def float32_compared_with_a_float_literal(a, result):
    i = cuda.grid(1)
    if i < a.size:
        less = 1 if a[i] < 0.1 else 0
        same = 2 if a[i] == 0.7 else 0
        more = 4 if a[i] >= 1.1 else 0
        result[i] = less + same + more


@conformance(1, 8, args=(array(PLAIN, "float32"), array(PLAIN, "float64"), out("float64", 6),
                         out("float64", 6)))  # fmt: skip
def float32_with_float64(a, b, total, product):
    i = cuda.grid(1)
    if i < a.size:
        total[i] = a[i] + b[i]
        product[i] = a[i] * b[i]


@conformance(1, 8, each=each_alone(3, PLAIN))
def power_by_a_literal(a, square, cube, fourth):
    i = cuda.grid(1)
    if i < a.size:
        square[i] = a[i] ** 2
        cube[i] = a[i] ** 3
        fourth[i] = a[i] ** -1


@conformance(
    1, 8, each=each_alone(2, [0.1, 2.7, 4.0, 0.0, INF]), ulp=2,
    why="powf and pow of the device's library are not rounded correctly",
)  # fmt: skip
def power_by_a_float(a, root, other):
    i = cuda.grid(1)
    if i < a.size:
        root[i] = a[i] ** 0.5
        other[i] = a[i] ** a[1]


@conformance(
    1, 8, each=each_alone(1, [0.1, -2.7, 4.0, -0.0, 1.5]), ulp=4,
    why="a run-time exponent is a loop of products on the device, a pow here",
)  # fmt: skip
def power_by_an_int_variable(a, result):
    i = cuda.grid(1)
    if i < a.size:
        result[i] = a[i] ** (i + 1)


@conformance(1, 8, args=(array(PLAIN, "float32"), out("float64", 6), out("float64", 6),
                         out("float64", 6), np.float32(0.1), 0.1))  # fmt: skip
def scalar_arguments(a, narrow, wide, int_scaled, x, y):
    i = cuda.grid(1)
    if i < a.size:
        narrow[i] = a[i] * x
        wide[i] = a[i] * y
        int_scaled[i] = x * 3


@conformance(1, 8, args=(array(PLAIN, "float32"), out("float64", 6), out("float64", 6),
                         out("float64", 6), out("float64", 6)))  # fmt: skip
def constants_with_a_type(a, by_numpy, by_numba, mixed, negated):
    i = cuda.grid(1)
    if i < a.size:
        by_numpy[i] = a[i] * np.float32(2.7)
        by_numba[i] = a[i] * float32(2.7)
        mixed[i] = a[i] * float64(2.7)
        negated[i] = -np.float32(0.1) * a[i]


SUMMED = [0.1] * 100 + [1e7, 0.3, 16777216.0, 0.7]


@conformance(1, 1, each=each_alone(1, SUMMED))
def sum_from_an_int_zero(a, result):
    total = 0
    for i in range(a.size):
        total += a[i]
    result[0] = total


@conformance(1, 1, each=each_alone(1, SUMMED))
def sum_from_a_float_zero(a, result):
    total = 0.0
    for i in range(a.size):
        total += a[i]
    result[0] = total


@conformance(1, 1, each=each_alone(1, SUMMED))
def sum_from_a_float32_zero(a, result):
    total = np.float32(0)
    for i in range(a.size):
        total += a[i]
    result[0] = total


@conformance(1, 1, each=each_alone(1, SUMMED))
def sum_from_the_first_element(a, result):
    total = a[0]
    for i in range(1, a.size):
        total += a[i]
    result[0] = total


@conformance(1, 1, each=each_alone(1, SUMMED))
def sum_in_memory(a, result):
    for i in range(a.size):
        result[0] += a[i]


@conformance(1, 1, args=(array(SUMMED, "float32"), out("float32", 1), out("float64", 1)))
def sum_in_float32_memory(a, result, doubled):
    for i in range(a.size):
        result[0] += a[i]
    doubled[0] = result[0] * 2


@conformance(1, 4, each=each_alone(2, [0.1, 0.7, 3.3, -2.9]))
def variable_of_two_types(a, result, after):
    i = cuda.grid(1)
    x = 1
    if i % 2:
        x = a[i]
    result[i] = x * a[i]
    y = a[i]
    y = y * 2
    after[i] = y * a[i]


@conformance(1, 1, each=each_alone(1, [0.1, 0.7, 3.3, -2.9]))
def loop_variable_that_becomes_a_float64(a, result):
    x = a[0]
    for i in range(4):
        result[i] = x
        x = x * 1.1


@conformance(1, 1, args=(array([1e-45, 1.2e-38, 3e-39], "float32"), out("float64", 6)))
def denormals_are_kept(a, result):
    half = np.float32(0.5)
    for i in range(3):
        result[i] = a[i] * half
        result[i + 3] = a[i] + a[i]


@conformance(
    1, 8, each={"float32": (array(PLAIN, "float32"), out("float64", 6), out("float64", 6))},
    ulp=1, why="the compiler may fuse the product into the sum, which rounds once",
)  # fmt: skip
def product_and_sum_in_one_expression(a, result, squares):
    i = cuda.grid(1)
    if i < a.size:
        result[i] = a[i] * a[0] + a[1]
        squares[i] = a[i] * a[i] + a[0] * a[0]
