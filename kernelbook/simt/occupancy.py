"""Theoretical occupancy: how many blocks an SM holds at once, and what keeps it from more.

Warps have registers allotted in units, each from the quarter of the SM that the warp runs on;
blocks have shared memory in units, with 1 KiB of the system's own from compute capability 8.0 on.
Source: ``cuda_occupancy.h`` of CUDA 13.0, whose answers this reproduces.
Limits: barriers and memory carve-outs set by hand are left out; the SM is taken to have all its
shared memory configured as such.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernelbook.simt import device
from kernelbook.simt.device import Model
from kernelbook.simt.errors import LaunchError
from kernelbook.simt.registers import WARP_SIZE

RegistersOf = Callable[[Any, tuple[Any, ...]], int | None]

_UNBOUNDED = 1 << 30  # blocks, where a resource is not used at all
_connected: list[RegistersOf] = []  # whoever compiles for real: at most one


@dataclass(frozen=True)
class Occupancy:
    """What an SM holds. ``fraction``: active warps of the most that it can have.

    limited_by: those of "threads", "registers", "shared memory", "blocks" that alone allow no more
    blocks than ``blocks_per_sm``, in that order. why: the first of them in a sentence.
    """

    blocks_per_sm: int
    active_warps: int
    fraction: float
    limited_by: tuple[str, ...]
    why: str


def theoretical(
    threads: int, registers: int, shared_bytes: int = 0, model: Model | None = None
) -> Occupancy:
    """Occupancy of a kernel on ``model``, by default the one in use.

    threads: of a block. registers: a thread, from the real compile; 0 when they are not known.
    shared_bytes: of a block, static and dynamic. Raises ValueError for a block without threads.
    """
    if threads < 1:
        raise ValueError(f"a block has at least one thread, got {threads}")
    chosen = model or device.model()
    warps = _ceil(threads, WARP_SIZE)
    limits = {
        "threads": chosen.warps_per_sm // warps if threads <= device.THREADS_PER_BLOCK else 0,
        "registers": _blocks_by_registers(warps, registers, chosen),
        "shared memory": _blocks_by_shared(shared_bytes, chosen),
        "blocks": chosen.blocks_per_sm,
    }
    blocks = min(limits.values())
    limited_by = tuple(name for name, limit in limits.items() if limit == blocks)
    active = blocks * warps
    what = {
        "threads": f"{warps} warps a block, of {chosen.warps_per_sm} that an SM holds",
        "registers": (
            f"{registers} registers a thread, "
            f"{warps * _round_up(registers * WARP_SIZE, chosen.register_unit):,} a block, of "
            f"{chosen.registers_per_sm:,} that an SM has"
        ),
        "shared memory": (
            f"{_allotted(shared_bytes, chosen):,} bytes of shared memory a block with what the "
            f"system takes, of {chosen.shared_per_sm:,} that an SM has"
        ),
        "blocks": f"an SM holds at most {chosen.blocks_per_sm} blocks",
    }[limited_by[0]]
    fits = f"{blocks} block{'s' * (blocks != 1)} fit an SM of the {chosen.name}"
    return Occupancy(blocks, active, active / chosen.warps_per_sm, limited_by, f"{fits}: {what}.")


def registers_of_block(threads: int, registers: int, model: Model | None = None) -> int:
    """Registers that a launch must find for one block: warps and registers in their units.

    The launch check counts warps up to a multiple of the SM's partitions.
    """
    chosen = model or device.model()
    warps = _round_up(_ceil(threads, WARP_SIZE), chosen.partitions)
    return warps * _round_up(registers * WARP_SIZE, chosen.register_unit)


def may_exceed(threads: int, model: Model | None = None) -> bool:
    """Whether a block of ``threads`` could need more registers than there are: worth a compile."""
    chosen = model or device.model()
    needed = registers_of_block(threads, device.REGISTERS_PER_THREAD, chosen)
    return needed > chosen.registers_per_block


def require_launchable(
    kernel: str, threads: int, registers: int, model: Model | None = None
) -> None:
    """Raise LaunchError when a block of ``threads`` needs more registers than a block may have."""
    chosen = model or device.model()
    needed = registers_of_block(threads, registers, chosen)
    limit = chosen.registers_per_block
    if needed <= limit:
        return
    warps = _round_up(_ceil(threads, WARP_SIZE), chosen.partitions)
    unit = chosen.register_unit // WARP_SIZE
    most_registers = limit // warps // chosen.register_unit * unit
    each = _round_up(registers * WARP_SIZE, chosen.register_unit)
    most_threads = limit // each // chosen.partitions * chosen.partitions * WARP_SIZE
    raise LaunchError(
        f"{kernel}: a block of {threads:,} threads with {registers} registers each needs "
        f'{needed:,} registers, the limit of the {chosen.name} is {limit:,}; a GPU says "too many '
        f'resources requested for launch". Use blocks of at most {most_threads:,} threads, or '
        f"@cuda.jit(max_registers={most_registers}), which may spill to local memory."
    )


def connect(registers_of: RegistersOf | None) -> None:
    """Let launches ask ``registers_of(kernel, args)`` for the registers of the real compile.

    It answers None when it does not know; then, or when None is connected, nothing is checked.
    """
    _connected[:] = [] if registers_of is None else [registers_of]


def require_resources(kernel: Any, threads: int, args: tuple[Any, ...]) -> None:
    """Raise LaunchError when a block of ``threads`` has not the registers for ``kernel``.

    kernel: a dispatcher; args: of the launch. The compiler is asked only for a block so large that
    it may matter. ``launch_bounds`` of the kernel must hold, too.
    """
    bounds = kernel.targetoptions.get("launch_bounds")
    most = bounds[0] if isinstance(bounds, (tuple, list)) else bounds
    if most and threads > most:
        raise LaunchError(
            f"{kernel.__name__}: a block of {threads:,} threads, but the kernel was compiled with "
            f"launch_bounds={bounds}: at most {most:,} threads. Use smaller blocks or wider bounds."
        )
    if _connected and may_exceed(threads):
        registers = _connected[0](kernel, args)
        if registers is not None:
            require_launchable(kernel.__name__, threads, registers)


def _blocks_by_registers(warps: int, registers: int, model: Model) -> int:
    if registers <= 0:
        return _UNBOUNDED
    threads = warps * WARP_SIZE
    if (
        registers > device.REGISTERS_PER_THREAD
        or registers_of_block(threads, registers, model) > model.registers_per_block
    ):
        return 0
    each = _round_up(registers * WARP_SIZE, model.register_unit)
    per_partition = model.registers_per_sm // model.partitions // each
    return per_partition * model.partitions // warps


def _blocks_by_shared(shared_bytes: int, model: Model) -> int:
    if shared_bytes > model.shared_optin:
        return 0
    allotted = _allotted(shared_bytes, model)
    return model.shared_per_sm // allotted if allotted else _UNBOUNDED


def _allotted(shared_bytes: int, model: Model) -> int:
    return _round_up(shared_bytes + model.reserved_shared, model.shared_unit)


def _ceil(n: int, unit: int) -> int:
    return -(-n // unit)


def _round_up(n: int, unit: int) -> int:
    return _ceil(n, unit) * unit
