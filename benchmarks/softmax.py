"""Softmax of rows on one GPU, fp32 and fp16, beside its peers and beside a copy of the same bytes.

``python benchmarks/softmax.py --out benchmarks/softmax-h200.json``

Ours: the kernel family of ``benchmarks/softmax.cu``, compiled for each row length by the plan in
``PLANS``, and the last step of ``solutions/cuda/softmax.md`` as its reference solution has it.
Peers: torch eager, ``torch.compile``, a Triton kernel, Liger and quack; those that cannot be
imported or refuse a shape are named in the notes and have no row. ``--tune`` times all
:func:`candidates` first, takes the fastest plan of each row length and notes them all.

Everything is replayed as CUDA graphs in turn, over random inputs that rotate so that L2 holds none
of them. Outputs are checked against float64 before the timing, and once more as the timed launch
has left them. The yardstick is the fastest copy of the run, at any shape, read and write counted.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernelbook import device, source
from kernelbook.bench import roofline, rows, timers
from kernelbook.errors import KernelbookError

ROOT = Path(__file__).resolve().parents[1]
LAB = ROOT / "solutions" / "cuda" / "softmax.md"
FAMILY = ROOT / "benchmarks" / "softmax.cu"
PACKAGES = ("cupy-cuda13x", "cupy-cuda12x", "torch", "triton", "liger-kernel", "quack-kernels")

SHAPES = ((49152, 1024), (32768, 4096), (4096, 32768))
DTYPES = ("float32", "float16")
LEAST_INPUT_BYTES = 1 << 30  # rotated over, many times any L2
REPEATS = 10
SAMPLES = 25
TUNING_SAMPLES = 10
# Relative, on top of half the least number of the type: exp in hardware, and rounding to the type.
TOLERANCE = {"float32": 2e-5, "float16": 1.2e-3}
LEAST = {"float32": 1e-37, "float16": 6e-8}
SHARED_BYTES = 227 << 10  # of an SM of compute capability 9.0, for blocks
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
"""  # every shape is a multiple of what its grid moves
OURS, LAB_STEP = "softmax", "lab: row in registers"
COPIES = ("copy", "cudaMemcpy")


@dataclass(frozen=True)
class Plan:
    """How the family runs one row length: see the head of ``softmax.cu``."""

    threads: int
    packs: int
    rows: int = 1
    cluster: int = 1
    stream: int = 0
    shared: int = 0
    resident: int = 1

    def __str__(self) -> str:
        parts = [f"{self.threads} threads a row", f"{self.packs} packs a thread"]
        if self.cluster > 1:
            parts[0] = f"{self.cluster} blocks of {parts[0]}"
        if self.rows > 1:
            parts.append(f"{self.rows} rows a block")
        if self.shared:
            parts.append("in shared memory")
        if self.resident > 1:
            parts.append(f"{self.resident} rows an SM")
        if self.stream:
            parts.append("past the caches")
        return ", ".join(parts)


# The dispatch, as --tune found it on an H200: a warp or two for a short row, a block of up to 1,024
# threads for a longer one. Clusters, tried for 32,768 columns, lost 2 % and more to one block
# (H200, 2026-11-30, benchmarks/softmax.py --tune).
PLANS = {
    ("float32", 1024): Plan(32, 8),
    ("float16", 1024): Plan(32, 4),
    ("float32", 4096): Plan(512, 2),
    ("float16", 4096): Plan(128, 4),
    ("float32", 32768): Plan(1024, 8),
    ("float16", 32768): Plan(1024, 4, shared=1, resident=2),
}


@dataclass(frozen=True)
class Case:
    """``call(k)`` enqueues the softmax of input k; ``result()`` is where it then lies."""

    name: str
    peer: str
    call: Callable[[int], object]
    result: Callable[[], Any] | None  # gives a cupy array; None for a copy
    note: str


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure softmax beside its peers.")
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="times each version is timed")
    parser.add_argument("--tune", action="store_true", help="choose the family's plans by timing")
    options = parser.parse_args()
    if not device.gpu_count():
        message = "benchmarks/softmax.py: no GPU here, and only a GPU has times. Run it on one."
        print(message, file=sys.stderr)
        return 2
    try:
        recording = measure(options.samples, options.tune)
        rows.write(recording, options.out)
    except KernelbookError as error:
        print(f"benchmarks/softmax.py: {error}", file=sys.stderr)
        return 1
    print(table(recording))
    return 0


