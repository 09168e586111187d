"""The model device: an H200 as CUDA describes it, so that limits are a real GPU's.

Source: CUDA C++ programming guide 13.0, "Compute capabilities" (9.0), and the H200 data sheet.
Limit: only numbers that bound a launch are here; nothing runs at this device's speed.
"""

from __future__ import annotations

from typing import Any

from kernelbook.simt.errors import NotSimulated

NAME = "kernelbook simulator (limits of an NVIDIA H200)"
COMPUTE_CAPABILITY = (9, 0)
THREADS_PER_BLOCK = 1024
BLOCK_LIMITS = (1024, 1024, 64)
GRID_LIMITS = (2**31 - 1, 65535, 65535)
STATIC_SHARED_BYTES = 48 * 1024
MULTIPROCESSORS = 132
THREADS_PER_MULTIPROCESSOR = 2048
BLOCKS_PER_MULTIPROCESSOR = 32

_ATTRIBUTES: dict[str, Any] = {
    "WARP_SIZE": 32,
    "MAX_THREADS_PER_BLOCK": THREADS_PER_BLOCK,
    "MAX_BLOCK_DIM_X": BLOCK_LIMITS[0],
    "MAX_BLOCK_DIM_Y": BLOCK_LIMITS[1],
    "MAX_BLOCK_DIM_Z": BLOCK_LIMITS[2],
    "MAX_GRID_DIM_X": GRID_LIMITS[0],
    "MAX_GRID_DIM_Y": GRID_LIMITS[1],
    "MAX_GRID_DIM_Z": GRID_LIMITS[2],
    "MAX_SHARED_MEMORY_PER_BLOCK": STATIC_SHARED_BYTES,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 227 * 1024,
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 228 * 1024,
    "MAX_REGISTERS_PER_BLOCK": 65536,
    "MAX_REGISTERS_PER_MULTIPROCESSOR": 65536,
    "MAX_THREADS_PER_MULTI_PROCESSOR": THREADS_PER_MULTIPROCESSOR,
    "MAX_BLOCKS_PER_MULTIPROCESSOR": BLOCKS_PER_MULTIPROCESSOR,
    "MULTIPROCESSOR_COUNT": MULTIPROCESSORS,
    "TOTAL_CONSTANT_MEMORY": 65536,
    "COOPERATIVE_LAUNCH": 1,
    "COMPUTE_CAPABILITY_MAJOR": COMPUTE_CAPABILITY[0],
    "COMPUTE_CAPABILITY_MINOR": COMPUTE_CAPABILITY[1],
}


def resident_blocks(threads: int) -> int:
    """How many blocks of ``threads`` threads the device holds at once, by threads alone."""
    each = min(THREADS_PER_MULTIPROCESSOR // threads, BLOCKS_PER_MULTIPROCESSOR)
    return each * MULTIPROCESSORS


class Device:
    """The one device there is. Attributes of a real device that it has no honest value for raise
    :class:`NotSimulated`."""

    id = 0
    name = NAME
    compute_capability = COMPUTE_CAPABILITY
    supports_float16 = True
    supports_bfloat16 = False
    supports_fp8 = False
    uuid = "GPU-simulated"

    def __getattr__(self, name: str) -> Any:
        if name in _ATTRIBUTES:
            return _ATTRIBUTES[name]
        if name.startswith("_"):
            raise AttributeError(name)
        raise NotSimulated(f"the simulated device does not know {name}")

    def __repr__(self) -> str:
        return f"<CUDA device 0 '{NAME}'>"

    def get_primary_context(self) -> Context:
        return CONTEXT

    def reset(self) -> None:
        """Nothing to reset."""


class Context:
    """The one context. There is no device memory of its own, so its size is the host's affair."""

    @property
    def device(self) -> Device:
        return DEVICE

    def synchronize(self) -> None:
        """Nothing is ever outstanding: a launch returns when it has ended."""

    def get_memory_info(self) -> Any:
        raise NotSimulated("the simulator has no device memory to measure")

    def reset(self) -> None:
        """Nothing to reset."""


class DeviceList:
    """``cuda.gpus``: a list of one; as a context manager it selects a device."""

    @property
    def lst(self) -> list[Device]:
        return [DEVICE]

    @property
    def current(self) -> Device:
        return DEVICE

    def __len__(self) -> int:
        return 1

    def __getitem__(self, number: int) -> Device:
        if number != 0:
            raise IndexError(f"the simulator has one device, number 0; {number} was asked for")
        return DEVICE

    def __iter__(self) -> Any:
        return iter((DEVICE,))


DEVICE = Device()
CONTEXT = Context()
DEVICES = DeviceList()
