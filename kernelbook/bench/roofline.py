"""The memory roofline: what a GPU can move at best, and what a copy moves in fact.

A time below bytes ÷ peak bandwidth is not fast, it is wrong: the work was not done, or the data
came from a cache. :func:`require_possible` refuses it.

Limit: peaks are the vendor's figures for DRAM; data that stays in L2 can beat them honestly, so
rotate buffers much larger than L2 before you trust a refusal.
"""

from __future__ import annotations

import re

from kernelbook.errors import KernelbookError

# Peak DRAM bandwidth in GB/s (10⁹ bytes), from NVIDIA's data sheets. The first name that
# stands as whole words in the device's own name counts, so the longer names come first.
PEAK_GBPS = {
    "H200": 4800.0,
    "H100 PCIe": 2000.0,
    "H100 NVL": 3900.0,
    "H100": 3350.0,
    "A100-SXM4-80GB": 2039.0,
    "A100 80GB PCIe": 1935.0,
    "A100": 1555.0,
    "L40S": 864.0,
    "L4": 300.0,
    "A10": 600.0,
    "T4": 320.0,
}


class ImpossibleTime(KernelbookError):
    """A measured time lies below the physical floor."""


def peak_gbps(gpu: str) -> float:
    """Peak DRAM bandwidth of the GPU called ``gpu``, in GB/s.

    Raises KernelbookError for a GPU that the table does not hold.
    """
    for name, peak in PEAK_GBPS.items():
        if re.search(rf"\b{re.escape(name)}\b", gpu):
            return peak
    raise KernelbookError(
        f"no peak bandwidth is known for {gpu!r}; add it to PEAK_GBPS in {__file__} "
        "from its data sheet"
    )


def rate_gbps(size_bytes: int, time_us: float) -> float:
    """Bytes ÷ time, in GB/s."""
    return size_bytes / time_us / 1e3


def floor_us(size_bytes: int, gbps: float) -> float:
    """The least time in which ``gbps`` can move ``size_bytes``, in µs."""
    return size_bytes / gbps / 1e3


def require_possible(kernel: str, time_us: float, size_bytes: int, gbps: float) -> None:
    """Raise ImpossibleTime when ``gbps`` cannot move ``size_bytes`` in ``time_us``."""
    floor = floor_us(size_bytes, gbps)
    if not time_us >= floor:  # also refuses NaN
        raise ImpossibleTime(
            f"{kernel}: {time_us:.2f} µs for {size_bytes} bytes; at the peak of {gbps:.0f} GB/s "
            f"they take {floor:.2f} µs. Check that the work is done and that the inputs outgrow L2."
        )