def measure(samples: int, tune: bool) -> rows.Recording:
    """Time every version at every shape. Raises KernelbookError for a wrong result."""
    import cupy

    machine = rows.machine(PACKAGES)
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    stream = cupy.cuda.Stream(non_blocking=True)
    times: dict[tuple[str, str, tuple[int, int]], timers.Percentiles] = {}
    peers: dict[str, str] = {}
    notes: dict[str, str] = {}
    for shape in SHAPES:
        for dtype in DTYPES:
            run = _Run(shape, dtype, stream)
            if tune:
                run.tune()
            found = run.times(samples)
            times |= {(n, dtype, shape): timers.percentiles(v) for n, v in found.items()}
            peers |= {case.name: case.peer for case in run.cases}
            notes |= {f"{name}, {dtype}, {shape}": note for name, note in run.notes.items()}
            del run
            cupy.get_default_memory_pool().free_all_blocks()
            _free_torch()
    copy_gbps = max(
        roofline.rate_gbps(_bytes(shape, dtype), time.p50_us)
        for (name, dtype, shape), time in times.items()
        if name in COPIES
    )
    return rows.Recording(
        benchmark="softmax",
        gpu=machine.gpu,
        driver=machine.driver,
        versions=machine.versions,
        date=date,
        command="python benchmarks/softmax.py" + (" --tune" if tune else ""),
        copy_gbps=round(copy_gbps, 1),
        rows=tuple(
            _row(name, peers[name], dtype, shape, time, copy_gbps, machine, date)
            for (name, dtype, shape), time in times.items()
        ),
        notes=notes,
    )


def _row(
    name: str,
    peer: str,
    dtype: str,
    shape: tuple[int, int],
    time: timers.Percentiles,
    copy_gbps: float,
    machine: rows.Machine,
    date: str,
) -> rows.Row:
    """Raises ImpossibleTime for a time below the floor of this GPU's memory."""
    size = _bytes(shape, dtype)
    peak = roofline.peak_gbps(machine.gpu)
    roofline.require_possible(f"{name}, {dtype}, {shape}", time.p20_us, size, peak)
    return rows.Row(
        kernel=name,
        peer=peer,
        shape=shape,
        dtype=dtype,
        gpu=machine.gpu,
        versions=machine.versions,
        date=date,
        p20_us=round(time.p20_us, 3),
        p50_us=round(time.p50_us, 3),
        p80_us=round(time.p80_us, 3),
        bytes=size,
        # A comparison, a subtraction, an exponential, an addition and a product for each element.
        flops=0 if name in COPIES else 5 * shape[0] * shape[1],
        fraction_of_copy=round(roofline.rate_gbps(size, time.p50_us) / copy_gbps, 4),
    )


def table(recording: rows.Recording) -> str:
    """The recording as text, one line a row."""
    lines = [f"{recording.gpu}, driver {recording.driver}; copy {recording.copy_gbps:.0f} GB/s"]
    last = None
    for row in recording.rows:
        if (row.shape, row.dtype) != last:
            last = row.shape, row.dtype
            lines.append(f"{row.dtype} {row.shape}")
        rate = roofline.rate_gbps(row.bytes, row.p50_us)
        lines.append(
            f"  {row.kernel:<24}{row.p20_us:>10.2f}{row.p50_us:>10.2f}{row.p80_us:>10.2f} µs"
            f"{rate:>8.0f} GB/s{row.fraction_of_copy:>7.3f}"
        )
    lines += [f"{name}: {note}" for name, note in recording.notes.items()]
    return "\n".join(lines)


def family(plan: Plan, dtype: str, cols: int) -> Any:
    """The family's kernel for rows of ``cols`` elements, compiled for ``plan``."""
    import cupy

    values = {"HALF": int(dtype == "float16"), "COLS": cols}
    values |= {name.upper(): value for name, value in asdict(plan).items()}
    options = ("--std=c++17", *(f"-D{name}={value}" for name, value in values.items()))
    kernel = cupy.RawKernel(FAMILY.read_text("utf-8"), "softmax", options=options)
    if plan.shared:
        kernel.max_dynamic_shared_size_bytes = _shared_bytes(plan)
    return kernel


