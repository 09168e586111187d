"""float16: loads, arithmetic, comparison, conversion. (bfloat16 is not simulated.)"""

from __future__ import annotations

import math

import numpy as np
from numba import cuda

from conformance.case import array, conformance, out, pairs
from conformance.mathematics import GUIDE

INF, NAN = float("inf"), float("nan")
VALUES = [0.1, -2.7, 0.0, -0.0, 60000.0, INF, NAN, 6e-8]
PAIRS = pairs(array(VALUES, "float16"), array(VALUES, "float16"), "float16")
FEW = array([0.1, -2.7, 3.3, 1000.0], "float16")


@conformance(2, 32, args=(*PAIRS, *(out("float64", 64) for _ in "1234")))
def add_subtract_multiply_divide(a, b, total, difference, product, quotient):
    i = cuda.grid(1)
    total[i] = a[i] + b[i]
    difference[i] = a[i] - b[i]
    product[i] = a[i] * b[i]
    quotient[i] = a[i] / b[i]


@conformance(2, 32, args=(*PAIRS, out("int64", 64)))
def comparisons(a, b, result):
    i = cuda.grid(1)
    less = 1 if a[i] < b[i] else 0
    at_most = 2 if a[i] <= b[i] else 0
    same = 4 if a[i] == b[i] else 0
    other = 8 if a[i] != b[i] else 0
    more = 16 if a[i] > b[i] else 0
    result[i] = less + at_most + same + other + more


@conformance(1, 4, args=(FEW, out("float64", 4), out("float64", 4)))
def sign(a, negative, absolute):
    i = cuda.grid(1)
    negative[i] = -a[i]
    absolute[i] = abs(a[i])


@conformance(1, 64, args=(*PAIRS, out("float64", 64), out("float64", 64)))
def min_max(a, b, smaller, larger):
    i = cuda.grid(1)
    smaller[i] = min(a[i], b[i])
    larger[i] = max(a[i], b[i])


@conformance(1, 4, args=(FEW, *(out("float64", 4) for _ in "123")))
def to_other_floats(a, narrow, wide, whole):
    i = cuda.grid(1)
    narrow[i] = np.float32(a[i]) * np.float32(0.1)
    wide[i] = float(a[i]) * 0.1
    whole[i] = int(a[i])


@conformance(
    1, 8, each={t: (array([0.1, 65520.0, 1e-8, -3.3, NAN, 2049.0], t), out("float64", 6),
                    out("float16", 6)) for t in ("float32", "float64")}
)  # fmt: skip
def from_other_floats(a, cast, stored):
    i = cuda.grid(1)
    if i < a.size:
        cast[i] = np.float16(a[i])
        stored[i] = a[i]


@conformance(
    1, 4, each={t: (array([0, 3, 100, 120], t), out("float64", 4), out("float16", 4))
                for t in ("int8", "int32", "int64", "uint32")}
)  # fmt: skip
def from_integers(a, cast, stored):
    i = cuda.grid(1)
    cast[i] = np.float16(a[i])
    stored[i] = a[i]


@conformance(
    1, 4, args=(FEW, array([0.1, 2.0, 3.0, 0.7], "float32"), *(out("float64", 4) for _ in "12"))
)
def with_float32(a, b, total, product):
    i = cuda.grid(1)
    total[i] = a[i] + b[i]
    product[i] = a[i] * b[i]


@conformance(1, 4, args=(FEW, out("float64", 4), out("float64", 4)))
def with_an_int_literal(a, total, product):
    i = cuda.grid(1)
    total[i] = a[i] + 1
    product[i] = a[i] * 3


@conformance(1, 4, args=(FEW, out("float64", 4), out("float64", 4)))
def with_a_float_literal(a, total, product):
    i = cuda.grid(1)
    total[i] = a[i] + 0.1
    product[i] = a[i] * 2.7


@conformance(1, 4, args=(FEW, out("float64", 4)))
def with_an_index(a, product):
    i = cuda.grid(1)
    product[i] = a[i] * i


@conformance(1, 1, args=(array([0.1] * 30 + [2048.0, 1.0, 1.0], "float16"), out("float64", 2)))
def sums(a, result):
    total = np.float16(0)
    wide = np.float32(0)
    for i in range(a.size):
        total += a[i]
        wide += np.float32(a[i])
    result[0] = total
    result[1] = wide


@conformance(
    1,
    4,
    args=(array([0.1, 1.0, 2.5, 9.0], "float16"), *(out("float64", 4) for _ in "1234")),
    ulp=1,
    why=GUIDE,
)
def functions(a, exponential, logarithm, root, sine):
    i = cuda.grid(1)
    exponential[i] = math.exp(a[i])
    logarithm[i] = math.log(a[i])
    root[i] = math.sqrt(a[i])
    sine[i] = math.sin(a[i])


@conformance(
    1, 4, args=(array([0.5, 1.5, -2.5, 9.7], "float16"), out("float64", 4), out("float64", 4))
)
def rounding(a, down, up):
    i = cuda.grid(1)
    down[i] = math.floor(a[i])
    up[i] = math.ceil(a[i])


@conformance(1, 32, args=(array(np.arange(32) * 0.1, "float16"), out("float16", 32)))
def through_shared_memory(a, result):
    tile = cuda.shared.array(32, np.float16)
    i = cuda.threadIdx.x
    tile[i] = a[i]
    cuda.syncthreads()
    result[i] = tile[31 - i] * tile[i]


@conformance(1, 4, args=(np.float16(0.1), FEW, out("float64", 4)))
def scalar_argument(x, a, result):
    i = cuda.grid(1)
    result[i] = x * a[i]
