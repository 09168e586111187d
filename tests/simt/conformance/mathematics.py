"""Functions of :mod:`math` on both float types and on integers.

What IEEE 754 defines (square root, rounding, remainders, classification) is equal bit for bit. The
others are approximations on the device: the bounds are the maximum errors that the CUDA programming
guide states for them, plus half a unit for rounding here.
"""

from __future__ import annotations

import math

from numba import cuda

from conformance.case import array, conformance, out, pairs

INF, NAN = float("inf"), float("nan")
SPECIAL = [0.0, -0.0, INF, -INF, NAN]
GUIDE = "the device's library states this maximum error (CUDA programming guide, appendix)"
FLOATS = ("float32", "float64")
TYPES = ("float32", "float64", "int32", "int64", "uint8", "uint32")


def each(values, count, types=FLOATS, kind="float64"):
    given = {}
    for t in types:
        own = values if t in FLOATS else sorted({int(abs(v)) for v in values if abs(v) < 100})
        given[t] = (array(own, t), *(out(kind, len(own)) for _ in range(count)))
    return given


ANGLES = [0.1, -0.7, 1.0, 2.5, 3.0, 10.0, -20.5, 50.0, *SPECIAL]
UNIT = [0.1, -0.7, 0.99, 1.0, -1.0, 1.5, *SPECIAL]
REALS = [0.1, -0.7, 1.0, 2.5, -3.3, 10.0, 30.0, 1e3, -1e3, *SPECIAL]
POSITIVE = [0.1, 0.7, 1.0, 2.5, 3.0, 10.0, 99.5, 1e30, 1e-40, -1.0, *SPECIAL]


@conformance(1, 16, each=each(ANGLES, 3, TYPES), ulp=2, why=GUIDE)
def trigonometric(a, sine, cosine, of_product):
    i = cuda.grid(1)
    if i < a.size:
        sine[i] = math.sin(a[i])
        cosine[i] = math.cos(a[i])
        of_product[i] = math.sin(a[i] * a[i])


@conformance(1, 16, each=each(ANGLES, 1), ulp=4, why=GUIDE)
def tangent(a, result):
    i = cuda.grid(1)
    if i < a.size:
        result[i] = math.tan(a[i])


@conformance(1, 16, each=each(UNIT, 3), ulp=4, why=GUIDE)
def inverse_trigonometric(a, sine, cosine, tangents):
    i = cuda.grid(1)
    if i < a.size:
        sine[i] = math.asin(a[i])
        cosine[i] = math.acos(a[i])
        tangents[i] = math.atan(a[i])


@conformance(1, 16, each=each(REALS, 3), ulp=3, why=GUIDE)
def hyperbolic(a, sine, cosine, tangents):
    i = cuda.grid(1)
    if i < a.size:
        sine[i] = math.sinh(a[i])
        cosine[i] = math.cosh(a[i])
        tangents[i] = math.tanh(a[i])


@conformance(1, 16, each=each(UNIT, 3), ulp=4, why=GUIDE)
def inverse_hyperbolic(a, sine, cosine, tangents):
    i = cuda.grid(1)
    if i < a.size:
        sine[i] = math.asinh(a[i])
        cosine[i] = math.acosh(a[i])
        tangents[i] = math.atanh(a[i])


@conformance(1, 16, each=each(REALS, 3, TYPES), ulp=2, why=GUIDE)
def exponential(a, natural, minus_one, binary):
    i = cuda.grid(1)
    if i < a.size:
        natural[i] = math.exp(a[i])
        minus_one[i] = math.expm1(a[i])
        binary[i] = math.exp2(a[i])


@conformance(1, 16, each=each(POSITIVE, 3, TYPES), ulp=3, why=GUIDE)
def logarithms(a, natural, decimal, plus_one):
    i = cuda.grid(1)
    if i < a.size:
        natural[i] = math.log(a[i])
        decimal[i] = math.log10(a[i])
        plus_one[i] = math.log1p(a[i])


@conformance(1, 16, each=each(POSITIVE, 1), ulp=2, why=GUIDE)
def binary_logarithm(a, result):
    i = cuda.grid(1)
    if i < a.size:
        result[i] = math.log2(a[i])


@conformance(1, 16, each=each(POSITIVE, 2, TYPES))
def square_root(a, result, in_product):
    i = cuda.grid(1)
    if i < a.size:
        result[i] = math.sqrt(a[i])
        in_product[i] = math.sqrt(a[i]) * a[1]


@conformance(1, 16, each=each([0.5, -0.5, 2.5, -2.5, 1e10, 0.0, -0.0, 99.9], 3, TYPES))
def rounding(a, down, up, cut):
    i = cuda.grid(1)
    if i < a.size:
        down[i] = math.floor(a[i])
        up[i] = math.ceil(a[i])
        cut[i] = math.trunc(a[i])


@conformance(1, 16, each=each([INF, -INF, NAN, 1e30, -1e30], 2))
def rounding_out_of_range(a, down, up):
    i = cuda.grid(1)
    if i < a.size:
        down[i] = math.floor(a[i])
        up[i] = math.ceil(a[i])


@conformance(1, 16, each=each([0.5, -0.5, *SPECIAL, 1e-42], 3, TYPES, "int64"))
def classification(a, nans, infinities, finite):
    i = cuda.grid(1)
    if i < a.size:
        nans[i] = math.isnan(a[i])
        infinities[i] = math.isinf(a[i])
        finite[i] = math.isfinite(a[i])


