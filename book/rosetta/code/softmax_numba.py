import math

import numpy as np
from numba import cuda, float32

LANES, ROWS = 32, 4  # a warp takes a row; a block takes four


@cuda.jit
def normalise(x, out):
    lane, row = cuda.threadIdx.x, cuda.grid(2)[1]
    if row >= x.shape[0]:
        return

    top, total = float32(-math.inf), float32(0)
    for i in range(lane, x.shape[1], LANES):
        value = x[row, i]
        if value > top:
            total *= math.exp(top - value)
            top = value
        if value > -math.inf:
            total += math.exp(value - top)

    offset = 16
    while offset > 0:
        other_top = cuda.shfl_xor_sync(0xFFFFFFFF, top, offset)
        other_total = cuda.shfl_xor_sync(0xFFFFFFFF, total, offset)
        if other_total > 0:
            new_top = max(top, other_top)
            if total > 0:
                total *= math.exp(top - new_top)
            total += other_total * math.exp(other_top - new_top)
            top = new_top
        offset //= 2

    for i in range(lane, x.shape[1], LANES):
        out[row, i] = math.exp(x[row, i] - top) / total


def softmax(x):
    out = cuda.device_array(x.shape, np.float32)
    blocks = -(-x.shape[0] // ROWS)
    normalise[(1, blocks), (LANES, ROWS)](cuda.to_device(x), out)
    return out.copy_to_host()
