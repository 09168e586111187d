"""The reduction ladder on one GPU: 2²⁵ and 2²⁸ random float32 added up to one number.

``python benchmarks/reduce.py --out benchmarks/reduce-h200.json``

The kernels are the lab's own: the reference solutions of ``solutions/cuda/reduce.md`` and two of
its alternatives, run with 256 threads a block. Each version is timed to the single number. Those
that leave a sum for each block are launched again on their own partial sums: v0 to v4 until one is
left (four launches at 2²⁵), the grid-stride ones once more, as one block. The atomic version clears
its output and is launched once.

Ours and the peers are replayed as CUDA graphs in turn, over inputs that rotate so that L2 holds
none of them; every sum is checked against float64 before and after. The yardstick is a
device-to-device copy, read and write counted. A reduction only reads, so it may exceed it.

Limit: v5 of the known ladder (a block size fixed by template) has no Numba counterpart; left out.
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernelbook import device, source
from kernelbook.bench import roofline, rows, timers
from kernelbook.errors import KernelbookError

ROOT = Path(__file__).resolve().parents[1]
LAB = ROOT / "solutions" / "cuda" / "reduce.md"
PACKAGES = ("numba", "numba-cuda", "cupy-cuda13x", "cupy-cuda12x", "torch", "numpy", "cuda-core")

THREADS = 256  # the lab teaches with 128; the known ladder is told with 256
BLOCKS_PER_SM = 8  # 8 × 256 = 2,048 threads: all that an SM from sm_80 on (but 8.6, 8.9) holds
SIZES = (1 << 25, 1 << 28)
LEAST_INPUT_BYTES = 1 << 30  # rotated over, many times any L2
REPEATS = 20
SAMPLES = 30
TOLERANCE = 1e-5  # of the sum of magnitudes
COPY_THREADS = 256
COPY_SOURCE = """
extern "C" __global__ void copy4(const float4* __restrict__ x, float4* __restrict__ y) {
    size_t first = (size_t)blockIdx.x * 4 * blockDim.x + threadIdx.x;
    float4 moved[4];
    #pragma unroll
    for (int k = 0; k < 4; ++k) moved[k] = x[first + (size_t)k * blockDim.x];
    #pragma unroll
    for (int k = 0; k < 4; ++k) y[first + (size_t)k * blockDim.x] = moved[k];
}
"""  # both sizes are multiples of what its grid moves
COPIES = ("copy", "cudaMemcpy")  # the faster one at the largest size is the yardstick

# Name in the ladder → the kernel's own name among those that `numba_kernels` returns.
LADDER = {
    "v0 interleaved, divergent": "reduce_interleaved",
    "v1 interleaved, strided": "strided",
    "v2 sequential": "reduce_sequential",
    "v3 first add": "reduce_first_add",
    "v4 last warp by shuffles": "last_warp",
    "v6 many elements": "reduce_many",
    "v7 block by shuffles": "reduce_block",
    "one pass, atomic": "reduce_atomic",
}
STRIDED, LAST_WARP = "The strided form", "The last warp finishes by shuffles"


@dataclass(frozen=True)
class Case:
    """``call(k)`` enqueues one whole reduction of input k; its result is then in ``result``."""

    name: str
    peer: str
    call: Callable[[int], object]
    result: Any  # a cupy array of one element; None for the copy
    note: str


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the reduction ladder.")
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="times each version is timed")
    options = parser.parse_args()
    if not device.gpu_count():
        message = "benchmarks/reduce.py: no GPU here, and only a GPU has times. Run it on one."
        print(message, file=sys.stderr)
        return 2
    try:
        recording = measure(options.samples)
        rows.write(recording, options.out)
    except KernelbookError as error:
        print(f"benchmarks/reduce.py: {error}", file=sys.stderr)
        return 1
    print(table(recording))
    return 0


def measure(samples: int) -> rows.Recording:
    """Time every version at every size. Raises KernelbookError for a wrong or impossible result."""
    import cupy

    machine = rows.machine(PACKAGES)
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    stream = cupy.cuda.Stream(non_blocking=True)
    times: dict[tuple[str, int], timers.Percentiles] = {}
    peers: dict[str, str] = {}
    notes: dict[str, str] = {}
    for n in SIZES:
        run = _Run(n, stream)
        found = run.times(samples)
        times |= {(name, n): timers.percentiles(values) for name, values in found.items()}
        peers |= {case.name: case.peer for case in run.cases}
        notes |= {f"{name}, n = {n}": note for name, note in run.notes.items()}
        del run
        cupy.get_default_memory_pool().free_all_blocks()
    largest = max(SIZES)
    copy_gbps = max(
        roofline.rate_gbps(_bytes(name, largest), times[name, largest].p50_us) for name in COPIES
    )
    return rows.Recording(
        benchmark="reduce",
        gpu=machine.gpu,
        driver=machine.driver,
        versions=machine.versions,
        date=date,
        command="python benchmarks/reduce.py",
        copy_gbps=round(copy_gbps, 1),
        rows=tuple(
            _row(name, peers[name], n, time, copy_gbps, machine, date)
            for (name, n), time in times.items()
        ),
        notes=notes,
    )


def _row(
    name: str,
    peer: str,
    n: int,
    time: timers.Percentiles,
    copy_gbps: float,
    machine: rows.Machine,
    date: str,
) -> rows.Row:
    """Raises ImpossibleTime for a time below the floor of this GPU's memory."""
    size = _bytes(name, n)
    peak = roofline.peak_gbps(machine.gpu)
    roofline.require_possible(f"{name}, n = {n}", time.p20_us, size, peak)
    return rows.Row(
        kernel=name,
        peer=peer,
        shape=(n,),
        dtype="float32",
        gpu=machine.gpu,
        versions=machine.versions,
        date=date,
        p20_us=round(time.p20_us, 3),
        p50_us=round(time.p50_us, 3),
        p80_us=round(time.p80_us, 3),
        bytes=size,
        flops=0 if name in COPIES else n - 1,
        fraction_of_copy=round(roofline.rate_gbps(size, time.p50_us) / copy_gbps, 4),
    )


