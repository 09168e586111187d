"""The transpose ladder on one GPU: random float32, 8192² and 32768², beside a copy and its peers.

``python benchmarks/transpose.py --out benchmarks/transpose-h200.json``

Ours: the lab's own kernels, the reference solutions of ``solutions/cuda/transpose.md``, with the
blocks that the lab launches; the same steps in CUDA C++, from ``benchmarks/transpose.cu``; and
there, variants of the last step (tile, streaming hints, order of the blocks). Peers: torch's
``x.t().contiguous()``, eager and compiled, a Triton tile, cuBLAS. A peer that cannot be imported,
or that fails or returns a wrong matrix, is named in the notes and has no row.

Everything is replayed as CUDA graphs in turn, over inputs that rotate so that L2 holds none of
them. Every output is compared with the input, element by element, before the timing and once more
as the timed launch has left it. The yardstick is the fastest copy of the run, at any size: a
kernel, cudaMemcpy or torch; read and write counted.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
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
LAB = ROOT / "solutions" / "cuda" / "transpose.md"
FAMILY = ROOT / "benchmarks" / "transpose.cu"
PACKAGES = (
    "numba", "numba-cuda", "cupy-cuda13x", "cupy-cuda12x", "torch", "triton", "numpy", "cuda-core",
)  # fmt: skip

SIDES = (8192, 32768)
LEAST_INPUT_BYTES = 1 << 30  # rotated over, many times any L2
REPEATS = {8192: 12, 32768: 3}  # calls in one graph
SAMPLES = 25
TILE, ROWS = 32, 8
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
"""  # every size is a multiple of what its grid moves
ABSENT = "no row, since"  # in the note of what was left out
COPIES = ("copy", "cudaMemcpy", "torch copy_")  # the fastest, at any size, is the yardstick

# Name in the ladder → the lab's kernel, rows of threads in a block.
LADDER = {
    "v0 copy": ("copy_rows", TILE),
    "v1 naive": ("transpose_naive", TILE),
    "v2 tiled": ("transpose_tiled", TILE),
    "v3 padded": ("transpose_padded", TILE),
    "v4 swizzled": ("transpose_swizzled", TILE),
    "v5 several rows": ("transpose_rows", ROWS),
}
LAST = ("v6 float4", "transpose_float4")
IN_CUDA = {
    "v1 naive, C++": ("naive", TILE),
    "v2 tiled, C++": ("tiled", TILE),
    "v3 padded, C++": ("padded", TILE),
    "v4 swizzled, C++": ("swizzled", TILE),
    "v5 several rows, C++": ("several_rows", ROWS),
}


@dataclass(frozen=True)
class Variant:
    """One member of the float4 family: tile, and options of the compiler. 256 threads a block."""

    tile_rows: int
    tile_cols: int
    options: tuple[str, ...] = ()


VARIANTS = {
    "float4 64 × 64": Variant(64, 64),
    "float4 64 × 64, streaming": Variant(64, 64, ("-DSTREAM",)),
    "float4 64 × 64, down columns": Variant(64, 64, ("-DBLOCK_ORDER=1",)),
    "float4 64 × 64, in squares": Variant(64, 64, ("-DBLOCK_ORDER=2",)),
    "float4 128 × 64": Variant(128, 64),
    "float4 64 × 128": Variant(64, 128),
    "float4 128 × 64, streaming": Variant(128, 64, ("-DSTREAM",)),
    "float4 128 × 32": Variant(128, 32),
    "float4 32 × 128": Variant(32, 128),
}


@dataclass(frozen=True)
class Case:
    """``call(k)`` enqueues one run on input k; ``output()`` is then what it wrote, as CuPy's.

    must: whether a fault ends the benchmark; a peer is left out instead. turned: False for copies.
    torch_graph: whether torch has to make the graph, since its allocator takes part.
    """

    name: str
    peer: str
    call: Callable[[int], object]
    output: Callable[[], Any]
    note: str
    must: bool = True
    turned: bool = True
    torch_graph: bool = False


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the transpose ladder.")
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="times each version is timed")
    options = parser.parse_args()
    if not device.gpu_count():
        message = "benchmarks/transpose.py: no GPU here, and only a GPU has times. Run it on one."
        print(message, file=sys.stderr)
        return 2
    try:
        recording = measure(options.samples)
        rows.write(recording, options.out)
    except KernelbookError as error:
        print(f"benchmarks/transpose.py: {error}", file=sys.stderr)
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
    for side in SIDES:
        run = _Run(side, stream)
        found = run.times(samples)
        times |= {(name, side): timers.percentiles(values) for name, values in found.items()}
        peers |= {case.name: case.peer for case in run.cases}
        notes |= {f"{name}, {side}²": note for name, note in run.notes.items()}
        run.release()
        del run
    copy_gbps = yardstick(times)
    return rows.Recording(
        benchmark="transpose",
        gpu=machine.gpu,
        driver=machine.driver,
        versions=machine.versions,
        date=date,
        command="python benchmarks/transpose.py",
        copy_gbps=round(copy_gbps, 1),
        rows=tuple(
            _row(name, peers[name], side, time, copy_gbps, machine, date)
            for (name, side), time in times.items()
        ),
        notes=notes,
    )


