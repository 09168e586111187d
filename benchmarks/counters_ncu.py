"""Counting with Nsight Compute on a GPU: the other side of ``counters.py``, which calls it.

ncu profiles this file, started with ``--launch``, which runs every launch once in a fixed order.
Metrics that ncu or the GPU does not know are left out and named in the result.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

NCU_SECONDS = 420

# Our counter → ncu's metric. The sass ones leave out instructions of which no lane was active.
METRICS = {
    "global load requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "global load sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global store requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "global store sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "global atomic requests": "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum",
    "global atomic sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum",
    "shared load requests": "smsp__sass_inst_executed_op_shared_ld.sum",
    "shared load wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared load conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "shared store requests": "smsp__sass_inst_executed_op_shared_st.sum",
    "shared store wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "shared store conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "shared atomic requests": "smsp__sass_inst_executed_op_shared_atom.sum",
    "shared atomic wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum",
    "shared atomic conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_atom.sum",
}
MORE_METRICS = (
    "smsp__inst_executed_op_shared_ld.sum",
    "smsp__inst_executed_op_shared_st.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum",
    "l1tex__t_requests_pipe_lsu_mem_local_op_ld.sum",
    "l1tex__t_requests_pipe_lsu_mem_local_op_st.sum",
    "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "smsp__inst_executed_op_shared_atom.sum",
    "smsp__inst_executed_op_global_red.sum",
    "smsp__inst_executed_op_global_atom.sum",
    "smsp__sass_inst_executed_op_global_ld.sum",
    "smsp__sass_inst_executed_op_global_st.sum",
    "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared.sum",
    "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "memory_l1_wavefronts_shared",
    "memory_l1_wavefronts_shared_ideal",
    "memory_l2_theoretical_sectors_global",
    "memory_l2_theoretical_sectors_global_ideal",
    "smsp__inst_executed.sum",
    "smsp__thread_inst_executed.sum",
    "smsp__thread_inst_executed_per_inst_executed.ratio",
    "sass__inst_executed_per_opcode",
    "lts__t_sectors_op_red.sum",
    "lts__t_sectors_op_atom.sum",
    "lts__t_requests_srcunit_tex_op_red.sum",
    "lts__t_requests_srcunit_tex_op_atom.sum",
    "sm__maximum_warps_per_active_cycle_pct",
    "launch__registers_per_thread",
    "launch__shared_mem_per_block_static",
    "launch__occupancy_limit_blocks",
    "launch__occupancy_limit_registers",
    "launch__occupancy_limit_shared_mem",
    "launch__occupancy_limit_warps",
)
PROBE_SOURCE = """
template <typename T> __device__ T made(int k);
template <> __device__ float made<float>(int k) { return k; }
template <> __device__ double made<double>(int k) { return k; }
template <> __device__ float4 made<float4>(int k) { return make_float4(k, k, k, k); }

