"""The Triton kernel that the probes run: out = 2 x + 1. Triton reads its text from this file."""

# mypy: ignore-errors

import triton
import triton.language as tl

BLOCK = 128


@triton.jit
def scale_and_shift(x, out, count, block: tl.constexpr):
    """x, out: (count,) fp32. One program for each ``block`` elements; the tail is masked."""
    i = tl.program_id(0) * block + tl.arange(0, block)
    inside = i < count
    tl.store(out + i, tl.load(x + i, mask=inside) * 2 + 1, mask=inside)