def yardstick(times: dict[tuple[str, int], timers.Percentiles]) -> float:
    """GB/s of the fastest copy of the run."""
    rates = [
        roofline.rate_gbps(_bytes(side), time.p50_us)
        for (name, side), time in times.items()
        if name in COPIES
    ]
    return max(rates)


def _row(
    name: str,
    peer: str,
    side: int,
    time: timers.Percentiles,
    copy_gbps: float,
    machine: rows.Machine,
    date: str,
) -> rows.Row:
    """Raises ImpossibleTime for a time below the floor of this GPU's memory."""
    size = _bytes(side)
    peak = roofline.peak_gbps(machine.gpu)
    roofline.require_possible(f"{name}, {side}²", time.p20_us, size, peak)
    return rows.Row(
        kernel=name,
        peer=peer,
        shape=(side, side),
        dtype="float32",
        gpu=machine.gpu,
        versions=machine.versions,
        date=date,
        p20_us=round(time.p20_us, 3),
        p50_us=round(time.p50_us, 3),
        p80_us=round(time.p80_us, 3),
        bytes=size,
        flops=0,
        fraction_of_copy=round(roofline.rate_gbps(size, time.p50_us) / copy_gbps, 4),
    )


def table(recording: rows.Recording) -> str:
    """The recording as text, one line a row."""
    lines = [f"{recording.gpu}, driver {recording.driver}; copy {recording.copy_gbps:.0f} GB/s"]
    lines.append(
        f"{'kernel':<32}{'side':>7}{'p20':>11}{'p50':>11}{'p80 µs':>11}{'GB/s':>8}{'copy':>7}"
    )
    for row in sorted(recording.rows, key=lambda row: row.shape):
        rate = roofline.rate_gbps(row.bytes, row.p50_us)
        lines.append(
            f"{row.kernel:<32}{row.shape[0]:>7}{row.p20_us:>11.2f}{row.p50_us:>11.2f}"
            f"{row.p80_us:>11.2f}{rate:>8.0f}{row.fraction_of_copy:>7.3f}"
        )
    left_out = [f"{name}: {note}" for name, note in recording.notes.items() if ABSENT in note]
    return "\n".join(lines + left_out)


def lab_kernels(lab: source.LabSource, cuda: Any, float32: Any) -> dict[str, Any]:
    """The lab's own Numba kernels by name, made by running its solution cells.

    Raises KernelbookError when the lab no longer holds what the ladder names.
    """
    names: dict[str, Any] = {
        "cuda": cuda, "float32": float32, "np": np, "TILE": TILE, "ROWS": ROWS,
    }  # fmt: skip
    for exercise in lab.exercises.values():
        if exercise.kind is source.Kind.KERNEL:
            exec(compile(exercise.solution, str(lab.path), "exec"), names)
    missing = {kernel for kernel, _ in LADDER.values()} - set(names)
    if missing:
        raise KernelbookError(f"{lab.path}: the ladder needs the kernels {sorted(missing)}")
    return names


def last_source(lab: source.LabSource) -> str:
    """The CUDA C++ text of the lab's last step."""
    names: dict[str, Any] = {}
    exercise = lab.exercises[LAST[1]]
    exec(compile(exercise.solution, str(lab.path), "exec"), names)
    return str(names[exercise.id])


