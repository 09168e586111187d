"""C = A·B on one GPU, fp32 without tensor cores and fp16 on them, beside cuBLAS.

``python benchmarks/matmul.py --out benchmarks/matmul-h200.json``

Ours are the kernels of ``benchmarks/matmul_kernels``: in fp32 a register tile in Numba and one in
CUDA C++, in fp16 (sums in fp32) WMMA, ``mma.sync`` and, on Hopper, ``wgmma``. The peer is cuBLAS,
called by torch with TF32 off. All matrices are row-major and random (standard normal): a tensor
core that multiplies zeros draws less power, and is faster.

Ours and the peer are replayed as CUDA graphs in turn, over sets of matrices that rotate so that L2
holds none of them. Every kernel is checked against float64: at ragged shapes, on every set before
and after the timing, and as the timed launch itself has left it.

A row holds flop and µs; the notes say the rate and what it is of cuBLAS's in the same run.
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import reduce
from matmul_kernels import launch

from kernelbook import device
from kernelbook.bench import roofline, rows, timers
from kernelbook.errors import KernelbookError

PACKAGES = ("numba", "numba-cuda", "cupy-cuda13x", "cupy-cuda12x", "torch", "cuda-bindings")

SHAPES = {  # M, N, K
    "float32": ((4096, 4096, 4096),),
    "float16": ((4096, 4096, 4096), (8192, 8192, 8192)),
}
RAGGED = ((1000, 776, 520), (513, 1032, 72), (1, 8, 8), (130, 264, 8))  # only checked
LEAST_WORKING_SET_BYTES = 1 << 30
LEAST_SETS = 3
REPEATS = 8
SAMPLES = 30
# Of the error to the size of C (root mean square), on average and at worst. fp16 rounds C once:
# at most 2⁻¹² of a number, and the largest of 8192² are six times the average.
TOLERANCE = {"float32": (1e-5, 1e-4), "float16": (4e-4, 4e-3)}
PEER = "cuBLAS"
CEILING_ROUNDS, CEILING_WARM_UP = 1000, 60  # 0.3 ms a launch; half a second until it is as warm
# Multiplications and additions a clock and SM: 4 tensor cores of Hopper, 128 lanes.
FLOP_PER_CLOCK = {"float16": 4096, "float32": 256}


@dataclass(frozen=True)
class Matrices:
    """a: (M, K), b: (K, N), c: (M, N), all CuPy's; ``product``: a·b in float64, in torch."""

    a: Any
    b: Any
    c: Any
    product: Any


@dataclass(frozen=True)
class Case:
    """``bind(a, b, c)`` is a launch on those matrices."""

    name: str
    peer: str
    bind: launch.Bind
    note: str


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure matrix multiplication.")
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="times each kernel is timed")
    options = parser.parse_args()
    if not device.gpu_count():
        message = "benchmarks/matmul.py: no GPU here, and only a GPU has times. Run it on one."
        print(message, file=sys.stderr)
        return 2
    try:
        recording = measure(options.samples)
        rows.write(recording, options.out)
    except KernelbookError as error:
        print(f"benchmarks/matmul.py: {error}", file=sys.stderr)
        return 1
    print(table(recording))
    return 0


