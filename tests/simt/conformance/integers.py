"""Integer arithmetic of every width: promotion, wrap-around, division, shifts, comparison."""

from __future__ import annotations

import numpy as np
from numba import cuda, int32, uint32

from conformance.case import array, conformance, out, pairs

# fmt: off
VALUES = {
    "int8": [-128, -7, -1, 0, 2, 127], "int16": [-32768, -7, -1, 0, 2, 32767],
    "int32": [-(2**31), -7, -1, 0, 2, 2**31 - 1], "int64": [-(2**63), -7, -1, 0, 2, 2**63 - 1],
    "uint8": [0, 1, 2, 7, 128, 255], "uint16": [0, 1, 2, 7, 32768, 65535],
    "uint32": [0, 1, 2, 7, 2**31, 2**32 - 1], "uint64": [0, 1, 2, 7, 2**63, 2**64 - 1],
    "bool": [False, True],
}
# fmt: on
WIDE = {"b": "int64", "i": "int64", "u": "uint64"}


def wide(dtype):
    return WIDE[np.dtype(dtype).kind]


def each_pair(*kinds, zero=True, types=tuple(VALUES)):
    """Arguments by type: all pairs of edge values, then one output for each kind."""
    given = {}
    for dtype in types:
        values = VALUES[dtype]
        a, b = pairs(values, [v for v in values if v or zero], dtype)
        given[dtype] = (a, b, *(out(k or wide(dtype), a.size) for k in kinds))
    return given


NUMBERS = tuple(t for t in VALUES if t != "bool")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")


@conformance(1, 64, each=each_pair("", "", "", "float64"))
def add_subtract_multiply(a, b, total, difference, product, as_float):
    i = cuda.grid(1)
    if i < a.size:
        total[i] = a[i] + b[i]
        difference[i] = a[i] - b[i]
        product[i] = a[i] * b[i]
        as_float[i] = a[i] - b[i]


@conformance(1, 64, each=each_pair("float64", "float64", types=NUMBERS))
def sum_and_product_by_type(a, b, total, product):
    i = cuda.grid(1)
    if i < a.size:
        total[i] = a[i] + b[i]
        product[i] = a[i] * b[i]


@conformance(1, 64, each=each_pair("", "", "float64", zero=False, types=NUMBERS))
def floor_division(a, b, quotient, remainder, as_float):
    i = cuda.grid(1)
    if i < a.size:
        quotient[i] = a[i] // b[i]
        remainder[i] = a[i] % b[i]
        as_float[i] = a[i] // b[i]


@conformance(1, 64, each=each_pair("", "", zero=False, types=NUMBERS))
def divmod_of(a, b, quotient, remainder):
    i = cuda.grid(1)
    if i < a.size:
        q, r = divmod(a[i], b[i])
        quotient[i] = q
        remainder[i] = r


@conformance(1, 64, each=each_pair("float64", "float64", types=NUMBERS))
def true_division(a, b, quotient, narrow):
    i = cuda.grid(1)
    if i < a.size:
        quotient[i] = a[i] / b[i]
        narrow[i] = np.float32(1) * (a[i] / b[i])


def each_alone(*kinds, types=NUMBERS):
    """Arguments by type: the edge values, then one output for each kind."""
    return {
        dtype: (
            array(VALUES[dtype], dtype),
            *(out(kind or wide(dtype), len(VALUES[dtype])) for kind in kinds),
        )
        for dtype in types
    }


@conformance(1, 8, each=each_alone("", ""))
def division_by_zero(a, quotient, remainder):
    i = cuda.grid(1)
    if i < a.size:
        zero = a[i] - a[i]
        quotient[i] = a[i] // zero
        remainder[i] = a[i] % zero


@conformance(1, 8, each=each_alone("float64"))
def true_division_by_zero(a, quotient):
    i = cuda.grid(1)
    if i < a.size:
        quotient[i] = a[i] / (a[i] - a[i])


@conformance(1, 8, each=each_alone("", "float64", "", "float64"))
def negate_and_invert(a, negative, negative_as_float, inverted, inverted_as_float):
    i = cuda.grid(1)
    if i < a.size:
        negative[i] = -a[i]
        negative_as_float[i] = -a[i]
        inverted[i] = ~a[i]
        inverted_as_float[i] = ~a[i]


@conformance(1, 8, each=each_alone("", "float64", "", types=(*NUMBERS, "bool")))
def with_a_literal(a, sums, differences, products):
    i = cuda.grid(1)
    if i < a.size:
        sums[i] = a[i] + 1
        differences[i] = a[i] - 1
        products[i] = a[i] * 3


@conformance(1, 8, each=each_alone("", "", "float64"))
def division_by_a_literal(a, quotient, remainder, as_float):
    i = cuda.grid(1)
    if i < a.size:
        quotient[i] = a[i] // 3
        remainder[i] = a[i] % 3
        as_float[i] = a[i] // -2


@conformance(1, 64, each=each_pair("", "", "", types=tuple(VALUES)))
def bitwise(a, b, both, either, one):
    i = cuda.grid(1)
    if i < a.size:
        both[i] = a[i] & b[i]
        either[i] = a[i] | b[i]
        one[i] = a[i] ^ b[i]


