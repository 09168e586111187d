"""A softmax in Triton, as its tutorial teaches it: one program a row, the row in one block.

A peer of ``benchmarks/softmax.py``. It stands in a file of its own because Triton reads a kernel's
source from the file that holds it.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x, out, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, BLOCK)
    inside = place < cols
    value = tl.load(x + row * cols + place, mask=inside, other=-float("inf")).to(tl.float32)
    value = tl.exp(value - tl.max(value, axis=0))
    value = value / tl.sum(value, axis=0)
    tl.store(out + row * cols + place, value.to(out.dtype.element_ty), mask=inside)


WARPS = {1024: 4, 4096: 8, 32768: 16}  # what the tutorial's rule and its successors choose


def softmax(x: Any, out: Any) -> None:
    """out = softmax of x along its last axis; both (rows, cols), contiguous torch tensors."""
    rows, cols = x.shape
    block = triton.next_power_of_2(cols)
    softmax_kernel[(rows,)](x, out, cols, BLOCK=block, num_warps=WARPS.get(block, 8))
