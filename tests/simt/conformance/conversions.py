"""Casts by call and by storing: widths, signs, NaN, infinities, values out of range."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64

from conformance.case import array, conformance, out, pairs

INF, NAN = float("inf"), float("nan")
REALS = [0.0, -0.9, 0.9, 2.5, 3.5, -2.5, 100.7, -100.7]
BYTES = [0.0, 1.9, 127.0, 100.5]
BIG = [INF, -INF, NAN, 1e10, -1e10, 300.5, -300.5, 1e20, -1e20, 3e9, -1.5]
WHOLE = [
    0,
    1,
    -1,
    127,
    -128,
    128,
    255,
    256,
    32768,
    65536,
    2**31,
    2**32 - 1,
    -(2**31) - 1,
    2**63 - 1,
]
INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float32", "float64")


@conformance(
    1, 16, each={t: (array(REALS, t), *(out("int64", 8) for _ in range(4))) for t in FLOATS}
)
def float_to_signed(a, by_int, by_int32, by_numpy, by_int8):
    i = cuda.grid(1)
    if i < a.size:
        by_int[i] = int(a[i])
        by_int32[i] = int32(a[i])
        by_numpy[i] = np.int64(a[i])
        by_int8[i] = np.int8(a[i])


@conformance(
    1, 16, each={t: (array(BYTES, t), *(out("int64", 4) for _ in range(4))) for t in FLOATS}
)
def float_to_unsigned(a, by_uint8, by_uint16, by_uint32, by_uint64):
    i = cuda.grid(1)
    if i < a.size:
        by_uint8[i] = np.uint8(a[i])
        by_uint16[i] = uint16(a[i])
        by_uint32[i] = np.uint32(a[i])
        by_uint64[i] = uint64(a[i])


@conformance(
    1, 16, each={t: (array(BIG, t), *(out("int64", 11) for _ in range(4))) for t in FLOATS}
)
def float_out_of_range_to_signed(a, by_int8, by_int16, by_int32, by_int64):
    i = cuda.grid(1)
    if i < a.size:
        by_int8[i] = np.int8(a[i])
        by_int16[i] = int16(a[i])
        by_int32[i] = np.int32(a[i])
        by_int64[i] = int64(a[i])


@conformance(
    1, 16, each={t: (array(BIG, t), *(out("uint64", 11) for _ in range(4))) for t in FLOATS}
)
def float_out_of_range_to_unsigned(a, by_uint8, by_uint16, by_uint32, by_uint64):
    i = cuda.grid(1)
    if i < a.size:
        by_uint8[i] = uint8(a[i])
        by_uint16[i] = np.uint16(a[i])
        by_uint32[i] = uint32(a[i])
        by_uint64[i] = np.uint64(a[i])


@conformance(
    1, 16, each={f"{t}-{f}": (array(REALS, f), out(t, 8)) for t in INTS for f in FLOATS
                 if not t.startswith("u")}
)  # fmt: skip
def store_float_in_signed(a, result):
    i = cuda.grid(1)
    if i < a.size:
        result[i] = a[i]


@conformance(1, 16, each={f"{t}-{f}": (array(BIG, f), out(t, 11)) for t in INTS for f in FLOATS})
def store_float_out_of_range(a, result):
    i = cuda.grid(1)
    if i < a.size:
        result[i] = a[i]


@conformance(1, 16, each={t: (array(WHOLE, "int64"), out(t, 14)) for t in (*INTS, *FLOATS, "bool")})
def store_integer(a, result):
    i = cuda.grid(1)
    if i < a.size:
        result[i] = a[i]


@conformance(1, 16, args=(array(WHOLE, "int64"), *(out("float64", 14) for _ in range(8))))
def integer_casts(a, i8, i16, i32, i64, u8, u16, u32, u64):
    i = cuda.grid(1)
    if i < a.size:
        i8[i] = int8(a[i])
        i16[i] = np.int16(a[i])
        i32[i] = int32(a[i])
        i64[i] = np.int64(a[i])
        u8[i] = np.uint8(a[i])
        u16[i] = uint16(a[i])
        u32[i] = np.uint32(a[i])
        u64[i] = uint64(a[i])


@conformance(1, 16, args=(array(WHOLE, "int64"), *(out("float64", 14) for _ in range(4))))
def arithmetic_after_a_cast(a, small, plus, minus, product):
    i = cuda.grid(1)
    if i < a.size:
        small[i] = np.int8(a[i]) + np.int8(1)
        plus[i] = np.uint8(a[i]) + np.uint8(255)
        minus[i] = np.uint16(a[i]) - np.uint16(1)
        product[i] = np.int32(a[i]) * np.int32(a[i])


@conformance(1, 16, args=(array([0.1, 1e300, -1e-50, NAN, INF, 2.0**60 + 2**36], "float64"),
                          *(out("float64", 6) for _ in range(4))))  # fmt: skip
def float_casts(a, narrow, by_numba, twice, product):
    i = cuda.grid(1)
    if i < a.size:
        narrow[i] = np.float32(a[i])
        by_numba[i] = float32(a[i])
        twice[i] = float64(np.float32(a[i]))
        product[i] = np.float32(a[i]) * np.float32(0.1)


@conformance(1, 16, args=(array([0.1, 7.0, 3e38], "float32"), *(out("float64", 3) for _ in "123")))
def float_of(a, product, of_int, of_quotient):
    i = cuda.grid(1)
    if i < a.size:
        product[i] = float(a[i]) * a[i]
        of_int[i] = float(i + 1) * a[i]
        of_quotient[i] = float(i) / 3 * a[i]


@conformance(1, 16, args=(array([2**53 + 1, 2**62 + 1, -3, 2**24 + 1], "int64"),
                          *(out("float64", 4) for _ in "123")))  # fmt: skip
def integer_to_float(a, narrow, wide, product):
    i = cuda.grid(1)
    if i < a.size:
        narrow[i] = np.float32(a[i])
        wide[i] = float(a[i])
        product[i] = np.float32(a[i]) * np.float32(a[i])


@conformance(
    1, 16, each={t: (array([0.5, 1.5, 2.5, -0.5, -1.5, 2.675, 1e10, -0.2], t), out("float64", 8),
                     out("float64", 8)) for t in FLOATS}
)  # fmt: skip
def round_of(a, whole, as_product):
    i = cuda.grid(1)
    if i < a.size:
        whole[i] = round(a[i])
        as_product[i] = round(a[i]) * np.float32(0.1)


@conformance(
    1, 16, each={t: (array([0.5, 1.25, 2.675, -0.125, -1.5, 1234.5678], t), out("float64", 6),
                     out("float64", 6)) for t in FLOATS},
    ulp=1, why="rounding to a digit scales by a power of ten, whose rounding may differ",
)  # fmt: skip
def round_to_digits(a, two, tens):
    i = cuda.grid(1)
    if i < a.size:
        two[i] = round(a[i], 2)
        tens[i] = round(a[i], -1)


@conformance(1, 16, args=(array([0.0, 0.3, -1.0, NAN], "float32"), array([0, 3, -1, 256], "int32"),
                          *(out("int64", 4) for _ in "1234")))  # fmt: skip
def bool_of(a, n, of_float, of_int, negated, summed):
    i = cuda.grid(1)
    if i < a.size:
        of_float[i] = bool(a[i])
        of_int[i] = bool(n[i])
        negated[i] = not n[i]
        summed[i] = (n[i] > 0) + (a[i] > 0)


@conformance(1, 1, args=(array([True, False], "bool"), out("float64", 8)))
def bool_arithmetic(a, result):
    result[0] = a[0] + a[0]
    result[1] = a[0] * 3
    result[2] = a[0] - a[1]
    result[3] = a[0] & a[1]
    result[4] = a[0] | a[1]
    result[5] = a[0] / 4
    result[6] = int(a[0]) - 2
    result[7] = (1 < 2) + True


@conformance(
    1, 8, each={t: (array([3, 100], t), *(out("float64", 2) for _ in "1234")) for t in INTS}
)
def narrow_load_in_arithmetic(a, difference, sum_of_two, product, quotient):
    i = cuda.grid(1)
    if i < a.size:
        difference[i] = a[0] - a[1]
        sum_of_two[i] = a[i] + a[1]
        product[i] = a[i] * a[1] * a[1] * a[1] * a[1]
        quotient[i] = (a[0] - a[1]) // 2


@conformance(1, 64, args=(*pairs([3, 200, 255], [4, 200, 1], "uint8"), out("uint8", 9),
                          out("int32", 9), out("float32", 9)))  # fmt: skip
def absolute_difference_of_bytes(a, b, same, wide, as_float):
    i = cuda.grid(1)
    if i < a.size:
        same[i] = abs(a[i] - b[i])
        wide[i] = int32(a[i]) - int32(b[i])
        as_float[i] = abs(np.float32(a[i]) - np.float32(b[i]))


@conformance(1, 4, args=(array([1.0, -2.5, 0.1, NAN], "float32"), out("int32", 4),
                         array([0x3F800000, 1, 0x7F800000, 0x80000000], "uint32"),
                         out("float64", 4)))  # fmt: skip
def bits_through_a_view(a, as_bits, bits, as_float):
    i = cuda.grid(1)
    if i < 4:
        if i < 3:
            as_bits[i] = a.view(np.int32)[i]
        as_float[i] = bits.view(np.float32)[i]