template <typename T> __global__ void probe_load(const int* index, T* out) {
    __shared__ T s[1024];
    int t = threadIdx.x, at = index[t];
    for (int k = t; k < 1024; k += 32) s[k] = made<T>(k);
    __syncthreads();
    if (at >= 0) out[t] = s[at];
}
template <typename T> __global__ void probe_store(const int* index, T* out) {
    __shared__ T s[1024];
    int t = threadIdx.x, at = index[t];
    if (at >= 0) s[at] = made<T>(t);
    __syncthreads();
    for (int k = t; k < 1024; k += 32) out[k] = s[k];
}
template <typename T> __global__ void probe_atomic(const int* index, T* out) {
    __shared__ T s[1024];
    int t = threadIdx.x, at = index[t];
    for (int k = t; k < 1024; k += 32) s[k] = T(0);
    __syncthreads();
    if (at >= 0) atomicAdd(&s[at], T(at));
    __syncthreads();
    for (int k = t; k < 1024; k += 32) out[k] = s[k];
}
"""
MACHINE_CODE = re.compile(
    r"^\s*/\*[0-9a-f]+\*/\s+((?:@!?U?P\w+\s+)?(?:LD|ST|ATOM|RED|BAR|SHFL|VOTE|MATCH|BRA)[^;]*)",
    re.MULTILINE,
)
WORDS = {"float": 4, "double": 8, "float4": 16, "int": 4}
MOVED_WORDS = ("float", "double", "float4")
ATOMIC_WORDS = ("int", "float")


def probes() -> dict[str, list[int]]:
    """Which word each of 32 lanes uses; -1 for a lane that takes no part."""
    lanes = np.arange(32)
    rng = np.random.default_rng(3)
    found = {
        "consecutive": lanes,
        "one word": 0 * lanes,
        "pairs": lanes // 2,
        "lane and lane + 2": lanes // 4 * 2 + lanes % 2,
        "fours": lanes // 4,
        "eights": lanes // 8,
        "half warps alike": lanes % 16,
        "quarters alike": lanes % 8,
        "reversed": 31 - lanes,
        "neighbours swapped": lanes ^ 1,
        "stride 2": 2 * lanes,
        "stride 3": 3 * lanes,
        "stride 4": 4 * lanes,
        "stride 8": 8 * lanes,
        "stride 16": 16 * lanes,
        "stride 32": 32 * lanes,
        "stride 33": 33 * lanes % 1024,
        "two words": lanes % 2 * 32,
        "first lane": np.where(lanes == 0, 5, -1),
        "lower half": np.where(lanes < 16, lanes, -1),
        "upper half": np.where(lanes >= 16, lanes, -1),
        "even lanes": np.where(lanes % 2 == 0, lanes, -1),
        "every eighth lane": np.where(lanes % 8 == 0, lanes, -1),
        "even lanes, stride 32": np.where(lanes % 2 == 0, 32 * lanes, -1),
    }
    for k in range(12):
        found[f"random {k}"] = rng.integers(0, 1024, 32)
    for k in range(6):
        found[f"random of 64, {k}"] = rng.integers(0, 64, 32)
    for k in range(4):
        some = rng.integers(0, 256, 32)
        found[f"random, half the lanes, {k}"] = np.where(rng.random(32) < 0.5, some, -1)
    return {name: [int(at) for at in index] for name, index in found.items()}


def probe_names() -> list[tuple[str, str, str]]:
    """(operation, type, pattern) in the order in which they are launched."""
    moved = [(op, kind) for op in ("load", "store") for kind in MOVED_WORDS]
    every = [*moved, *(("atomic", kind) for kind in ATOMIC_WORDS)]
    return [(op, kind, pattern) for op, kind in every for pattern in probes()]


def launch(what: str, out: Path | None) -> int:
    """Run every launch once, in order; ncu, which has started this process, counts them."""
    if what == "probes":
        import cupy

        names = [f"probe_{op}<{kind}>" for op in ("load", "store") for kind in MOVED_WORDS]
        names += [f"probe_atomic<{kind}>" for kind in ATOMIC_WORDS]
        module = cupy.RawModule(code=PROBE_SOURCE, options=("--std=c++17",), name_expressions=names)
        target = cupy.zeros(16 * 1024, np.uint8)
        patterns = probes()
        inputs = {name: cupy.array(index, np.int32) for name, index in patterns.items()}
        cupy.cuda.Device().synchronize()
        for op, kind, pattern in probe_names():
            kernel = module.get_function(f"probe_{op}<{kind}>")
            kernel((1,), (32,), (inputs[pattern], target))
        cupy.cuda.Device().synchronize()
        return 0
    os.environ["NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS"] = "0"  # read when numba.cuda is imported
    from counters_kernels import CASES
    from numba import cuda

    found: dict[str, Any] = {}
    for case in CASES:
        arguments = [cuda.to_device(a) for a in case.arguments()]
        case.kernel[case.grid, case.block](*arguments)
        cuda.synchronize()
        found[case.name] = _memory_instructions(case.kernel, tuple(arguments))
    if what == "sass" and out is not None:
        out.write_text(json.dumps(found))
    return 0


def _memory_instructions(kernel: Any, arguments: tuple[Any, ...]) -> list[str]:
    """The memory instructions, barriers and votes of the machine code, in its order."""
    from numba import typeof

    try:
        text = kernel.inspect_sass(tuple(typeof(a) for a in arguments))
    except Exception as error:  # nvdisasm may be missing; the counters stand without it
        return [f"no machine code: {type(error).__name__}: {error}"]
    return MACHINE_CODE.findall(text)


def measure(out: Path) -> int:
    """Run all launches under ncu and write what it counted. Returns the exit status."""
    ncu = shutil.which("ncu")
    if ncu is None:
        print("benchmarks/counters.py: no ncu here, and --measure needs it", file=sys.stderr)
        return 2
    from counters_kernels import CASES

    from kernelbook.bench import rows

    machine = rows.machine(("numba", "numba-cuda", "numpy", "cupy-cuda13x"))
    version = subprocess.run([ncu, "--version"], capture_output=True, text=True, check=False).stdout
    problems: list[str] = []
    wanted = [*METRICS.values(), *MORE_METRICS]
    with tempfile.TemporaryDirectory() as folder:
        sass = Path(folder) / "sass.json"
        run = subprocess.run(
            [sys.executable, __file__, "--launch", "sass", "--out", str(sass)],
            capture_output=True, text=True, check=False, timeout=NCU_SECONDS,
        )  # fmt: skip
        if run.returncode:
            problems.append(f"machine code: {run.stderr[-2000:]}")
        instructions = json.loads(sass.read_text()) if sass.exists() else {}
    names = [case.name for case in CASES]
    result: dict[str, Any] = {
        "benchmark": "counters",
        "gpu": machine.gpu,
        "driver": machine.driver,
        "versions": machine.versions,
        "ncu": version.strip().splitlines()[-1:],
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": "python benchmarks/counters.py --measure",
        "problems": problems,
    }
    cases, missing = profiled(ncu, "cases", wanted, problems)
    result["missing_metrics"] = missing
    result["launches"] = dict(zip(names, cases, strict=False))
    result["instructions"] = instructions
    out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{len(cases)} of {len(names)} launches; missing metrics: {missing}", flush=True)
    shared = [metric for metric in wanted if "shared" in metric and metric not in missing]
    probed, _ = profiled(ncu, "probes", shared, problems)
    result["probes"] = [
        {"operation": op, "type": kind, "pattern": pattern, "metrics": counted}
        for (op, kind, pattern), counted in zip(probe_names(), probed, strict=False)
    ]
    out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{len(probed)} of {len(probe_names())} probes")
    for problem in problems:
        print(problem)
    return 0 if len(cases) == len(names) and len(probed) == len(probe_names()) else 1


def profiled(
    ncu: str, what: str, metrics: list[str], problems: list[str]
) -> tuple[list[dict[str, Any]], list[str]]:
    """The metrics of each launch in turn, and the metrics that this ncu or GPU does not have."""
    missing: list[str] = []
    while True:
        asked = [metric for metric in metrics if metric not in missing]
        command = [
            ncu, "--csv", "--page", "raw", "--print-units", "base", "--print-metric-instances",
            "details", "--kernel-name", "regex:" + ("probe" if what == "probes" else "."),
            "--clock-control", "none", "--target-processes", "all", "--metrics",
            ",".join(asked), sys.executable, __file__, "--launch", what,
        ]  # fmt: skip
        try:
            run = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=NCU_SECONDS
            )
        except subprocess.TimeoutExpired:
            problems.append(f"{what}: ncu took more than {NCU_SECONDS} s")
            return [], missing
        text = run.stdout + run.stderr
        refused = [metric for metric in asked if re.search(rf"(?i)find metric.*{metric}", text)]
        if not refused:
            break
        missing += refused
    start = run.stdout.find('"ID"')
    if start < 0:
        problems.append(f"{what}: ncu {run.returncode}: {text[-3000:]}")
        for fewer in (
            [metric for metric in metrics if not metric.startswith(("memory_", "sass__"))],
            [metric for metric in METRICS.values() if metric in metrics],
        ):
            if fewer and len(fewer) < len(metrics):
                return profiled(ncu, what, fewer, problems)
        return [], missing
    table = list(csv.DictReader(io.StringIO(run.stdout[start:])))
    launches = [row for row in table if row.get("ID")]  # the row under the heading gives units
    missing += [m for m in asked if all(row.get(m) in ("", "n/a", None) for row in launches)]
    return [{m: _number(row[m]) for m in asked if row.get(m)} for row in launches], missing


def _number(text: str) -> Any:
    """The value; what ncu adds in brackets is kept where it names opcodes, not addresses."""
    total = text.split(" (0x")[0]
    try:
        value = float(total.replace(",", ""))
    except ValueError:
        return text
    return int(value) if value.is_integer() else value


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the launches that ncu counts.")
    parser.add_argument("--launch", choices=("cases", "probes", "sass"), required=True)
    parser.add_argument("--out", type=Path, help="where the machine code goes")
    options = parser.parse_args()
    return launch(options.launch, options.out)


if __name__ == "__main__":
    sys.exit(main())