@conformance(1, 8, each=each_alone("", "", "float64"))
def shift_by_a_literal(a, left, right, as_float):
    i = cuda.grid(1)
    if i < a.size:
        left[i] = a[i] << 5
        right[i] = a[i] >> 3
        as_float[i] = a[i] << 33


@conformance(
    1, 64, each={t: (*pairs(VALUES[t], [0, 1, 31, 62, 63], t, t), out(wide(t), 30),
                     out(wide(t), 30)) for t in NUMBERS if t not in ("int8", "uint8")}
)  # fmt: skip
def shift_by_a_variable(a, n, left, right):
    i = cuda.grid(1)
    if i < a.size:
        left[i] = a[i] << n[i]
        right[i] = a[i] >> n[i]


@conformance(1, 1, args=(out("int64", 6),))
def shift_of_a_literal(result):
    one = cuda.blockDim.x
    result[0] = 1 << one
    result[1] = 1 << (one + 30)
    result[2] = 1 << (one + 39)
    result[3] = one << 63
    result[4] = -9 >> one
    result[5] = (one << 62) * 4


@conformance(1, 64, each=each_pair("int64", types=tuple(VALUES)))
def comparisons(a, b, result):
    i = cuda.grid(1)
    if i < a.size:
        bits = 0
        if a[i] < b[i]:
            bits |= 1
        if a[i] <= b[i]:
            bits |= 2
        if a[i] == b[i]:
            bits |= 4
        if a[i] != b[i]:
            bits |= 8
        if a[i] > b[i]:
            bits |= 16
        if a[i] >= b[i]:
            bits |= 32
        result[i] = bits


def each_mix(*kinds):
    """Arguments for pairs of different types."""
    mixes = [
        ("int8", "uint8"), ("int32", "uint32"), ("int64", "uint32"), ("int32", "uint64"),
        ("int64", "uint64"), ("uint8", "int64"), ("bool", "int32"), ("bool", "uint64"),
    ]  # fmt: skip
    given = {}
    for left, right in mixes:
        a, b = pairs(VALUES[left], VALUES[right], left, right)
        given[f"{left}-{right}"] = (a, b, *(out(kind, a.size) for kind in kinds))
    return given


@conformance(1, 64, each=each_mix("float64", "float64", "float64"))
def mixed_types(a, b, total, difference, product):
    i = cuda.grid(1)
    if i < a.size:
        total[i] = a[i] + b[i]
        difference[i] = a[i] - b[i]
        product[i] = a[i] * b[i]


@conformance(1, 64, each=each_mix("int64"))
def mixed_comparisons(a, b, result):
    i = cuda.grid(1)
    if i < a.size:
        less = 1 if a[i] < b[i] else 0
        same = 2 if a[i] == b[i] else 0
        more = 4 if a[i] >= b[i] else 0
        result[i] = less + same + more


@conformance(
    1, 64, each={k: v for k, v in each_mix("float64", "float64").items() if "bool" not in k}
)
def mixed_min_max(a, b, smaller, larger):
    i = cuda.grid(1)
    if i < a.size:
        smaller[i] = min(a[i], b[i])
        larger[i] = max(a[i], b[i])


@conformance(1, 64, each=each_pair("float64", "float64", types=NUMBERS))
def min_max(a, b, smaller, larger):
    i = cuda.grid(1)
    if i < a.size:
        smaller[i] = min(a[i], b[i])
        larger[i] = max(a[i], b[i])


@conformance(1, 8, each=each_alone("float64", ""))
def absolute(a, as_float, same):
    i = cuda.grid(1)
    if i < a.size:
        as_float[i] = abs(a[i])
        same[i] = abs(a[i])


SMALL = {t: [v for v in (-3, -1, 0, 2, 7, 100) if v >= 0 or t.startswith("int")] for t in NUMBERS}


@conformance(
    1, 32, each={t: (array(SMALL[t], t), out("float64", len(SMALL[t])),
                     out("float64", len(SMALL[t])), out(wide(t), len(SMALL[t]))) for t in NUMBERS}
)  # fmt: skip
def power_by_a_literal(a, square, cube, high):
    i = cuda.grid(1)
    if i < a.size:
        square[i] = a[i] ** 2
        cube[i] = a[i] ** 3
        high[i] = a[i] ** 21


@conformance(
    1, 32, each={t: (*pairs(SMALL[t], [0, 1, 2, 5], t, t), out("float64", 4 * len(SMALL[t])))
                 for t in NUMBERS}
)  # fmt: skip
def power_by_a_variable(a, n, result):
    i = cuda.grid(1)
    if i < a.size:
        result[i] = a[i] ** n[i]


@conformance(1, 32, args=(array([1, 2, 5, -3], "int32"), out("float64", 4), out("float64", 4)))
def power_by_a_negative(a, literal, variable):
    i = cuda.grid(1)
    if i < a.size:
        literal[i] = a[i] ** -2
        variable[i] = a[i] ** (-a[0])


