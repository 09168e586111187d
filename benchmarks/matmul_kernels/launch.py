"""The CUDA C++ kernels of this folder: compiled by NVRTC, loaded and launched through CuPy.

:func:`fp32`, :func:`wmma`, :func:`mma` and :func:`wgmma` describe a kernel; :func:`load` compiles
it for the GPU in use and returns what binds it to its matrices. Nothing is launched before that is
called, so that a launch can be captured in a CUDA graph.
"""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kernelbook.compilers import nvrtc
from kernelbook.errors import KernelbookError

FOLDER = Path(__file__).parent
Launch = Callable[[], None]
Bind = Callable[[Any, Any, Any], Launch]  # of a: (M, K), b: (K, N), c: (M, N), all CuPy's


@dataclass(frozen=True)
class Kernel:
    """``matmul_<name>`` of ``<name>.cu``: one block makes a tile of C."""

    name: str
    tile_m: int
    tile_n: int
    threads: int
    shared_bytes: int
    target: str  # what NVRTC compiles for
    macros: dict[str, int] = field(default_factory=dict)


def fp32(
    stages: int = 2,
    thread: tuple[int, int] = (8, 8),
    warps: tuple[int, int] = (2, 2),
    blocks_per_sm: int = 3,
    group: int = 8,
) -> Kernel:
    """FFMA alone. thread: numbers of C a thread makes, rows and columns."""
    tile_m, tile_n, tile_k = warps[0] * 4 * thread[0], warps[1] * 8 * thread[1], 16
    macros = {"STAGES": stages, "THREAD_M": thread[0], "THREAD_N": thread[1], "GROUP": group}
    macros |= {"WARPS_M": warps[0], "WARPS_N": warps[1], "BLOCKS_PER_SM": blocks_per_sm}
    shared_bytes = 4 * stages * tile_k * (tile_m + tile_n)
    return Kernel("fp32", tile_m, tile_n, 32 * warps[0] * warps[1], shared_bytes, "sm_90", macros)


def wmma(
    stages: int = 4,
    tile: tuple[int, int, int] = (128, 256, 64),
    blocks_per_sm: int = 1,
    group: int = 8,
) -> Kernel:
    """Tensor cores through WMMA; a warp makes 64×64 of the tile."""
    row_a, row_b = tile[2] + 8, tile[1] + 8
    shared_bytes = 2 * stages * (tile[0] * row_a + tile[2] * row_b)
    return _warp_tiled("wmma", stages, tile, blocks_per_sm, group, shared_bytes)


def mma(
    stages: int = 4,
    tile: tuple[int, int, int] = (128, 256, 64),
    blocks_per_sm: int = 1,
    group: int = 8,
) -> Kernel:
    """Tensor cores through ``mma.sync``; a warp makes 64×64 of the tile."""
    shared_bytes = 2 * stages * tile[2] * (tile[0] + tile[1])
    return _warp_tiled("mma", stages, tile, blocks_per_sm, group, shared_bytes)