class _Run:
    """One size: inputs that rotate, every version on them, and their times."""

    def __init__(self, side: int, stream: Any) -> None:
        import cupy

        self.side, self.stream, self.repeats = side, stream, REPEATS[side]
        count = max(2, LEAST_INPUT_BYTES // (4 * side * side))
        random = cupy.random.default_rng(side)
        with stream:
            self.inputs = [random.random((side, side), np.float32) for _ in range(count)]
            self.out = cupy.empty((side, side), np.float32)  # of all but those that allocate
        stream.synchronize()
        self.notes: dict[str, str] = {}
        self.cases = [*self._copies(), *self._numba(), *self._cuda(), *self._peers()]

    def times(self, samples: int) -> dict[str, list[float]]:
        """µs of one run for each version, ``samples`` times."""
        launches = {}
        for case in self.cases:
            try:
                self._check(case)
                launches[case.name] = self._launch(case)
            except Exception as error:
                self._leave_out(case, error)
        clock = timers.event_clock(self.stream)
        timers.interleaved(launches, clock, 2, self.repeats)  # warm up
        found = timers.interleaved(launches, clock, samples, self.repeats)
        for case in self.cases:  # what the timed launch itself leaves behind
            if case.name not in launches:
                continue
            try:
                self._poison(case)
                with self.stream:
                    launches[case.name]()
                self._require(case, (self.repeats - 1) % len(self.inputs), "by the timed launch")
            except Exception as error:
                self._leave_out(case, error)
                del found[case.name]
        return found

    def release(self) -> None:
        """Give all device memory back, torch's too."""
        import cupy

        self.cases.clear()
        self.inputs.clear()
        del self.out
        cupy.get_default_memory_pool().free_all_blocks()
        if "torch" in sys.modules:
            sys.modules["torch"].cuda.empty_cache()

    def _leave_out(self, case: Case, error: Exception) -> None:
        """Note why a peer has no row. Raises ``error`` again for what must be right."""
        if case.must:
            raise error
        self.notes[case.name] = f"{ABSENT} {type(error).__name__}: {error}"

    def _launch(self, case: Case) -> timers.Launch:
        how = "graph"
        try:
            if case.torch_graph:
                launch = _torch_graph(case.call, len(self.inputs), self.repeats, self.stream)
            else:
                launch = timers.captured(case.call, len(self.inputs), self.repeats, self.stream)
        except Exception as error:  # a driver's or library's own; the loop is the honest way out
            how = f"loop, as it cannot be captured ({type(error).__name__}: {error})"
            launch = timers.looped(case.call, len(self.inputs), self.repeats, self.stream)
        self.notes[case.name] = f"{case.note}; timed as a {how} of {self.repeats} runs"
        return launch

    def _check(self, case: Case) -> None:
        for k in range(len(self.inputs)):
            if k:
                self._poison(case)
            else:
                with self.stream:
                    self.out.fill(np.nan)
            with self.stream:
                case.call(k)
            self._require(case, k, "before the timing")

    def _poison(self, case: Case) -> None:
        with self.stream:
            case.output().fill(np.nan)

    def _require(self, case: Case, k: int, when: str) -> None:
        """Compare in strips of 1,024 rows of x, so that no third matrix is needed."""
        self.stream.synchronize()
        x, got = self.inputs[k], case.output()
        for top in range(0, self.side, 1024):
            wanted = x[top : top + 1024]
            strip = got[:, top : top + 1024].T if case.turned else got[top : top + 1024]
            if not bool((strip == wanted).all()):
                raise KernelbookError(
                    f"{case.name}, {self.side}², input {k}, {when}: rows {top} to {top + 1023} of "
                    "x are not where they belong. No time is recorded for a wrong matrix."
                )

    def _copies(self) -> Iterator[Case]:
        import cupy

        copy = cupy.RawKernel(COPY_SOURCE, "copy4")
        blocks = self.side * self.side // (4 * 4 * COPY_THREADS)
        yield Case(
            "copy",
            "cuda",
            lambda k: copy((blocks,), (COPY_THREADS,), (self.inputs[k], self.out)),
            lambda: self.out,
            "a kernel that moves four float4 a thread",
            turned=False,
        )
        size, kind = self.out.nbytes, cupy.cuda.runtime.memcpyDeviceToDevice
        yield Case(
            "cudaMemcpy",
            "cuda",
            lambda k: cupy.cuda.runtime.memcpyAsync(
                self.out.data.ptr, self.inputs[k].data.ptr, size, kind, self.stream.ptr
            ),
            lambda: self.out,
            "cudaMemcpyAsync, device to device",
            turned=False,
        )

    def _numba(self) -> Iterator[Case]:
        # The grid is large enough; read once, when numba.cuda is imported.
        os.environ["NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS"] = "0"
        from numba import cuda, float32

        kernels = lab_kernels(source.read(LAB, ROOT / "solutions"), cuda, float32)
        stream = cuda.external_stream(self.stream.ptr)
        inputs = [cuda.as_cuda_array(x) for x in self.inputs]
        out = cuda.as_cuda_array(self.out)
        tiles = self.side // TILE
        for name, (kernel, threads) in LADDER.items():
            launch = kernels[kernel][(tiles, tiles), (TILE, threads), stream]
            yield Case(
                name,
                "",
                _numba_call(launch, inputs, out),
                lambda: self.out,
                f"Numba, {tiles} × {tiles} blocks of {TILE} × {threads} threads",
                turned=name != "v0 copy",
            )

    def _cuda(self) -> Iterator[Case]:
        import cupy

        tiles = self.side // TILE
        family = FAMILY.read_text("utf-8")
        for name, (entry, threads) in IN_CUDA.items():
            kernel = cupy.RawKernel(family, entry, options=("--std=c++17",))
            yield self._raw(name, kernel, (tiles, tiles), (TILE, threads), "")
        kernel = cupy.RawKernel(
            last_source(source.read(LAB, ROOT / "solutions")), LAST[1], options=("--std=c++17",)
        )
        yield self._raw(LAST[0], kernel, (self.side // 64, self.side // 64), (16, 16), "the lab's")
        for name, variant in VARIANTS.items():
            options = (
                "--std=c++17",
                f"-DTILE_ROWS={variant.tile_rows}",
                f"-DTILE_COLS={variant.tile_cols}",
                *variant.options,
            )
            kernel = cupy.RawKernel(family, "float4_tile", options=options)
            grid = self.side // variant.tile_cols, self.side // variant.tile_rows
            note = " ".join(options[1:])
            yield self._raw(name, kernel, grid, (256,), note, must=False)

    def _raw(
        self,
        name: str,
        kernel: Any,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        note: str,
        *,
        must: bool = True,
    ) -> Case:
        side = np.int32(self.side)
        shape = " × ".join(map(str, grid)), " × ".join(map(str, block))
        return Case(
            name,
            "",
            lambda k: kernel(grid, block, (self.inputs[k], self.out, side, side)),
            lambda: self.out,
            f"CUDA C++, {shape[0]} blocks of {shape[1]} threads {note}".strip(),
            must=must,
        )

    def _peers(self) -> Iterator[Case]:
        for name, make in (
            ("cuBLAS geam", self._cublas),
            ("torch copy_", self._torch_copy),
            ("torch x.t().contiguous()", self._torch_eager),
            ("torch.compile", self._torch_compiled),
            ("Triton tile", self._triton),
        ):
            try:
                yield make(name)
            except Exception as error:  # not installed, or not able to: this peer has no row
                self.notes[name] = f"{ABSENT} {type(error).__name__}: {error}"

    def _cublas(self, name: str) -> Case:
        cublas = importlib.import_module("cupy.cublas")

        def call(k: int) -> None:
            x = self.inputs[k]
            cublas.geam("T", "T", 1.0, x, 0.0, x, out=self.out)

        return Case(name, "cublas", call, lambda: self.out, "cublasSgeam through CuPy", must=False)

    def _torch_copy(self, name: str) -> Case:
        torch = importlib.import_module("torch")
        tensors = [torch.from_dlpack(x) for x in self.inputs]
        out = torch.from_dlpack(self.out)
        stream = torch.cuda.ExternalStream(self.stream.ptr)

        def call(k: int) -> None:
            with torch.cuda.stream(stream):
                out.copy_(tensors[k])

        note = "out.copy_(x), contiguous both"
        return Case(name, "torch", call, lambda: self.out, note, must=False, turned=False)

    def _torch_eager(self, name: str) -> Case:
        return self._torch(name, lambda x: x.t().contiguous(), "eager; allocates its output")

    def _torch_compiled(self, name: str) -> Case:
        torch = importlib.import_module("torch")
        torch._dynamo.reset()  # each size compiled for itself
        function = torch.compile(lambda x: x.t().contiguous(), dynamic=False)
        return self._torch(name, function, "x.t().contiguous() compiled; allocates its output")

    def _torch(self, name: str, function: Callable[[Any], Any], note: str) -> Case:
        import cupy

        torch = importlib.import_module("torch")
        tensors = [torch.from_dlpack(x) for x in self.inputs]
        stream = torch.cuda.ExternalStream(self.stream.ptr)
        last: list[Any] = []  # keeps the output, so that it can be looked at

        def call(k: int) -> None:
            with torch.cuda.stream(stream):
                result = function(tensors[k])
                last[:] = [result]

        return Case(
            name,
            "torch",
            call,
            lambda: cupy.from_dlpack(last[0].detach()),
            note,
            must=False,
            torch_graph=True,
        )

    def _triton(self, name: str) -> Case:
        torch = importlib.import_module("torch")
        kernel = importlib.import_module("transpose_triton")  # beside this script
        tensors = [torch.from_dlpack(x) for x in self.inputs]
        out = torch.from_dlpack(self.out)
        stream = torch.cuda.ExternalStream(self.stream.ptr)

        def call(k: int) -> None:
            with torch.cuda.stream(stream):
                kernel.launch(tensors[k], out)

        call(0)
        note = f"tuned: {kernel.chosen()}"
        return Case(name, "triton", call, lambda: self.out, note, must=False)


def _numba_call(launch: Any, inputs: list[Any], out: Any) -> Callable[[int], None]:
    def call(k: int) -> None:
        launch(inputs[k], out)

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


def _bytes(side: int) -> int:
    """Least bytes to and from global memory: each element is read once and written once."""
    return 8 * side * side


if __name__ == "__main__":
    sys.exit(main())
