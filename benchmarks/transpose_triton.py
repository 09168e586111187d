"""A transpose in Triton, a peer of ``benchmarks/transpose.py``: one tile a program, ``tl.trans``.

Tile and warps are tuned over ``CONFIGS`` at the first call of each shape.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n}, num_warps=warps)
    for m, n, warps in (
        (32, 32, 4),
        (64, 64, 4),
        (64, 64, 8),
        (64, 128, 8),
        (128, 64, 8),
        (128, 128, 8),
    )
]


@triton.autotune(configs=CONFIGS, key=["rows", "cols"])
@triton.jit
def transpose_tile(x, out, rows, cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    m = tl.program_id(1).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (m[:, None] < rows) & (n[None, :] < cols)
    tile = tl.load(x + m[:, None] * cols + n[None, :], mask=inside)
    target = out + n[:, None] * rows + m[None, :]
    tl.store(target, tl.trans(tile), mask=(n[:, None] < cols) & (m[None, :] < rows))


def launch(x: Any, out: Any) -> None:
    """out (cols, rows) = x (rows, cols) transposed; contiguous float32 torch tensors on a GPU."""
    rows, cols = x.shape

    def grid(meta: dict[str, int]) -> tuple[int, int]:
        return triton.cdiv(cols, meta["BLOCK_N"]), triton.cdiv(rows, meta["BLOCK_M"])

    transpose_tile[grid](x, out, rows, cols)


def chosen() -> str:
    """The configuration that tuning took last."""
    return str(transpose_tile.best_config)