def measure(samples: int) -> rows.Recording:
    """Time every kernel at every shape. Raises KernelbookError for a wrong or impossible result."""
    import cupy

    machine = rows.machine(PACKAGES)
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    stream = cupy.cuda.Stream(non_blocking=True)
    copy_gbps = _copy_gbps(stream, samples)
    found: list[rows.Row] = []
    notes: dict[str, str] = {}
    for dtype, shapes in SHAPES.items():
        cases = _cases(dtype, stream)
        for shape in RAGGED:
            for case in cases:
                _require(case, _matrices(shape, dtype, 0), dtype, stream, "ragged")
        for shape in shapes:
            times = _times(cases, shape, dtype, samples, stream)
            percentiles = {name: timers.percentiles(values) for name, values in times.items()}
            for case in cases:
                time = percentiles[case.name]
                row = _row(case, shape, dtype, time, copy_gbps, machine, date)
                ratio = percentiles[PEER].p50_us / time.p50_us
                found.append(row)
                notes[f"{case.name}, {dtype}, {'×'.join(map(str, shape))}"] = (
                    f"{tflops(row):.1f} TFLOP/s, {ratio:.3f} of cuBLAS; {case.note}; "
                    f"timed as a graph of {REPEATS}"
                )
    notes["mma.sync on registers alone"] = _ceiling(stream, samples)
    return rows.Recording(
        benchmark="matmul",
        gpu=machine.gpu,
        driver=machine.driver,
        versions=machine.versions,
        date=date,
        command="python benchmarks/matmul.py",
        copy_gbps=round(copy_gbps, 1),
        rows=tuple(found),
        notes=notes,
    )


def table(recording: rows.Recording) -> str:
    """The recording as text, one line a row."""
    peers = {(row.shape, row.dtype): row.p50_us for row in recording.rows if row.peer}
    lines = [f"{recording.gpu}, driver {recording.driver}; copy {recording.copy_gbps:.0f} GB/s"]
    lines.append(
        f"{'kernel':<22}{'dtype':<9}{'M = N = K':>9}{'p20':>10}{'p50':>10}{'p80 µs':>10}"
        f"{'TFLOP/s':>9}{'cuBLAS':>8}"
    )
    for row in recording.rows:
        ratio = peers[row.shape, row.dtype] / row.p50_us
        lines.append(
            f"{row.kernel:<22}{row.dtype:<9}{row.shape[0]:>9}{row.p20_us:>10.1f}{row.p50_us:>10.1f}"
            f"{row.p80_us:>10.1f}{tflops(row):>9.1f}{ratio:>8.3f}"
        )
    lines += [f"{name}: {note}" for name, note in recording.notes.items() if "alone" in name]
    return "\n".join(lines)


def tflops(row: rows.Row) -> float:
    """10¹² additions and multiplications a second, at the median."""
    return row.flops / row.p50_us / 1e6


def _row(
    case: Case,
    shape: tuple[int, int, int],
    dtype: str,
    time: timers.Percentiles,
    copy_gbps: float,
    machine: rows.Machine,
    date: str,
) -> rows.Row:
    """Raises ImpossibleTime for a time below what memory or the multipliers of this GPU allow."""
    m, n, k = shape
    size, flops = np.dtype(dtype).itemsize * (m * k + k * n + m * n), 2 * m * n * k
    label = f"{case.name}, {dtype}, {shape}"
    roofline.require_possible(label, time.p20_us, size, roofline.peak_gbps(machine.gpu))
    floor_us = flops / _peak_flops_per_us(dtype)
    if not time.p20_us >= floor_us:
        raise roofline.ImpossibleTime(
            f"{label}: {time.p20_us:.1f} µs, but its {flops} operations take {floor_us:.1f} µs at "
            "the highest clock. Check that the work is done."
        )
    return rows.Row(
        kernel=case.name,
        peer=case.peer,
        shape=shape,
        dtype=dtype,
        gpu=machine.gpu,
        versions=machine.versions,
        date=date,
        p20_us=round(time.p20_us, 3),
        p50_us=round(time.p50_us, 3),
        p80_us=round(time.p80_us, 3),
        bytes=size,
        flops=flops,
        fraction_of_copy=round(roofline.rate_gbps(size, time.p50_us) / copy_gbps, 4),
    )


def _peak_flops_per_us(dtype: str) -> float:
    import cupy

    attributes = cupy.cuda.Device().attributes
    mhz = attributes["ClockRate"] / 1e3
    return float(FLOP_PER_CLOCK[dtype] * attributes["MultiProcessorCount"] * mhz)


# ---- kernels -------------------------------------------------------------------------------------