def table(recording: rows.Recording) -> str:
    """The recording as text, one line a row."""
    lines = [f"{recording.gpu}, driver {recording.driver}; copy {recording.copy_gbps:.0f} GB/s"]
    lines.append(
        f"{'kernel':<26}{'n':>11}{'p20':>10}{'p50':>10}{'p80 µs':>10}{'GB/s':>8}{'copy':>7}"
    )
    for row in sorted(recording.rows, key=lambda row: row.shape):
        rate = roofline.rate_gbps(row.bytes, row.p50_us)
        lines.append(
            f"{row.kernel:<26}{row.shape[0]:>11}{row.p20_us:>10.2f}{row.p50_us:>10.2f}"
            f"{row.p80_us:>10.2f}{rate:>8.0f}{row.fraction_of_copy:>7.2f}"
        )
    return "\n".join(lines)


def numba_kernels(lab: source.LabSource, cuda: Any, float32: Any) -> dict[str, Any]:
    """The lab's own Numba kernels by name, made by running its solution cells.

    Two alternatives join them as ``strided`` and ``last_warp``. Raises KernelbookError when the lab
    no longer holds what the ladder names.
    """
    names: dict[str, Any] = {"cuda": cuda, "float32": float32, "np": np, "THREADS": THREADS}
    for exercise in lab.exercises.values():
        if exercise.kind is source.Kind.KERNEL:
            exec(compile(exercise.solution, str(lab.path), "exec"), names)
    for name, exercise_id, mark in (
        ("strided", "reduce_interleaved", STRIDED),
        ("last_warp", "reduce_first_add", LAST_WARP),
    ):
        found = [a for a in lab.exercises[exercise_id].alternatives if mark in a.source]
        if len(found) != 1:
            raise KernelbookError(f"{lab.path}: no alternative of {exercise_id} says {mark!r}")
        own = dict(names)
        exec(compile(found[0].source, str(lab.path), "exec"), own)
        names[name] = own[exercise_id]
    missing = set(LADDER.values()) - set(names)
    if missing:
        raise KernelbookError(f"{lab.path}: the ladder needs the kernels {sorted(missing)}")
    return names


