"""Record, on a real GPU, what its driver says of occupancy, limits and refused launches.

    PYTHONPATH=$PWD python3 tests/simt/record_occupancy.py tests/simt/occupancy-h200.json

Kernels with many different numbers of registers, from NVRTC through CuPy; the driver's
cuOccupancyMaxActiveBlocksPerMultiprocessor answers for blocks and shared memory of many sizes, and
launches at the edge of what the registers allow are tried.
"""

from __future__ import annotations

import json
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import cupy

LIVE = (1, 10, 24, 40, 56, 72, 90, 110, 130, 160, 190, 220, 240)  # floats that stay in registers
THREADS = (32, 33, 64, 96, 128, 160, 256, 320, 384, 416, 512, 640, 768, 1000, 1024)
SHARED = (0, 100, 1024, 4000, 8192, 16384, 20000, 33000, 49152, 65536, 100000, 232448)
PROPERTIES = (
    "multiProcessorCount", "maxThreadsPerMultiProcessor", "maxBlocksPerMultiProcessor",
    "maxThreadsPerBlock", "regsPerBlock", "regsPerMultiprocessor", "sharedMemPerBlock",
    "sharedMemPerBlockOptin", "sharedMemPerMultiprocessor", "reservedSharedMemPerBlock",
)  # fmt: skip


def source(live: int, bounds: str = "") -> str:
    """A kernel that keeps ``live`` floats at once through a loop of unknown length."""
    names = [f"a{n}" for n in range(live)]
    loads = "\n".join(f"  float {a} = x[i + {n}];" for n, a in enumerate(names))
    mixes = "\n".join(
        f"    {a} = {a} * {names[(n + 1) % live]} + {names[(n + live // 2) % live]};"
        for n, a in enumerate(names)
    )
    stores = "\n".join(f"  x[i + {n}] = {a};" for n, a in enumerate(names))
    return (
        f'extern "C" __global__ void {bounds} k(float* x, int turns) {{\n'
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        f"{loads}\n  for (int t = 0; t < turns; ++t) {{\n{mixes}\n  }}\n{stores}\n}}\n"
    )


def occupancy_rows() -> list[dict[str, int]]:
    """The driver's answer for a choice of blocks and shared memory of each kernel."""
    ask = cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor
    rows = []
    for number, live in enumerate(LIVE):
        kernel = cupy.RawKernel(source(live), "k")
        kernel.max_dynamic_shared_size_bytes = max(SHARED)
        for place, threads in enumerate(THREADS):
            for shared in {SHARED[(number + place) % len(SHARED)], 0}:
                rows.append(
                    {
                        "threads": threads,
                        "registers": kernel.num_regs,
                        "shared_bytes": shared,
                        "blocks_per_sm": ask(kernel.kernel.ptr, threads, shared),
                    }
                )
    return rows


def launch_rows() -> list[dict[str, Any]]:
    """Whether one block of each size starts, and the error that the driver gives if not."""
    x = cupy.zeros(4096, cupy.float32)
    rows = []
    for live in LIVE:
        kernel = cupy.RawKernel(source(live), "k")
        for threads in range(128, 1025, 32):
            rows.append(
                {"threads": threads, "registers": kernel.num_regs, **tried(kernel, threads, x)}
            )
    return rows


def tried(kernel: Any, threads: int, x: Any) -> dict[str, str]:
    """{"error": what the driver says}, "" when the launch ran."""
    try:
        kernel((1,), (threads,), (x, cupy.int32(1)))
        cupy.cuda.Device().synchronize()
    except cupy.cuda.driver.CUDADriverError as error:
        return {"error": str(error)}
    return {"error": ""}


def main(path: str) -> None:
    """Write the record as one JSON file."""
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    bounded = cupy.RawKernel(source(4, "__launch_bounds__(128)"), "k")
    record = {
        "gpu": properties["name"].decode(),
        "driver": cupy.cuda.runtime.driverGetVersion(),
        "cupy": cupy.__version__,
        "python": platform.python_version(),
        "date": datetime.now(UTC).date().isoformat(),
        "command": "python3 tests/simt/record_occupancy.py",
        "properties": {name: properties[name] for name in PROPERTIES if name in properties},
        "rows": occupancy_rows(),
        "launches": launch_rows(),
        "beyond_launch_bounds": tried(bounded, 256, cupy.zeros(512, cupy.float32)),
    }
    Path(path).write_text(json.dumps(record, indent=1) + "\n")
    print(len(record["rows"]), "rows,", len(record["launches"]), "launches ->", path)


if __name__ == "__main__":
    main(sys.argv[1])
