import numpy as np
from numba import cuda

THREADS = 256


@cuda.jit
def add(x, y, z):
    i = cuda.grid(1)
    if i < z.size:
        z[i] = x[i] + y[i]


def vector_add(x, y):
    z = cuda.device_array(x.shape, np.float32)
    blocks = -(-x.size // THREADS)
    add[blocks, THREADS](cuda.to_device(x), cuda.to_device(y), z)
    return z.copy_to_host()
