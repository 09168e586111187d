"""``numba.cuda.libdevice``: a float32 for a name that ends in f, a float64 for the others."""

from __future__ import annotations

from numba import cuda
from numba.cuda import libdevice

from conformance.case import array, conformance, out
from conformance.mathematics import GUIDE

INF, NAN = float("inf"), float("nan")
VALUES = [0.1, 1.0, 2.5, 7.75, 100.0]
SPECIAL = [0.5, 1.5, -2.5, -0.0, INF, -INF, NAN, 0.1]


def each(values, *kinds):
    return {t: (array(values, t), *(out(kind, len(values)) for kind in kinds))
            for t in ("float32", "float64")}  # fmt: skip


F = "float64"


@conformance(1, 8, each=each(SPECIAL, F, F, F, F))
def rounding(a, down, up, cut, nearest):
    i = cuda.grid(1)
    if i < a.size:
        down[i] = libdevice.floorf(a[i])
        up[i] = libdevice.ceil(a[i])
        cut[i] = libdevice.truncf(a[i])
        nearest[i] = libdevice.rint(a[i])


@conformance(1, 8, each=each(SPECIAL, F, F, F, F))
def extremes(a, larger, smaller, saturated, absolute):
    i = cuda.grid(1)
    if i < a.size:
        larger[i] = libdevice.fmaxf(a[i], a[0])
        smaller[i] = libdevice.fmin(a[i], a[7])
        saturated[i] = libdevice.saturatef(a[i])
        absolute[i] = libdevice.fabsf(a[i]) * a[7]


@conformance(1, 8, each=each([0.25, 4.0, 2.0, 0.1, 0.0, INF], F, F, F), ulp=2, why=GUIDE)
def reciprocal_roots(a, narrow, wide, root):
    i = cuda.grid(1)
    if i < a.size:
        narrow[i] = libdevice.rsqrtf(a[i])
        wide[i] = libdevice.rsqrt(a[i])
        root[i] = libdevice.cbrtf(a[i])


@conformance(1, 8, each=each(VALUES, F, F, F))
def exactly_rounded(a, reciprocal, root, fused):
    i = cuda.grid(1)
    if i < a.size:
        reciprocal[i] = libdevice.frcp_rn(a[i])
        root[i] = libdevice.sqrtf(a[i])
        fused[i] = libdevice.fmaf(a[i], a[i], a[0])


@conformance(1, 8, each=each(VALUES, F, F, F, F), ulp=3, why=GUIDE)
def transcendental(a, exponential, power, logarithm, hyperbolic):
    i = cuda.grid(1)
    if i < a.size:
        exponential[i] = libdevice.expf(a[i])
        power[i] = libdevice.pow(a[i], a[2])
        logarithm[i] = libdevice.log2f(a[i])
        hyperbolic[i] = libdevice.tanh(a[i])


@conformance(
    1, 8, args=(array([0.1, 0.5, 1.0, 2.5], "float32"), *(out(F, 4) for _ in "1234")), ulp=48,
    why="approximations, with an absolute error of up to 2**-21.4 (CUDA programming guide)",
)  # fmt: skip
def fast_functions(a, exponential, sine, logarithm, quotient):
    i = cuda.grid(1)
    if i < a.size:
        exponential[i] = libdevice.fast_expf(a[i])
        sine[i] = libdevice.fast_sinf(a[i])
        logarithm[i] = libdevice.fast_logf(a[i] + a[2])
        quotient[i] = libdevice.fast_fdividef(a[i], a[3])


@conformance(1, 8, args=(array([1, 12, -1, 0], "int32"), *(out("int64", 4) for _ in "1234")))
def bits(a, ones, zeros, first, backwards):
    i = cuda.grid(1)
    if i < a.size:
        ones[i] = libdevice.popc(a[i])
        zeros[i] = libdevice.clz(a[i])
        first[i] = libdevice.ffs(a[i])
        backwards[i] = libdevice.brev(a[i])


@conformance(1, 8, each=each(SPECIAL, "int64", "int64"))
def classification(a, narrow, wide):
    i = cuda.grid(1)
    if i < a.size:
        narrow[i] = libdevice.isnanf(a[i])
        wide[i] = libdevice.isnand(a[i])
