"""complex64 and complex128: arithmetic, parts, conversion."""

from __future__ import annotations

import numpy as np
from numba import cuda

from conformance.case import array, conformance, out

VALUES = [1 + 2j, -0.1 + 0.3j, 2.5 - 1.5j, 0j]
OTHERS = [0.5 - 1j, 3 + 0.1j, -2j, 1 + 0j]
WHY = "the compiler fuses products and sums of the parts, and divides in its own order"
TYPES = ("complex64", "complex128")


def each(count, kind="complex128"):
    return {
        t: (array(VALUES, t), array(OTHERS, t), *(out(kind, 4) for _ in range(count)))
        for t in TYPES
    }


@conformance(1, 4, each=each(2))
def add_and_subtract(a, b, total, difference):
    i = cuda.grid(1)
    total[i] = a[i] + b[i]
    difference[i] = a[i] - b[i]


@conformance(1, 4, each=each(2), ulp=4, why=WHY)
def multiply_and_divide(a, b, product, quotient):
    i = cuda.grid(1)
    product[i] = a[i] * b[i]
    quotient[i] = a[i] / b[i]


@conformance(1, 4, each=each(3, "float64"), ulp=4, why=WHY)
def parts(a, b, real, imaginary, length):
    i = cuda.grid(1)
    real[i] = a[i].real * b[i].real
    imaginary[i] = a[i].imag * b[i].imag
    length[i] = abs(a[i])


@conformance(1, 4, each=each(3))
def conjugate_and_sign(a, b, conjugate, negative, same):
    i = cuda.grid(1)
    conjugate[i] = a[i].conjugate()
    negative[i] = -b[i]
    same[i] = 1 if a[i] == b[i] else 2


@conformance(1, 4, each=each(3), ulp=4, why=WHY)
def with_other_types(a, b, by_int, by_float, made):
    i = cuda.grid(1)
    by_int[i] = a[i] * 3
    by_float[i] = b[i] + 0.1
    made[i] = complex(a[i].real, b[i].imag) * 2


@conformance(1, 4, args=(array(VALUES, "complex128"), out("complex64", 4), out("complex128", 4)))
def stores_and_casts(a, narrow, cast):
    i = cuda.grid(1)
    narrow[i] = a[i]
    cast[i] = np.complex64(a[i])


@conformance(1, 1, args=(array(VALUES, "complex64"), out("complex128"), 2 - 1j), ulp=4, why=WHY)
def sum_with_a_scalar(a, result, z):
    total = 0j
    for i in range(a.size):
        total += a[i] * z
    result[0] = total