@conformance(1, 16, each=each([0.5, -0.5, *SPECIAL, 1e-42], 1, TYPES))
def absolute(a, result):
    i = cuda.grid(1)
    if i < a.size:
        result[i] = math.fabs(a[i])


def each_pair(left, right, count, types=FLOATS):
    given = {}
    for t in types:
        a, b = pairs(array(left, t), array(right, t), t)
        given[t] = (a, b, *(out("float64", a.size) for _ in range(count)))
    return given


@conformance(1, 64, each=each_pair([5.3, -5.3, 0.0, INF, NAN], [2.0, -0.7, INF, 0.0], 2))
def remainders(a, b, truncated, nearest):
    i = cuda.grid(1)
    if i < a.size:
        truncated[i] = math.fmod(a[i], b[i])
        nearest[i] = math.remainder(a[i], b[i])


@conformance(1, 64, each=each_pair([5.3, -0.0, INF, NAN], [2.0, -0.0, -INF], 1))
def copysign(a, b, result):
    i = cuda.grid(1)
    if i < a.size:
        result[i] = math.copysign(a[i], b[i])


@conformance(
    1, 64, each=each_pair([5.3, -5.3, 0.0, -0.0, INF, NAN], [2.0, -0.7, 0.0, -0.0, INF], 2), ulp=3,
    why=GUIDE,
)  # fmt: skip
def of_two(a, b, angle, length):
    i = cuda.grid(1)
    if i < a.size:
        angle[i] = math.atan2(a[i], b[i])
        length[i] = math.hypot(a[i], b[i])


@conformance(
    1, 64, each=each_pair([5.3, -5.3, 0.0, -0.0, INF, NAN, 1.0], [2.0, -0.7, 0.0, 3.0, INF], 1),
    ulp=4, why=GUIDE,
)  # fmt: skip
def power(a, b, result):
    i = cuda.grid(1)
    if i < a.size:
        result[i] = math.pow(a[i], b[i])


@conformance(1, 16, each=each([0.1, -0.7, 1.0, 2.5, 6.0, *SPECIAL], 2), ulp=5, why=GUIDE)
def error_function(a, result, complement):
    i = cuda.grid(1)
    if i < a.size:
        result[i] = math.erf(a[i])
        complement[i] = math.erfc(a[i])


@conformance(1, 16, each=each([0.1, -0.7, 1.0, 2.5, 6.0, 171.0, 0.0, INF, NAN, -1.0], 2), ulp=11,
             why=GUIDE)  # fmt: skip
def gamma_function(a, gamma, logarithm):
    i = cuda.grid(1)
    if i < a.size:
        gamma[i] = math.gamma(a[i])
        logarithm[i] = math.lgamma(a[i])


@conformance(1, 16, each=each([0.1, -0.7, 180.0, 1e3], 2), ulp=1,
             why="the compiler may multiply by the reciprocal or a rounded constant")  # fmt: skip
def degrees_and_radians(a, degrees, radians):
    i = cuda.grid(1)
    if i < a.size:
        degrees[i] = math.degrees(a[i])
        radians[i] = math.radians(a[i])


@conformance(1, 16, each=each([0.1, -0.7, 180.0, 0.0, -0.0], 5))
def parts(a, mantissa, exponent, fraction, whole, scaled):
    i = cuda.grid(1)
    if i < a.size:
        m, e = math.frexp(a[i])
        mantissa[i] = m
        exponent[i] = e
        f, w = math.modf(a[i])
        fraction[i] = f
        whole[i] = w
        scaled[i] = math.ldexp(a[i], 3)


@conformance(1, 16, each=each([INF, -INF, NAN], 3))
def parts_of_specials(a, mantissa, fraction, whole):
    i = cuda.grid(1)
    if i < a.size:
        m, _ = math.frexp(a[i])
        mantissa[i] = m
        f, w = math.modf(a[i])
        fraction[i] = f
        whole[i] = w


@conformance(1, 64, each=each_pair([1.0, -0.1, 0.0, INF], [2.0, -INF, 0.0], 1))
def next_float(a, b, result):
    i = cuda.grid(1)
    if i < a.size:
        result[i] = math.nextafter(a[i], b[i])


@conformance(1, 8, args=(array([0.1, 0.7, 3.3], "float32"), *(out("float64", 3) for _ in "1234")))
def constants(a, circle, doubled, growth, limits):
    i = cuda.grid(1)
    if i < a.size:
        circle[i] = math.pi * a[i]
        doubled[i] = 2 * math.pi
        growth[i] = math.e * a[i]
        limits[i] = -math.inf if i else math.nan


@conformance(
    1, 8, args=(array([0.1, 0.7, 3.3], "float32"), *(out("float64", 3) for _ in "1234")), ulp=2,
    why=GUIDE,
)  # fmt: skip
def type_of_a_result(a, narrow, of_double, of_int, of_quotient):
    i = cuda.grid(1)
    if i < a.size:
        narrow[i] = math.exp(a[i]) * a[i]
        of_double[i] = math.exp(a[i] * 1.0) * a[i]
        of_int[i] = math.sqrt(i + 2) * a[i]
        of_quotient[i] = math.exp(i / 3) * a[i]
