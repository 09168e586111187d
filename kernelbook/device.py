"""What GPU this machine has, and whether a notebook runs on it or in the simulator.

Source: the CUDA driver API, called through ctypes, so that looking for a GPU imports neither
``numba.cuda`` nor CuPy and creates no CUDA context. Limit: a GPU that the driver lists may still
be busy or broken; ``kernelbook doctor`` runs something on it.
"""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from kernelbook.errors import KernelbookError

Device = Literal["sim", "gpu"]

VARIABLE = "KERNELBOOK_DEVICE"

CUDA_ERRORS = {
    3: "the driver could not be initialised",
    34: "only CUDA's stub library was found, not the driver",
    100: "no GPU is visible to this process",
    101: "CUDA_VISIBLE_DEVICES names a device that does not exist",
    304: "the operating system refused a call; in a container, /sys may be missing",
    803: "the driver's library and its kernel module are of different versions",
    999: "the driver reports an unknown error; a reboot often clears it",
}

_COMPUTE_CAPABILITY_MAJOR = 75  # CUdevice_attribute, cuda.h
_COMPUTE_CAPABILITY_MINOR = 76


@dataclass(frozen=True)
class Gpu:
    """One CUDA device as the driver describes it."""

    name: str
    memory_bytes: int
    compute_capability: tuple[int, int]
    driver_cuda: tuple[int, int]  # the newest CUDA version that the driver accepts


@dataclass(frozen=True)
class Probe:
    """What the driver answered. ``problem`` is "" when it answered well."""

    gpus: tuple[Gpu, ...]
    driver_cuda: tuple[int, int] | None
    problem: str


def gpu_count() -> int:
    """Number of CUDA devices that this process may use; 0 without a GPU or a driver."""
    return len(probe().gpus)


def gpus() -> tuple[Gpu, ...]:
    """The CUDA devices that this process may use, in the driver's order."""
    return probe().gpus


def choose(device: str = "auto") -> Device:
    """ "gpu" or "sim" for a wish of "auto", "sim" or "gpu".

    The environment variable ``KERNELBOOK_DEVICE`` decides what "auto" means; without it, "auto"
    is the GPU where there is one.

    Raises: KernelbookError when the wish is none of the three, or is "gpu" and there is no GPU.
    """
    asked_by = "device"
    if device == "auto":
        device = os.environ.get(VARIABLE, "").strip().lower() or "auto"
        asked_by = VARIABLE
    if device == "auto":
        return "gpu" if gpu_count() else "sim"
    if device == "sim":
        return "sim"
    if device != "gpu":
        raise KernelbookError(f"{asked_by} is {device!r}; it must be sim, gpu or auto.")
    if not gpu_count():
        raise KernelbookError(
            f"{asked_by} is 'gpu', but {probe().problem or 'no GPU was found'}. "
            "Use 'sim' to run in the simulator; `kernelbook doctor` says what the GPU lacks."
        )
    return "gpu"


@lru_cache(maxsize=1)
def probe() -> Probe:
    """Ask the driver once per process; later calls return the same answer.

    Cost: some 0.1 to 1 s on a machine with GPUs, nothing elsewhere.
    """
    driver = _load_driver()
    if driver is None:
        return Probe((), None, "no NVIDIA driver is installed (libcuda was not found)")
    version = ctypes.c_int(0)
    driver_cuda = None
    if driver.cuDriverGetVersion(ctypes.byref(version)) == 0 and version.value:
        driver_cuda = (version.value // 1000, version.value % 1000 // 10)
    status = driver.cuInit(0)
    if status:
        return Probe((), driver_cuda, CUDA_ERRORS.get(status, f"cuInit failed with code {status}"))
    count = ctypes.c_int(0)
    status = driver.cuDeviceGetCount(ctypes.byref(count))
    if status or not count.value:
        return Probe((), driver_cuda, CUDA_ERRORS[100])
    found = tuple(_describe(driver, i, driver_cuda or (0, 0)) for i in range(count.value))
    return Probe(found, driver_cuda, "")


def _load_driver() -> ctypes.CDLL | None:
    names = ("nvcuda.dll",) if sys.platform == "win32" else ("libcuda.so.1", "libcuda.so")
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def _describe(driver: ctypes.CDLL, ordinal: int, driver_cuda: tuple[int, int]) -> Gpu:
    handle = ctypes.c_int(0)
    driver.cuDeviceGet(ctypes.byref(handle), ordinal)
    name = ctypes.create_string_buffer(256)
    driver.cuDeviceGetName(name, len(name), handle)
    memory = ctypes.c_size_t(0)
    driver.cuDeviceTotalMem_v2(ctypes.byref(memory), handle)
    major, minor = ctypes.c_int(0), ctypes.c_int(0)
    driver.cuDeviceGetAttribute(ctypes.byref(major), _COMPUTE_CAPABILITY_MAJOR, handle)
    driver.cuDeviceGetAttribute(ctypes.byref(minor), _COMPUTE_CAPABILITY_MINOR, handle)
    return Gpu(
        name=name.value.decode(errors="replace"),
        memory_bytes=memory.value,
        compute_capability=(major.value, minor.value),
        driver_cuda=driver_cuda,
    )
