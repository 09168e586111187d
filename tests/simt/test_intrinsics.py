"""Bits, selection, fma, cbrt, cache hints, vector types, libdevice."""

import math

import numpy as np
import pytest
from numba import cuda, uint64

from kernelbook.simt import KernelError, NotSimulated


def store(expression, *args, dtype=np.float64):
    """What a kernel stores for ``expression(*args)``."""
    out = np.zeros(1, dtype)
    inner = cuda.jit(device=True)(expression)

    @cuda.jit
    def kernel(out, args):
        out[0] = inner(*args)

    kernel[1, 1](out, args)
    return out[0]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (lambda: cuda.popc(0b1011), 3),
        (lambda: cuda.popc(-1), 32),
        (lambda: cuda.popc(np.int64(-1)), 64),
        (lambda: cuda.popc(np.uint8(255)), 8),
        (lambda: cuda.clz(1), 31),
        (lambda: cuda.clz(0), 32),
        (lambda: cuda.clz(np.int64(1)), 63),
        (lambda: cuda.clz(np.int16(-1)), 0),
        (lambda: cuda.ffs(0), 0),
        (lambda: cuda.ffs(0b1000), 4),
        (lambda: cuda.ffs(-(2**31)), 32),
        (lambda: cuda.brev(1), 2**31),
        (lambda: cuda.brev(np.uint32(0b1011)), 0b1101 << 28),
        (lambda: cuda.brev(np.uint64(1)), 2**63),
        (lambda: cuda.brev(uint64(3)), 3 * 2**62),
        (lambda: cuda.selp(True, 3, 4), 3),
        (lambda: cuda.selp(0, 3, 4), 4),
    ],
)
def test_bit_function_depends_on_the_width(expression, expected):
    assert store(expression, dtype=np.uint64) == expected


def test_fma_rounds_once():
    a, b = 1 + 2.0**-30, 1 - 2.0**-30
    assert a * b - 1 == 0
    assert store(lambda a, b: cuda.fma(a, b, -1.0), a, b) == -(2.0**-60)


def test_fma_of_float32_rounds_to_float32_once():
    x = np.float32(1 + 2.0**-12)
    y = np.float32(2.0**-60)
    once = store(lambda x, y: cuda.fma(x, x, y), x, y)
    exact = float(x) * float(x)  # 1 + 2^-11 + 2^-24: halfway between two float32
    assert once == float(np.nextafter(np.float32(exact), np.float32(2)))


@pytest.mark.parametrize(("a", "b", "c"), [(np.inf, 0.0, 1.0), (np.nan, 1.0, 1.0), (1e308, 10, 0)])
def test_fma_of_special_values_follows_ieee(a, b, c):
    with np.errstate(all="ignore"):
        expected = np.float64(a) * b + c
    np.testing.assert_equal(store(lambda a, b, c: cuda.fma(a, b, c), a, b, c), expected)


def test_cbrt_keeps_the_type():
    assert store(lambda x: cuda.cbrt(x), 27.0) == 3
    narrow = np.float32(2)
    assert store(lambda x: cuda.cbrt(x), narrow) == float(np.float32(math.cbrt(narrow)))


def test_cache_hinted_access_is_access():
    @cuda.jit
    def hinted(x, out):
        i = cuda.grid(1)
        cuda.stcg(out, i, cuda.ldca(x, i))
        cuda.stwt(out, i, cuda.ldcg(out, i) + cuda.ldcs(x, i) + cuda.ldlu(x, i) + cuda.ldcv(x, i))

    x, out = np.arange(3.0), np.zeros(3)
    hinted[1, 3](x, out)
    assert (out == 4 * x).all()
    with pytest.raises(IndexError, match=r"x\[3\]"):
        hinted[1, 4](x, out)


def test_vector_type_has_elements_of_its_type():
    def elements():
        v = cuda.float32x4(1, 2.5, 0.1, -1)
        w = cuda.int2(cuda.int32x1(7), 2.9)
        u = cuda.float4(cuda.float2(1, 2), 3, 4)
        return v.x + v.y * 10 + (v.z == np.float32(0.1)) * 1000 + w.x * 1e4 + w.y * 1e5 + u.w * 1e6

    assert store(elements) == 1 + 25 + 1000 + 70_000 + 200_000 + 4_000_000
    assert cuda.double3 is cuda.float64x3
    assert cuda.uchar1(256).x == 0


def test_vector_type_with_wrong_number_of_elements_is_refused():
    with pytest.raises(KernelError, match="float32x4 takes 4 elements, got 2"):
        store(lambda: cuda.float4(1, 2).x)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (lambda: cuda.libdevice.rsqrtf(np.float32(4)), 0.5),
        (lambda: cuda.libdevice.rsqrt(0.0), np.inf),
        (lambda: cuda.libdevice.fast_expf(np.float32(1)), float(np.float32(math.e))),
        (lambda: cuda.libdevice.exp(1.0), math.e),
        (lambda: cuda.libdevice.fmaxf(np.float32(1), np.float32("nan")), 1),
        (lambda: cuda.libdevice.saturatef(np.float32(2)), 1),
        (lambda: cuda.libdevice.floorf(np.float32(-1.5)), -2),
        (lambda: cuda.libdevice.popc(7), 3),
        (lambda: cuda.libdevice.fast_fdividef(np.float32(1), np.float32(4)), 0.25),
    ],
)
def test_libdevice_function_computes(expression, expected):
    assert store(expression) == expected


def test_libdevice_function_not_simulated_says_so():
    with pytest.raises(NotSimulated, match=r"libdevice\.j0 is not simulated"):
        cuda.libdevice.j0  # noqa: B018
