"""cuda.jit in all spellings, and what a kernel may be called with."""

import numba
import numpy as np
import pytest
from numba import cuda, float32, int32, void

from kernelbook.simt import KernelError, LaunchError, NotSimulated


def body(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = i


SPELLINGS = {
    "bare": lambda f: cuda.jit(f),
    "parentheses": lambda f: cuda.jit()(f),
    "string": lambda f: cuda.jit("void(float32[:])")(f),
    "string_without_void": lambda f: cuda.jit("(float32[:],)")(f),
    "tuple": lambda f: cuda.jit((float32[:],))(f),
    "signature": lambda f: cuda.jit(void(float32[::1]))(f),
    "list": lambda f: cuda.jit(["void(float32[:])", "void(float64[:])"])(f),
    "options": lambda f: cuda.jit(
        fastmath=True, inline="always", cache=True, max_registers=32, link=("a.cu",), opt=True,
        lineinfo=True, debug=False, launch_bounds=256,
    )(f),
}  # fmt: skip


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_jit_every_spelling_makes_a_kernel(spelling):
    x = np.full(5, -1, np.float32)
    SPELLINGS[spelling](body)[1, 8](x)
    assert x.tolist() == [0, 1, 2, 3, 4]


def test_jit_keeps_name_doc_and_py_func():
    @cuda.jit
    def named(x):
        """What it does."""

    assert named.__name__ == "named"
    assert named.__doc__ == "What it does."
    assert named.py_func.__name__ == "named"
    assert named.specialize(np.zeros(1)) is named
    named.compile("void(float32[:])")


def test_jit_unknown_option_raises_type_error():
    with pytest.raises(TypeError, match="no_such_option"):
        cuda.jit(no_such_option=True)


def test_jit_boundscheck_is_refused_as_numba_does():
    with pytest.raises(NotImplementedError, match="boundscheck"):
        cuda.jit(boundscheck=True)


def test_jit_signature_with_return_value_is_refused():
    with pytest.raises(TypeError, match="void return type"):
        cuda.jit("float32(float32[:])")


def test_jit_of_something_else_is_refused():
    with pytest.raises(TypeError, match="neither a function nor a signature"):
        cuda.jit(3)


def test_signature_with_other_type_says_which_argument():
    kernel = cuda.jit("void(float32[:])")(body)
    with pytest.raises(LaunchError, match="x is declared 1-d float32, got 1-d float64"):
        kernel[1, 8](np.zeros(5))


def test_signature_converts_scalars():
    @cuda.jit("void(float32[:], float32, int32)")
    def store(out, a, b):
        out[0] = a == np.float32(0.1)
        out[1] = b

    out = np.zeros(2, np.float32)
    store[1, 1](out, 0.1, 2.9)
    assert out.tolist() == [1, 2]


def test_list_of_signatures_takes_the_one_that_fits():
    kernel = cuda.jit([void(float32[:]), void(int32[:])])(body)
    x = np.zeros(3, np.int32)
    kernel[1, 4](x)
    assert x.tolist() == [0, 1, 2]


@pytest.mark.parametrize("args", [(), (1, 2)], ids=["too_few", "too_many"])
def test_call_with_wrong_number_of_arguments_says_so(args):
    kernel = cuda.jit(body)
    with pytest.raises(LaunchError, match=rf"body takes 1 arguments \(x\), got {len(args)}"):
        kernel[1, 1](*args)


@pytest.mark.parametrize("value", [[1, 2], {"a": 1}, "text", object()], ids=type)
def test_call_with_argument_that_no_kernel_takes_says_so(value):
    kernel = cuda.jit(body)
    with pytest.raises(LaunchError, match="argument x is a "):
        kernel[1, 1](value)


def test_call_without_configuration_says_how():
    with pytest.raises(LaunchError, match=r"body\[blocks_per_grid, threads_per_block\]"):
        cuda.jit(body)(np.zeros(3))


def test_kernel_that_returns_a_value_is_refused():
    @cuda.jit
    def gives(x):
        return x[0]

    with pytest.raises(KernelError, match=r"line \d+: returns a value.*\n    \d+ | return x\[0\]"):
        gives[1, 1](np.zeros(1))


def test_kernel_defaults_are_used():
    @cuda.jit
    def scale(x, factor=3.0):
        x[cuda.grid(1)] *= factor

    x = np.ones(2)
    scale[1, 2](x)
    assert x.tolist() == [3, 3]


def test_device_function_is_called_from_kernels():
    @cuda.jit(device=True)
    def square(v):
        return v * v

    @cuda.jit("float32(float32)", device=True)
    def twice_square(v):
        return 2 * square(v)

    @cuda.jit
    def apply(x):
        i = cuda.grid(1)
        x[i] = twice_square(x[i])

    x = np.arange(4, dtype=np.float32)
    apply[2, 2](x)
    assert x.tolist() == [0, 2, 8, 18]


def test_device_function_from_host_is_refused():
    @cuda.jit(device=True)
    def square(v):
        return v * v

    with pytest.raises(LaunchError, match="only device code can call it"):
        square(2)
    with pytest.raises(LaunchError, match="square is a device function"):
        square[1, 1](2)


def test_device_function_without_decorator_is_refused():
    with pytest.raises(KernelError, match="helper is a plain Python function"):
        calls_helper[1, 1](np.zeros(1))


def helper(v):
    return v


@cuda.jit
def calls_helper(x):
    x[0] = helper(x[0])


def test_njit_function_is_called_from_kernels():
    @numba.njit
    def half(v):
        return v / 2

    @cuda.jit
    def halve(x):
        x[0] = half(x[0])

    x = np.ones(1)
    halve[1, 1](x)
    assert x[0] == 0.5


def test_launch_inside_a_kernel_is_refused_and_the_next_launch_works():
    inner = cuda.jit(body)

    @cuda.jit
    def outer(x):
        inner[1, 1](x)

    @cuda.jit
    def calls(x):
        inner(x)

    with pytest.raises(KernelError, match="body is launched from inside a kernel"):
        outer[1, 1](np.zeros(1))
    with pytest.raises(KernelError, match="a kernel can't call a kernel"):
        calls[1, 1](np.zeros(1))
    x = np.full(2, -1.0)
    inner[1, 2](x)
    assert x.tolist() == [0, 1]


def test_inspection_needs_the_real_compiler():
    with pytest.raises(NotSimulated, match="inspect_asm"):
        cuda.jit(body).inspect_asm()


def test_overloads_give_a_cooperative_grid_size():
    overload = cuda.jit(body).overloads[(float32[:],)]
    assert overload.max_cooperative_grid_blocks(256) == 132 * 8