def _shared_bytes(plan: Plan) -> int:
    return 16 * plan.threads * plan.packs if plan.shared else 0


def candidates(dtype: str, cols: int) -> list[Plan]:
    """Every way to hold a row on chip that is worth a try."""
    packs_in_row = cols * np.dtype(dtype).itemsize // 16
    plans = []
    for packs in (1, 2, 4, 8):
        for cluster in (1, 2, 4, 8):
            threads = packs_in_row // packs // cluster
            if not 32 <= threads <= 1024:
                continue
            if cluster > 1 and (cols < 16384 or threads < 128):
                continue
            if cluster * threads // 32 > 64 or (dtype == "float16" and packs > 4 and cols > 4096):
                continue
            for rows_in_block in (1, 4, 8) if threads == 32 else (1,):
                for stream in (0, 1):
                    plans.append(Plan(threads, packs, rows_in_block, cluster, stream))
    row_bytes = 16 * packs_in_row
    for threads in (128, 256, 512, 1024) if cols >= 4096 else ():
        resident = min(SHARED_BYTES // (row_bytes + 1024), 2048 // threads)
        if packs_in_row % threads == 0 and resident * row_bytes >= SHARED_BYTES // 2:
            plans.append(Plan(threads, packs_in_row // threads, shared=1, resident=resident))
    return plans


class _Run:
    """One shape and type: inputs that rotate, every version on them, and their times."""

    def __init__(self, shape: tuple[int, int], dtype: str, stream: Any) -> None:
        import cupy

        self.shape, self.dtype, self.stream = shape, dtype, stream
        self.plan = PLANS[dtype, shape[1]]
        count = max(3, -(-LEAST_INPUT_BYTES // (_bytes(shape, dtype) // 2)))
        random = cupy.random.default_rng(shape[1])
        with stream:
            self.inputs = [
                (2 * random.standard_normal(shape, dtype=np.float32)).astype(dtype)
                for _ in range(count)
            ]
            # Two outputs in turn, as torch's allocator hands them to the peers.
            self.outs = [cupy.empty(shape, dtype) for _ in range(2)]
        stream.synchronize()
        self.notes: dict[str, str] = {}
        self.cases: list[Case] = []

    def tune(self) -> None:
        """Take the fastest of all plans, and note every one's time."""
        plans = {str(plan): plan for plan in candidates(self.dtype, self.shape[1])}
        launches, failed = {}, []
        for name, plan in plans.items():
            case = self._family(plan, name)
            try:
                self._require(case, 0, "while tuning")
                launches[name] = timers.captured(case.call, len(self.inputs), REPEATS, self.stream)
            except KernelbookError:
                raise
            except Exception as error:  # a driver's own: too many registers or too large a cluster
                failed.append(f"{name}: {type(error).__name__}")
        clock = timers.event_clock(self.stream)
        timers.interleaved(launches, clock, 1, REPEATS)
        found = timers.interleaved(launches, clock, TUNING_SAMPLES, REPEATS)
        medians = {name: float(np.median(values)) for name, values in found.items()}
        ranked = sorted(medians, key=lambda name: medians[name])
        self.notes["plans"] = "; ".join(
            [*(f"{name}: {medians[name]:.2f} µs" for name in ranked), *failed]
        )
        self.plan = plans[ranked[0]]

    def times(self, samples: int) -> dict[str, list[float]]:
        """µs of one softmax for each version, ``samples`` times."""
        launches = {}
        for case in self._all():
            try:
                self._require(case, 0, "before the timing")
                launches[case.name] = self._launch(case)
            except Exception as error:  # a peer's own; ours must not fail
                if not case.peer or isinstance(error, KernelbookError):
                    raise
                self.notes[case.name] = f"no time: {type(error).__name__}: {str(error)[:300]}"
                launches.pop(case.name, None)
                continue
            self.cases.append(case)
        clock = timers.event_clock(self.stream)
        timers.interleaved(launches, clock, 2, REPEATS)  # warm up
        found = timers.interleaved(launches, clock, samples, REPEATS)
        last = (REPEATS - 1) % len(self.inputs)
        for case in self.cases:  # what the timed launch itself has left behind
            if case.result is not None:
                self._poison(case)
                launches[case.name]()
                self._compare(case, last, "by the timed launch")
        return found

    def _launch(self, case: Case) -> timers.Launch:
        how = "graph"
        try:
            if case.peer not in ("", "cuda"):
                launch = _torch_graph(case.call, len(self.inputs), REPEATS, self.stream)
            else:
                launch = timers.captured(case.call, len(self.inputs), REPEATS, self.stream)
        except Exception as error:  # a driver's or library's own; the loop is the honest way out
            how = f"loop, as it cannot be captured ({type(error).__name__}: {str(error)[:200]})"
            launch = timers.looped(case.call, len(self.inputs), REPEATS, self.stream)
        self.notes[case.name] = f"{case.note}; timed as a {how} of {REPEATS} calls"
        return launch

    def _require(self, case: Case, k: int, when: str) -> None:
        if case.result is None:
            return
        with self.stream:
            case.call(k)  # a peer allocates its result now
            self._poison(case)
            case.call(k)
        self._compare(case, k, when)

    def _poison(self, case: Case) -> None:
        with self.stream:
            assert case.result is not None
            case.result().fill(np.nan)

    def _compare(self, case: Case, k: int, when: str) -> None:
        import cupy

        assert case.result is not None
        worst = 0.0
        with self.stream:
            got, step = case.result(), max(1, (1 << 25) // self.shape[1])
            for first in range(0, self.shape[0], step):
                x = self.inputs[k][first : first + step].astype(np.float64)
                x = cupy.exp(x - x.max(axis=1, keepdims=True))
                x /= x.sum(axis=1, keepdims=True)
                off = abs(got[first : first + step].astype(np.float64) - x)
                off /= TOLERANCE[self.dtype] * x + LEAST[self.dtype]
                part = float(off.max())
                worst = part if not part <= worst else worst
        if not worst <= 1:
            raise KernelbookError(
                f"{case.name}, {self.dtype}, {self.shape}, input {k}, {when}: an element is "
                f"{worst:.3g} tolerances off. No time is recorded for a wrong softmax."
            )

    def _all(self) -> Iterator[Case]:
        yield self._family(self.plan, OURS)
        yield from self._lab()
        yield from self._copies()
        yield from self._torch()

    def _family(self, plan: Plan, name: str) -> Case:
        kernel = family(plan, self.dtype, self.shape[1])
        count = self.shape[0]
        grid, block = -(-count // plan.rows) * plan.cluster, (plan.threads, plan.rows)
        note, shared = f"CUDA C++, {plan}", _shared_bytes(plan)
        return self._case(name, note, kernel, grid, block, np.int32(count), shared)

    def _case(
        self,
        name: str,
        note: str,
        kernel: Any,
        grid: int,
        block: tuple[int, ...],
        last: np.int32,
        shared: int = 0,
    ) -> Case:
        place = [self.outs[0]]

        def call(k: int) -> None:
            place[0] = self.outs[k % 2]
            kernel((grid,), block, (self.inputs[k], place[0], last), shared_mem=shared)

        return Case(name, "", call, lambda: place[0], note)

    def _lab(self) -> Iterator[Case]:
        """The lab's last step, where its packs hold the row."""
        import cupy

        if not LAB.exists():
            return
        exercise = source.read(LAB, ROOT / "solutions").exercises["softmax_registers"]
        names: dict[str, Any] = {}
        exec(compile(exercise.solution, str(LAB), "exec"), names)
        entry = "softmax_registers" if self.dtype == "float32" else "softmax_registers_half"
        kernel = cupy.RawKernel(names[exercise.id], entry, options=("--std=c++17",))
        threads = max(32, self.shape[1] // 32)
        note = f"CUDA C++, 1 block of {threads} threads a row"
        cols = np.int32(self.shape[1])
        yield self._case(LAB_STEP, note, kernel, self.shape[0], (threads,), cols)

    def _copies(self) -> Iterator[Case]:
        import cupy

        copy = cupy.RawKernel(COPY_SOURCE, "copy4")
        size, kind = self.outs[0].nbytes, cupy.cuda.runtime.memcpyDeviceToDevice
        blocks = size // (16 * 4 * COPY_THREADS)
        yield Case(
            "copy",
            "cuda",
            lambda k: copy((blocks,), (COPY_THREADS,), (self.inputs[k], self.outs[k % 2])),
            None,
            "a kernel that moves four float4 a thread",
        )
        yield Case(
            "cudaMemcpy",
            "cuda",
            lambda k: cupy.cuda.runtime.memcpyAsync(
                self.outs[k % 2].data.ptr, self.inputs[k].data.ptr, size, kind, self.stream.ptr
            ),
            None,
            "cudaMemcpyAsync, device to device",
        )

    def _torch(self) -> Iterator[Case]:
        try:
            import torch
        except ImportError as error:
            self.notes["torch"] = f"not importable: {error}"
            return
        torch.set_grad_enabled(False)
        tensors = [torch.from_dlpack(x) for x in self.inputs]
        for name, peer, make in (
            ("torch.softmax", "torch", lambda: lambda x: torch.softmax(x, dim=-1)),
            ("torch.compile", "torch.compile", lambda: _compiled(torch)),
            ("Triton", "triton", lambda: _triton(torch)),
            ("Liger", "liger", _liger),
            ("quack", "quack", _quack),
        ):
            try:
                softmax = make()
            except Exception as error:  # not installed, or not for this machine
                self.notes[name] = f"not importable: {type(error).__name__}: {str(error)[:200]}"
                continue
            yield _torch_case(name, peer, softmax, tensors, self.stream)


def _torch_case(
    name: str, peer: str, softmax: Callable[[Any], Any], tensors: list[Any], stream: Any
) -> Case:
    import cupy
    import torch

    ours = torch.cuda.ExternalStream(stream.ptr)
    last: list[Any] = [None]

    def call(k: int) -> None:
        with torch.cuda.stream(ours):
            last[0] = softmax(tensors[k])

    return Case(name, peer, call, lambda: cupy.from_dlpack(last[0].detach()), f"{name}(x)")


def _compiled(torch: Any) -> Callable[[Any], Any]:
    torch._dynamo.reset()
    compiled: Callable[[Any], Any] = torch.compile(
        lambda x: torch.softmax(x, dim=-1), dynamic=False
    )
    return compiled


def _triton(torch: Any) -> Callable[[Any], Any]:
    import softmax_triton

    def softmax(x: Any) -> Any:
        out = torch.empty_like(x)
        softmax_triton.softmax(x, out)
        return out

    return softmax


def _liger() -> Callable[[Any], Any]:
    from liger_kernel.ops.softmax import LigerSoftmaxFunction

    softmax: Callable[[Any], Any] = LigerSoftmaxFunction.apply
    return softmax


def _quack() -> Callable[[Any], Any]:
    from quack.softmax import softmax_fwd

    softmax: Callable[[Any], Any] = softmax_fwd
    return softmax


def _torch_graph(
    call: Callable[[int], object], inputs: int, repeats: int, stream: Any
) -> timers.Launch:
    """Torch's allocator must know of a capture, so torch captures its own calls."""
    import torch

    ours = torch.cuda.ExternalStream(stream.ptr)
    graph = torch.cuda.CUDAGraph()
    for _ in range(3):
        call(0)
    stream.synchronize()
    with torch.cuda.graph(graph, stream=ours):
        for k in range(repeats):
            call(k % inputs)

    def launch() -> None:
        with torch.cuda.stream(ours):
            graph.replay()

    return launch


def _free_torch() -> None:
    if "torch" in sys.modules:
        sys.modules["torch"].cuda.empty_cache()


def _bytes(shape: tuple[int, int], dtype: str) -> int:
    """Least bytes to and from global memory: each element is read once and written once."""
    return 2 * shape[0] * shape[1] * np.dtype(dtype).itemsize


if __name__ == "__main__":
    sys.exit(main())