@conformance(1, 32, args=(array(range(33), "uint32"), out("uint32", 33), out("int64", 33)))
def linear_congruential_generator(seed, narrow, full):
    i = cuda.grid(1)
    state = seed[i] + 12345
    for _ in range(40):
        state = state * 6364136223846793005 + 1442695040888963407
    narrow[i] = state
    full[i] = state


@conformance(2, 32, args=(array(range(64), "int32"), out("int64", 64)))
def generator_in_signed_integers(seed, result):
    i = cuda.grid(1)
    state = i
    for k in range(30):
        state = state * 1103515245 + 12345 + k
    result[i] = state + seed[i]


@conformance(1, 32, args=(array(range(32), "uint32"), out("uint32", 32), out("float64", 32)))
def fnv_hash_of_bytes(words, result, as_float):
    i = cuda.grid(1)
    h = uint32(2166136261)
    w = words[i] * uint32(2654435761)
    for k in range(4):
        h = (h ^ ((w >> (8 * k)) & 0xFF)) * 16777619
    result[i] = h
    as_float[i] = h


@conformance(1, 32, args=(array(range(1, 33), "uint32"), out("uint32", 32), out("uint32", 32)))
def xorshift(seed, result, mixed):
    i = cuda.grid(1)
    x = seed[i]
    for _ in range(5):
        x = np.uint32(x ^ (x << np.uint32(13)))
        x = np.uint32(x ^ (x >> np.uint32(17)))
        x = np.uint32(x ^ (x << np.uint32(5)))
    result[i] = x
    y = np.uint32(seed[i] * 0x9E3779B1)
    mixed[i] = (y ^ (y >> np.uint32(16))) * np.uint32(0x85EBCA6B)


@conformance(1, 32, args=(array(range(1, 33), "uint64"), out("uint64", 32)))
def splitmix(seed, result):
    i = cuda.grid(1)
    z = seed[i] + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result[i] = z ^ (z >> np.uint64(31))


@conformance(
    1, 1, each={t: (array(VALUES[t] * 3, t), out(wide(t)), out("float64")) for t in VALUES}
)
def accumulate_from_a_literal_zero(a, result, as_float):
    total = 0
    for i in range(a.size):
        total += a[i]
    result[0] = total
    as_float[0] = total


@conformance(1, 1, each={t: (array(VALUES[t], t), out(wide(t), 6), out(t, 6)) for t in NUMBERS})
def read_modify_write(a, wide_result, narrow_result):
    for i in range(a.size):
        narrow_result[i] += a[i]
        narrow_result[i] *= 3
        narrow_result[i] -= 1
        wide_result[i] += a[i]
        wide_result[i] *= a[i]
        wide_result[i] -= a[i]


@conformance(1, 1, args=(array([2**31 - 1, -(2**31)], "int32"), out("int64", 6), out("int32", 4)))
def typed_local_variables(a, wide_result, narrow_result):
    x = int32(a[0])
    y = np.int32(a[1])
    wide_result[0] = x + 1
    wide_result[1] = y - 1
    wide_result[2] = x * x
    wide_result[3] = int32(x + 1)
    wide_result[4] = np.uint32(y - 1)
    wide_result[5] = np.int16(x)
    narrow_result[0] = x + 1
    narrow_result[1] = y - 1
    narrow_result[2] = x * x
    narrow_result[3] = x + x


@conformance(1, 1, args=(5, -5, out("int64", 8)))
def scalar_arguments(a, b, result):
    result[0] = a * b
    result[1] = b // 2
    result[2] = b % 3
    result[3] = a << 62
    result[4] = (a << 62) + (a << 61)
    result[5] = a * 4611686018427387904
    result[6] = b // (a - 5)
    result[7] = b % (a - 5)


@conformance(1, 1, each={t: (np.dtype(t).type(VALUES[t][-1]), out("float64", 4)) for t in NUMBERS})
def scalar_argument_by_type(x, result):
    result[0] = x + 1
    result[1] = x + x
    result[2] = x * x
    result[3] = -x


@conformance(1, 1, args=(out("float64", 8), out("uint64", 2)))
def large_literals(result, bits):
    one = cuda.blockDim.x
    result[0] = 0xFFFFFFFFFFFFFFFF
    result[1] = 0xFFFFFFFF
    result[2] = 0x8000000000000000 * one
    result[3] = 2**62 + 2**62 * one
    result[4] = 9223372036854775807 + one
    result[5] = -9223372036854775808 - one
    result[6] = 4294967296 * (one * 4294967296)
    result[7] = 1000000007 * 1000000009 * one
    bits[0] = 0xFFFFFFFFFFFFFFFF
    bits[1] = -one


@conformance(1, 4, args=(out("float64", 4), out("int64", 4)))
def registers_subtract(as_float, as_int):
    i = cuda.threadIdx.x
    as_float[i] = cuda.threadIdx.x - cuda.blockDim.x
    as_int[i] = (i - 2) // 2 + (i - 2) % 3 * 10 + (i >> 1) * 100 + i / 2
