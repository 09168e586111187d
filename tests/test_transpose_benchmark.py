"""The transpose benchmark measures what the lab teaches: no GPU needed to see that."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from kernelbook import compilers, source
from kernelbook.bench.timers import Percentiles
from kernelbook.errors import KernelbookError

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "benchmarks" / "transpose.py"


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("transpose_benchmark", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def lab():
    return source.read(ROOT / "solutions" / "cuda" / "transpose.md", ROOT / "solutions")


class PlainCuda:
    """``@cuda.jit`` that leaves a function as it is."""

    def jit(self, function=None, **_options):
        return function or (lambda inner: inner)


def test_ladder_takes_every_kernel_from_the_lab(benchmark, lab):
    kernels = benchmark.lab_kernels(lab, PlainCuda(), float)
    ladder = {kernel for kernel, _ in benchmark.LADDER.values()}
    assert all(callable(kernels[name]) for name in ladder)
    assert ladder | {benchmark.LAST[1]} == set(lab.exercises)


def test_ladder_without_its_kernel_is_refused(benchmark, lab, monkeypatch):
    monkeypatch.setitem(benchmark.LADDER, "v9", ("no_such_kernel", 32))
    with pytest.raises(KernelbookError, match="no_such_kernel"):
        benchmark.lab_kernels(lab, PlainCuda(), float)


def test_cuda_steps_and_variants_compile_and_divide_every_side(benchmark):
    family = benchmark.FAMILY.read_text("utf-8")
    for entry, _ in benchmark.IN_CUDA.values():
        compilers.compile_cuda(family, entry)
    for variant in benchmark.VARIANTS.values():
        options = (f"TILE_ROWS={variant.tile_rows}", f"TILE_COLS={variant.tile_cols}")
        given = [option.removeprefix("-D") for option in variant.options]
        defined = "".join(f"#define {name.replace('=', ' ')}\n" for name in (*options, *given))
        compilers.compile_cuda(defined + family, "float4_tile")
        for side in benchmark.SIDES:
            assert side % (8 * variant.tile_rows) == side % (8 * variant.tile_cols) == 0


def test_yardstick_is_the_fastest_copy_at_any_size(benchmark):
    def at(time_us):
        return Percentiles(time_us, time_us, time_us)

    times = {
        ("copy", 8192): at(200.0),
        ("copy", 32768): at(3000.0),
        ("cudaMemcpy", 32768): at(3500.0),
        ("v6 float4", 32768): at(1000.0),
    }
    assert benchmark.yardstick(times) == pytest.approx(8 * 32768**2 / 3000 / 1e3)


def test_missing_peer_is_noted_and_the_others_stay(benchmark, monkeypatch):
    run = object.__new__(benchmark._Run)
    run.side, run.inputs, run.notes, run.out = 32, [], {}, None
    monkeypatch.setattr(
        benchmark.importlib, "import_module", lambda name: exec(f"raise ImportError({name!r})")
    )
    assert list(run._peers()) == []
    assert len(run.notes) == 5
    assert all(benchmark.ABSENT in note for note in run.notes.values())


def test_script_without_a_gpu_says_so_and_writes_nothing(tmp_path):
    from kernelbook import device

    if device.gpu_count():
        pytest.skip("this machine has a GPU")
    out = tmp_path / "transpose.json"
    done = subprocess.run(
        [sys.executable, SCRIPT, "--out", out],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 2
    assert "no GPU here" in done.stdout + done.stderr
    assert not out.exists()
