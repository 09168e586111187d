"""The CUDA simulator: runs Numba CUDA kernels with no GPU. Importing it changes nothing.

``install()`` makes ``from numba import cuda`` give :mod:`kernelbook.simt.cuda`; ``observe()`` is
the seam through which every memory access can be heard.
"""

from kernelbook.simt import cuda
from kernelbook.simt.errors import (
    BarrierError,
    BoundsError,
    DeadlockError,
    KernelError,
    LaunchError,
    LaunchInterrupted,
    NotSimulated,
    SimulatorWarning,
    TimeLimitError,
    WarpError,
)
from kernelbook.simt.module import install, installed
from kernelbook.simt.seam import Access, Allocation, Observer, observe
from kernelbook.simt.trace import Trace

__all__ = [
    "Access",
    "Allocation",
    "BarrierError",
    "BoundsError",
    "DeadlockError",
    "KernelError",
    "LaunchError",
    "LaunchInterrupted",
    "NotSimulated",
    "Observer",
    "SimulatorWarning",
    "TimeLimitError",
    "Trace",
    "WarpError",
    "cuda",
    "install",
    "installed",
    "observe",
]