class _Run:
    """One size: inputs that rotate, every version on them, and their times."""

    def __init__(self, n: int, stream: Any) -> None:
        import cupy

        self.n, self.stream = n, stream
        self.repeats = REPEATS
        count = max(3, LEAST_INPUT_BYTES // (4 * n))
        random = cupy.random.default_rng(n)
        with stream:
            self.inputs = [1 + random.standard_normal(n, dtype=np.float32) for _ in range(count)]
            self.sums = [float(x.sum(dtype=np.float64)) for x in self.inputs]
            self.slack = TOLERANCE * float(abs(self.inputs[0]).sum(dtype=np.float64))
        stream.synchronize()
        self.notes: dict[str, str] = {}
        self.cases = [*self._ours(), *self._peers()]

    def times(self, samples: int) -> dict[str, list[float]]:
        """µs of one reduction for each version, ``samples`` times."""
        self._check("before")
        launches = {case.name: self._launch(case) for case in self.cases}
        clock = timers.event_clock(self.stream)
        timers.interleaved(launches, clock, 2, self.repeats)  # warm up
        found = timers.interleaved(launches, clock, samples, self.repeats)
        for case in self.cases:  # what the timed launch itself has left behind
            if case.result is not None:
                self._poison(case)
                with self.stream:
                    launches[case.name]()
                self._require(case, (self.repeats - 1) % len(self.inputs), "by the timed launch")
        self._check("after")
        return found

    def _launch(self, case: Case) -> timers.Launch:
        how = "graph"
        try:
            if case.peer == "torch":
                launch = _torch_graph(case.call, len(self.inputs), self.repeats, self.stream)
            else:
                launch = timers.captured(case.call, len(self.inputs), self.repeats, self.stream)
        except Exception as error:  # a driver's or library's own; the loop is the honest way out
            how = f"loop, as it cannot be captured ({type(error).__name__}: {error})"
            launch = timers.looped(case.call, len(self.inputs), self.repeats, self.stream)
        self.notes[case.name] = f"{case.note}; timed as a {how} of {self.repeats} reductions"
        return launch

    def _check(self, when: str) -> None:
        for case in self.cases:
            for k in range(len(self.inputs)):
                if case.result is None:
                    continue
                self._poison(case)
                with self.stream:
                    case.call(k)
                self._require(case, k, when)

    def _poison(self, case: Case) -> None:
        with self.stream:
            case.result.fill(np.nan)

    def _require(self, case: Case, k: int, when: str) -> None:
        self.stream.synchronize()
        got = float(case.result.get().ravel()[0])
        if not abs(got - self.sums[k]) <= self.slack:
            raise KernelbookError(
                f"{case.name}, n = {self.n}, input {k}, {when} the timing: the sum is {got}, "
                f"expected {self.sums[k]} ± {self.slack:.3g}. No time is recorded for a wrong sum."
            )

    def _ours(self) -> Iterator[Case]:
        # The last pass is small on purpose; read once, when numba.cuda is imported.
        os.environ["NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS"] = "0"
        from numba import cuda, float32

        lab = source.read(LAB, ROOT / "solutions")
        kernels = numba_kernels(lab, cuda, float32)
        stream = cuda.external_stream(self.stream.ptr)
        inputs = [cuda.as_cuda_array(x) for x in self.inputs]
        for name, kernel in LADDER.items():
            if kernel == "reduce_atomic":
                yield self._atomic(name, kernels[kernel], inputs, stream)
                continue
            outs = [self._empty(size) for size in self._levels(kernel)]
            levels = [cuda.as_cuda_array(out) for out in outs]
            call = _passes(kernels[kernel], inputs, levels, stream)
            blocks = ", ".join(str(out.size) for out in outs)
            yield Case(name, "", call, outs[-1], f"{len(outs)} launches, of {blocks} blocks")
        yield self._float4(lab)

    def _levels(self, kernel: str) -> list[int]:
        """How many blocks each launch has, down to one."""
        if kernel in ("reduce_many", "reduce_block"):
            return [_grid(), 1]
        per_block = 2 * THREADS if kernel in ("reduce_first_add", "last_warp") else THREADS
        left, levels = self.n, []
        while left > 1:
            left = -(-left // per_block)
            levels.append(left)
        return levels

    def _atomic(self, name: str, kernel: Any, inputs: list[Any], stream: Any) -> Case:
        from numba import cuda

        out = self._empty(1)
        place = cuda.as_cuda_array(out)
        grid = _grid()

        def call(k: int) -> None:
            out.data.memset_async(0, out.nbytes, self.stream)
            kernel[grid, THREADS, stream](inputs[k], place)

        return Case(name, "", call, out, f"a memset and 1 launch of {grid} blocks")

    def _float4(self, lab: source.LabSource) -> Case:
        import cupy

        exercise = lab.exercises["reduce_float4"]
        names: dict[str, Any] = {}
        exec(compile(exercise.solution, str(lab.path), "exec"), names)
        kernel = cupy.RawKernel(names[exercise.id], exercise.entry, options=("--std=c++17",))
        grid = _grid()
        partial, out = self._empty(grid), self._empty(1)

        def call(k: int) -> None:
            kernel((grid,), (THREADS,), (self.inputs[k], partial, np.int64(self.n)))
            kernel((1,), (THREADS,), (partial, out, np.int64(grid)))

        return Case("v8 float4", "", call, out, f"CUDA C++, 2 launches, of {grid}, 1 blocks")

    def _peers(self) -> Iterator[Case]:
        import cupy

        out = self._empty(())
        yield Case(
            "cupy.sum",
            "cupy",
            lambda k: self.inputs[k].sum(out=out),
            out,
            f"accelerators {cupy._core.get_reduction_accelerators()} (1: CUB)",
        )
        try:
            import torch
        except ImportError:
            self.notes["torch.sum"] = "torch is not installed"
        else:
            yield self._torch(torch)
        target = cupy.empty_like(self.inputs[0])
        copy = cupy.RawKernel(COPY_SOURCE, "copy4")
        blocks = self.n // (4 * 4 * COPY_THREADS)
        yield Case(
            "copy",
            "cuda",
            lambda k: copy((blocks,), (COPY_THREADS,), (self.inputs[k], target)),
            None,
            "a kernel that moves four float4 a thread",
        )
        size, kind = target.nbytes, cupy.cuda.runtime.memcpyDeviceToDevice
        yield Case(
            "cudaMemcpy",
            "cuda",
            lambda k: cupy.cuda.runtime.memcpyAsync(
                target.data.ptr, self.inputs[k].data.ptr, size, kind, self.stream.ptr
            ),
            None,
            "cudaMemcpyAsync, device to device",
        )

    def _torch(self, torch: Any) -> Case:
        out = self._empty(())
        tensors = [torch.from_dlpack(x) for x in self.inputs]
        place = torch.from_dlpack(out)
        stream = torch.cuda.ExternalStream(self.stream.ptr)

        def call(k: int) -> None:
            with torch.cuda.stream(stream):
                torch.sum(tensors[k], dim=0, out=place)

        return Case("torch.sum", "torch", call, out, "torch.sum(x, dim=0, out=…)")

    def _empty(self, shape: int | tuple[()]) -> Any:
        import cupy

        return cupy.empty(shape, np.float32)


def _passes(
    kernel: Any, inputs: list[Any], levels: list[Any], stream: Any
) -> Callable[[int], None]:
    def call(k: int) -> None:
        x = inputs[k]
        for out in levels:
            kernel[out.size, THREADS, stream](x, out)
            x = out

    return call


def _torch_graph(
    call: Callable[[int], object], inputs: int, repeats: int, stream: Any
) -> timers.Launch:
    """Torch's allocator must know of a capture, so torch captures its own calls."""
    import torch

    ours = torch.cuda.ExternalStream(stream.ptr)
    graph = torch.cuda.CUDAGraph()
    call(0)
    stream.synchronize()
    with torch.cuda.graph(graph, stream=ours):
        for k in range(repeats):
            call(k % inputs)

    def launch() -> None:
        with torch.cuda.stream(ours):
            graph.replay()

    return launch


def _grid() -> int:
    """Blocks of a grid-stride launch: as many as the GPU holds at once."""
    import cupy

    attributes = cupy.cuda.Device().attributes
    return int(attributes["MultiProcessorCount"]) * BLOCKS_PER_SM


def _bytes(name: str, n: int) -> int:
    """Least bytes to and from global memory: a copy reads and writes, a sum reads."""
    return 8 * n if name in COPIES else 4 * n + 4


if __name__ == "__main__":
    sys.exit(main())