def _warp_tiled(
    name: str,
    stages: int,
    tile: tuple[int, int, int],
    blocks_per_sm: int,
    group: int,
    shared_bytes: int,
) -> Kernel:
    macros = dict(zip(("TILE_M", "TILE_N", "TILE_K"), tile, strict=True))
    macros |= {"STAGES": stages, "BLOCKS_PER_SM": blocks_per_sm, "GROUP": group}
    threads = 32 * (tile[0] // 64) * (tile[1] // 64)
    return Kernel(name, tile[0], tile[1], threads, shared_bytes, "sm_90", macros)


def wgmma(stages: int = 4, group: int = 8) -> Kernel:
    """Tensor cores through ``wgmma``, fed by the copy engine."""
    shared_bytes = 2 * stages * 64 * (128 + 256) + 2 * 8 * 2 * 16 * 64 + 16 * stages
    macros = {"STAGES": stages, "GROUP": group}
    return Kernel("wgmma", 128, 256, 384, shared_bytes, "sm_90a", macros)


def mma_ceiling() -> Kernel:
    """``mma.sync`` on registers alone: no product, but what bounds one."""
    return Kernel("mma_ceiling", 0, 0, 256, 0, "sm_90")


def function_of(kernel: Kernel) -> Any:
    """``kernel`` as CuPy calls it. Raises KernelbookError when it does not compile."""
    import cupy

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(compile_cubin(kernel))
        function = cupy.RawModule(path=str(path)).get_function(f"matmul_{kernel.name}")
    function.max_dynamic_shared_size_bytes = kernel.shared_bytes
    return function


def load(kernel: Kernel) -> Bind:
    """``kernel`` on the GPU in use. Raises KernelbookError when it does not compile."""
    import cupy

    function = function_of(kernel)

    def bind(a: Any, b: Any, c: Any) -> Launch:
        (m, k), n = a.shape, b.shape[1]
        tiles_m, tiles_n = -(-m // kernel.tile_m), -(-n // kernel.tile_n)
        sizes = (np.int32(m), np.int32(n), np.int32(k))
        if kernel.name == "wgmma":
            matrices = (_tensor_map(a, 128, 64), _tensor_map(b, 64, 64), _tensor_map(c, 16, 64))
            pairs = -(-tiles_m // 2) * tiles_n
            blocks = 2 * min(pairs, cupy.cuda.Device().attributes["MultiProcessorCount"] // 2)
        else:
            matrices, blocks = (a, b, c), tiles_m * tiles_n
        arguments = (*matrices, *sizes)
        return lambda: function(
            (blocks,), (kernel.threads,), arguments, shared_mem=kernel.shared_bytes
        )

    return bind


def compile_cubin(kernel: Kernel) -> bytes:
    """Machine code of ``kernel``. Raises KernelbookError with NVRTC's log."""
    from cuda.bindings import nvrtc as library

    options = [f"--gpu-architecture={kernel.target}", "--std=c++17"]
    options += [f"-D{name}={value}" for name, value in kernel.macros.items()]
    options += [f"-I{folder}" for folder in _include_folders()]
    path = FOLDER / f"{kernel.name}.cu"
    _, program = library.nvrtcCreateProgram(path.read_bytes(), path.name.encode(), 0, [], [])
    try:
        encoded = [option.encode() for option in options]
        (status,) = library.nvrtcCompileProgram(program, len(encoded), encoded)
        if status != library.nvrtcResult.NVRTC_SUCCESS:
            log = b" " * library.nvrtcGetProgramLogSize(program)[1]
            library.nvrtcGetProgramLog(program, log)
            raise KernelbookError(f"{path}: NVRTC refuses it: {log.decode(errors='replace')}")
        cubin = b" " * library.nvrtcGetCUBINSize(program)[1]
        library.nvrtcGetCUBIN(program, cubin)
        return cubin
    finally:
        library.nvrtcDestroyProgram(program)


def _include_folders() -> list[Path]:
    """CUDA's headers; a toolkit's as well, as the wheels lack the ``crt/mma.h`` of WMMA."""
    toolkits = (path.parents[1] for path in Path("/usr/local").glob("cuda*/include/crt/mma.h"))
    return [*nvrtc.include_folders(), *sorted(toolkits)[-1:]]


def _tensor_map(matrix: Any, box_rows: int, box_columns: int) -> np.ndarray:
    """What the copy engine must know of an fp16 matrix, to be passed to a kernel by value.

    matrix: row-major, rows a multiple of 16 bytes. Boxes go to shared memory with rows of 128 bytes
    whose 16-byte chunks are permuted (chunk xor row, modulo 8); outside the matrix they are zeros.
    """
    from cuda.bindings import driver

    rows, columns = matrix.shape
    words, halfwords = driver.cuuint64_t, driver.cuuint32_t
    status, encoded = driver.cuTensorMapEncodeTiled(
        driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        2,
        matrix.data.ptr,
        [words(columns), words(rows)],  # the innermost first
        [words(2 * columns)],  # bytes from row to row
        [halfwords(box_columns), halfwords(box_rows)],
        [halfwords(1), halfwords(1)],
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    if status != driver.CUresult.CUDA_SUCCESS:
        raise KernelbookError(
            f"cuTensorMapEncodeTiled: {status} for a matrix of {matrix.shape}; "
            "its rows must be a multiple of 8 halves"
        )
    return np.frombuffer(ctypes.string_at(int(encoded.getPtr()), 128), dtype="V128")
