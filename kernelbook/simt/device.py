"""The model device: which GPU's limits the simulator keeps to.

Sources: CUDA C++ programming guide 13.0, "Compute capabilities", table "Technical specifications
per compute capability" (7.5, 8.0, 8.9, 9.0); ``cuda_occupancy.h`` of CUDA 13.0 for the units in
which registers and shared memory are allotted; NVIDIA's data sheets of the products for their
numbers of multiprocessors and their memory bandwidth.
Limit: only numbers that bound a launch are here; nothing runs at this device's speed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from kernelbook.errors import KernelbookError
from kernelbook.simt.errors import NotSimulated
from kernelbook.simt.registers import WARP_SIZE

VARIABLE = "KERNELBOOK_GPU"
KIB = 1024

# The same on every model below.
THREADS_PER_BLOCK = 1024
BLOCK_LIMITS = (1024, 1024, 64)
GRID_LIMITS = (2**31 - 1, 65535, 65535)
STATIC_SHARED_BYTES = 48 * KIB
REGISTERS_PER_THREAD = 255


@dataclass(frozen=True)
class Model:
    """What one GPU has. ``sm`` is a multiprocessor; registers are of 32 bits.

    register_unit: registers are allotted to a warp in this many. partitions: an SM's registers lie
    in so many equal parts, each for its own warps. shared_optin: bytes a block may ask for beyond
    the static 48 KiB, through the driver. shared_unit, reserved_shared: shared memory is allotted
    to a block in such units, the system's own bytes included. bandwidth: peak, of device memory, in
    GB/s (10⁹ bytes).
    """

    name: str
    compute_capability: tuple[int, int]
    multiprocessors: int
    threads_per_sm: int
    blocks_per_sm: int
    shared_per_sm: int
    shared_optin: int
    shared_unit: int
    reserved_shared: int
    bandwidth: float
    registers_per_sm: int = 65536
    registers_per_block: int = 65536
    register_unit: int = 256
    partitions: int = 4

    @property
    def warps_per_sm(self) -> int:
        return self.threads_per_sm // WARP_SIZE


MODELS = {
    model.name: model
    for model in (
        Model("H200", (9, 0), 132, 2048, 32, 228 * KIB, 227 * KIB, 128, KIB, 4800.0),
        Model("A100", (8, 0), 108, 2048, 32, 164 * KIB, 163 * KIB, 128, KIB, 2039.0),  # 80 GB, SXM
        Model("L4", (8, 9), 58, 1536, 24, 100 * KIB, 99 * KIB, 128, KIB, 300.0),
        Model("RTX 4090", (8, 9), 128, 1536, 24, 100 * KIB, 99 * KIB, 128, KIB, 1008.0),
        Model("T4", (7, 5), 40, 1024, 16, 64 * KIB, 64 * KIB, 256, 0, 320.0),
    )
}
DEFAULT = "H200"
_chosen: list[Model] = []  # the model in use: none until somebody asks


def named(name: str) -> Model:
    """The model of that name, upper or lower case, with or without spaces.

    Raises KernelbookError, with the names that there are, for another.
    """
    wanted = _plain(name)
    for model in MODELS.values():
        if _plain(model.name) == wanted:
            return model
    raise KernelbookError(
        f"no GPU named {name!r} is known to the simulator; it knows {', '.join(MODELS)}"
    )


def use(name: str) -> Model:
    """Keep to the limits of the GPU of that name from now on.

    Raises KernelbookError as :func:`named`.
    """
    _chosen[:] = [named(name)]
    return _chosen[0]


def model() -> Model:
    """The model in use: that of :func:`use`, else of the variable KERNELBOOK_GPU, else the H200.

    Raises KernelbookError when the variable holds no known name.
    """
    if not _chosen:
        given = os.environ.get(VARIABLE) or DEFAULT
        try:
            use(given)
        except KernelbookError as error:
            raise KernelbookError(f"the variable {VARIABLE}: {error}") from None
    return _chosen[0]


def resident_blocks(threads: int) -> int:
    """How many blocks of ``threads`` threads the device holds at once, by threads alone."""
    chosen = model()
    warps = -(-threads // WARP_SIZE)
    return min(chosen.warps_per_sm // warps, chosen.blocks_per_sm) * chosen.multiprocessors


class Device:
    """The one device there is. Attributes of a real device that it has no honest value for raise
    :class:`NotSimulated`."""

    id = 0
    supports_float16 = True
    supports_bfloat16 = False
    supports_fp8 = False
    uuid = "GPU-simulated"

    @property
    def name(self) -> str:
        return f"kernelbook simulator (limits of an NVIDIA {model().name})"

    @property
    def compute_capability(self) -> tuple[int, int]:
        return model().compute_capability

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        attributes = _attributes(model())
        if name in attributes:
            return attributes[name]
        raise NotSimulated(f"the simulated device does not know {name}")

    def __repr__(self) -> str:
        return f"<CUDA device 0 '{self.name}'>"

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
        """Wait for all work that was given to the device."""
        from kernelbook.simt import ordering

        ordering.synchronize()

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


def _plain(name: str) -> str:
    return "".join(name.split()).replace("-", "").replace("_", "").lower()


def _attributes(chosen: Model) -> dict[str, Any]:
    """Device attributes by the names that Numba gives them."""
    return {
        "WARP_SIZE": WARP_SIZE,
        "MAX_THREADS_PER_BLOCK": THREADS_PER_BLOCK,
        "MAX_BLOCK_DIM_X": BLOCK_LIMITS[0],
        "MAX_BLOCK_DIM_Y": BLOCK_LIMITS[1],
        "MAX_BLOCK_DIM_Z": BLOCK_LIMITS[2],
        "MAX_GRID_DIM_X": GRID_LIMITS[0],
        "MAX_GRID_DIM_Y": GRID_LIMITS[1],
        "MAX_GRID_DIM_Z": GRID_LIMITS[2],
        "MAX_SHARED_MEMORY_PER_BLOCK": STATIC_SHARED_BYTES,
        "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": chosen.shared_optin,
        "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": chosen.shared_per_sm,
        "MAX_REGISTERS_PER_BLOCK": chosen.registers_per_block,
        "MAX_REGISTERS_PER_MULTIPROCESSOR": chosen.registers_per_sm,
        "MAX_THREADS_PER_MULTI_PROCESSOR": chosen.threads_per_sm,
        "MAX_BLOCKS_PER_MULTIPROCESSOR": chosen.blocks_per_sm,
        "MULTIPROCESSOR_COUNT": chosen.multiprocessors,
        "TOTAL_CONSTANT_MEMORY": 64 * KIB,
        "COOPERATIVE_LAUNCH": 1,
        "COMPUTE_CAPABILITY_MAJOR": chosen.compute_capability[0],
        "COMPUTE_CAPABILITY_MINOR": chosen.compute_capability[1],
    }


DEVICE = Device()
CONTEXT = Context()
DEVICES = DeviceList()
