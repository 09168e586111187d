"""Launches that no device accepts, and kernels that do not compile."""

from numba import cuda, float32

from kernels.case import KERNEL, LAUNCH, Case, case, floats, unwritten

CASES: list[Case] = []
refused = case(CASES, LAUNCH)


def line():
    return floats(8), unwritten(8)


@refused(1, 1025, line)
@cuda.jit
def one_thread_too_many(x, out):
    out[0] = x[0]


@refused(1, (32, 33), line)
@cuda.jit
def one_row_of_threads_too_many(x, out):
    out[0] = x[0]


@refused(1, (1, 1, 65), line)
@cuda.jit
def block_too_deep(x, out):
    out[0] = x[0]


@refused((1, 65536), 1, line)
@cuda.jit
def grid_too_high(x, out):
    out[0] = x[0]


@refused(-1, 32, line)
@cuda.jit
def negative_grid(x, out):
    out[0] = x[0]


@refused(1, 0, line)
@cuda.jit
def block_without_threads(x, out):
    out[0] = x[0]


@refused(8 / 4, 4, line)
@cuda.jit
def grid_divided_as_a_float(x, out):
    out[0] = x[0]


@refused(1, 8, line, dynamic_bytes=48 * 1024 + 4)
@cuda.jit
def too_much_dynamic_shared_memory(x, out):
    s = cuda.shared.array(0, float32)
    s[0] = x[0]


@refused(1, 8, line)
@cuda.jit
def too_much_static_shared_memory(x, out):
    s = cuda.shared.array((128, 128), float32)  # first
    s[0, 0] = x[0]


@refused(1, 8, line, dynamic_bytes=1024)
@cuda.jit
def static_and_dynamic_together_too_much(x, out):
    s = cuda.shared.array(12 * 1024, float32)  # first
    s[0] = x[0]


@refused(1, 8, lambda: (floats(8), [0.0] * 8))
@cuda.jit
def list_for_an_array(x, out):
    out[0] = x[0]


@refused(1, 8, line, error=KERNEL)
@cuda.jit
def shared_array_of_run_time_size(x, out):
    s = cuda.shared.array(x.size, float32)  # first
    s[cuda.threadIdx.x] = x[0]


@refused(1, 8, line, error=KERNEL)
@cuda.jit
def kernel_that_returns_a_value(x, out):
    return x[0]  # first