def _cases(dtype: str, stream: Any) -> list[Case]:
    """cuBLAS first, then ours, from the simplest to the fastest."""
    import cupy

    peer = Case(PEER, "torch", _torch_bind(stream), "torch.matmul(a, b, out=c), TF32 off")
    if dtype == "float32":
        kernels = [("fp32 float4, cp.async", launch.fp32())]
        cases = [peer, Case("fp32 Numba", "", _numba_bind(stream), "register_tile.py")]
    else:
        kernels = [("fp16 WMMA", launch.wmma()), ("fp16 mma.sync", launch.mma())]
        if cupy.cuda.Device().compute_capability == "90":
            kernels.append(("fp16 wgmma, TMA", launch.wgmma()))
        cases = [peer]
    for name, kernel in kernels:
        macros = ", ".join(f"{macro} {value}" for macro, value in kernel.macros.items())
        cases.append(Case(name, "", launch.load(kernel), f"{kernel.name}.cu with {macros}"))
    return cases


def _numba_bind(stream: Any) -> launch.Bind:
    os.environ["NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS"] = "0"
    from matmul_kernels import register_tile
    from numba import cuda

    numba_stream = cuda.external_stream(stream.ptr)

    def bind(a: Any, b: Any, c: Any) -> launch.Launch:
        matrices = [cuda.as_cuda_array(x) for x in (a, b, c)]
        blocks = register_tile.grid(c.shape)
        kernel = register_tile.matmul_numba[blocks, register_tile.THREADS, numba_stream]
        return lambda: kernel(*matrices)

    return bind


def _torch_bind(stream: Any) -> launch.Bind:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    ours = torch.cuda.ExternalStream(stream.ptr)

    def bind(a: Any, b: Any, c: Any) -> launch.Launch:
        left, right, out = (torch.from_dlpack(x) for x in (a, b, c))

        def call() -> None:
            with torch.cuda.stream(ours):
                torch.matmul(left, right, out=out)

        return call

    return bind


# ---- times and checks ----------------------------------------------------------------------------


