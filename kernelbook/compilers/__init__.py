"""Compile a kernel for real, on any machine: to PTX and registers for sm_90, with no GPU present.

Numba kernels go through numba-cuda, CUDA C++ through NVRTC, both in a helper process that stays
up: a process in which the simulator has taken ``numba.cuda``'s place cannot run the real compiler.
Only lifted source is run there (:mod:`kernelbook.lift`).

Limit: what compiles may still be wrong, and a GPU may have less shared memory or registers left
than a launch asks for.
"""

from kernelbook.compilers.client import Worker, compile_cuda, compile_kernel, warm_up
from kernelbook.compilers.compiled import Compiled, KernelRefused
from kernelbook.compilers.live import kernel_of

__all__ = [
    "Compiled",
    "KernelRefused",
    "Worker",
    "compile_cuda",
    "compile_kernel",
    "kernel_of",
    "warm_up",
]