def _times(
    cases: list[Case], shape: tuple[int, int, int], dtype: str, samples: int, stream: Any
) -> dict[str, list[float]]:
    """µs of one product for each kernel, ``samples`` times."""
    m, n, k = shape
    size = np.dtype(dtype).itemsize * (m * k + k * n + m * n)
    sets = [
        _matrices(shape, dtype, seed)
        for seed in range(max(LEAST_SETS, -(-LEAST_WORKING_SET_BYTES // size)))
    ]
    for case in cases:
        for matrices in sets:
            _require(case, matrices, dtype, stream, "before the timing")
    launches = {case.name: _graph(case, sets, stream) for case in cases}
    clock = timers.event_clock(stream)
    timers.interleaved(launches, clock, 3, REPEATS)  # warm up, and heat up
    times = timers.interleaved(launches, clock, samples, REPEATS)
    for case in cases:  # what the timed launch itself leaves
        for matrices in sets:
            matrices.c.fill(np.nan)
        _wait()
        with stream:
            launches[case.name]()
        stream.synchronize()
        for matrices in sets[:REPEATS]:
            _compare(case, matrices, dtype, "by the timed launch")
    return times


def _graph(case: Case, sets: list[Matrices], stream: Any) -> timers.Launch:
    """REPEATS products over the sets in turn, as one CUDA graph."""
    bound = [case.bind(x.a, x.b, x.c) for x in sets]

    def call(k: int) -> None:
        bound[k]()

    if not case.peer:
        return timers.captured(call, len(bound), REPEATS, stream)
    import torch  # its allocator must know of a capture, so torch captures its own calls

    ours = torch.cuda.ExternalStream(stream.ptr)
    graph = torch.cuda.CUDAGraph()
    call(0)
    stream.synchronize()
    with torch.cuda.graph(graph, stream=ours):
        for k in range(REPEATS):
            call(k % len(bound))

    def replay() -> None:
        with torch.cuda.stream(ours):
            graph.replay()

    return replay


def _matrices(shape: tuple[int, int, int], dtype: str, seed: int) -> Matrices:
    import cupy
    import torch

    m, n, k = shape
    generator = torch.Generator("cuda").manual_seed(seed)
    a = torch.randn(m, k, device="cuda", generator=generator).to(getattr(torch, dtype))
    b = torch.randn(k, n, device="cuda", generator=generator).to(getattr(torch, dtype))
    product = a.double() @ b.double()
    _wait()
    return Matrices(
        cupy.from_dlpack(a), cupy.from_dlpack(b), cupy.full((m, n), np.nan, dtype), product
    )


def _require(case: Case, matrices: Matrices, dtype: str, stream: Any, when: str) -> None:
    matrices.c.fill(np.nan)
    _wait()
    with stream:
        case.bind(matrices.a, matrices.b, matrices.c)()
    stream.synchronize()
    _compare(case, matrices, dtype, when)


def _compare(case: Case, matrices: Matrices, dtype: str, when: str) -> None:
    import torch

    error = torch.from_dlpack(matrices.c).double() - matrices.product
    scale = matrices.product.square().mean().sqrt()
    mean, worst = float(error.square().mean().sqrt() / scale), float(error.abs().max() / scale)
    mean_allowed, worst_allowed = TOLERANCE[dtype]
    if not (mean <= mean_allowed and worst <= worst_allowed):  # also refuses NaN
        raise KernelbookError(
            f"{case.name}, {dtype}, {matrices.a.shape} × {matrices.b.shape}, {when}: the error is "
            f"{mean:.3g} of C's size on average and {worst:.3g} at worst, allowed are "
            f"{mean_allowed:g} and {worst_allowed:g}. No time is recorded for a wrong product."
        )


def _copy_gbps(stream: Any, samples: int) -> float:
    """Bandwidth of a device-to-device copy of 1 GiB by a kernel, read and write counted."""
    import cupy

    source, target = cupy.random.random((2, 1 << 28), dtype=np.float32)
    kernel = cupy.RawKernel(reduce.COPY_SOURCE, "copy4")
    blocks = source.size // (4 * 4 * reduce.COPY_THREADS)
    _wait()

    def copy(k: int) -> None:
        kernel((blocks,), (reduce.COPY_THREADS,), (source, target))

    launches = {"copy": timers.captured(copy, 1, REPEATS, stream)}
    clock = timers.event_clock(stream)
    timers.interleaved(launches, clock, 5, REPEATS)  # warm up
    times = timers.interleaved(launches, clock, samples, REPEATS)["copy"]
    return roofline.rate_gbps(2 * source.nbytes, timers.percentiles(times).p50_us)


def _ceiling(stream: Any, samples: int) -> str:
    """What ``mma.sync`` can do at best, of random numbers and while the GPU is as warm as above."""
    import cupy

    function = launch.function_of(launch.mma_ceiling())
    blocks = cupy.cuda.Device().attributes["MultiProcessorCount"]
    x = cupy.random.standard_normal((32 * 256, 2), dtype=np.float32).astype(np.float16)
    out = cupy.empty(blocks * 256, np.float32)
    _wait()

    def call(k: int) -> None:
        function((blocks,), (256,), (x, out, np.int32(CEILING_ROUNDS)))

    launches = {"ceiling": timers.captured(call, 1, REPEATS, stream)}
    clock = timers.event_clock(stream)
    timers.interleaved(launches, clock, CEILING_WARM_UP, REPEATS)
    times = timers.percentiles(timers.interleaved(launches, clock, samples, REPEATS)["ceiling"])
    flops = blocks * 8 * CEILING_ROUNDS * 32 * 4096
    return (
        f"{flops / times.p50_us / 1e6:.1f} TFLOP/s ({flops / times.p80_us / 1e6:.1f} at p80, "
        f"{flops / times.p20_us / 1e6:.1f} at p20): 8 warps an SM, 32 products in turn"
    )


def _wait() -> None:
    import cupy

    cupy.cuda.Device().synchronize()


if __name__ == "__main__":
    sys.exit(main())
