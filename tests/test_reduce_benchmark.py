"""The reduction benchmark measures what the lab teaches: no GPU needed to see that."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kernelbook import source
from kernelbook.errors import KernelbookError

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "benchmarks" / "reduce.py"


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("reduce_benchmark", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def lab():
    return source.read(ROOT / "solutions" / "cuda" / "reduce.md", ROOT / "solutions")


class PlainCuda:
    """``@cuda.jit`` that leaves a function as it is."""

    def jit(self, function=None, **_options):
        return function or (lambda inner: inner)


def test_ladder_takes_every_kernel_from_the_lab(benchmark, lab):
    kernels = benchmark.numba_kernels(lab, PlainCuda(), float)
    assert all(callable(kernels[name]) for name in benchmark.LADDER.values())
    assert set(benchmark.LADDER.values()) >= {
        e.id for e in lab.exercises.values() if e.kind is source.Kind.KERNEL
    } - {"reduce_shuffle"}


def test_ladder_alternatives_differ_from_the_reference(benchmark, lab):
    kernels = benchmark.numba_kernels(lab, PlainCuda(), float)
    assert kernels["strided"] is not kernels["reduce_interleaved"]
    assert kernels["last_warp"] is not kernels["reduce_first_add"]
    assert "shfl_down_sync" in kernels["last_warp"].__code__.co_names


def test_ladder_without_its_alternative_is_refused(benchmark, lab, monkeypatch):
    monkeypatch.setattr(benchmark, "STRIDED", "no such words")
    with pytest.raises(KernelbookError, match="no alternative of reduce_interleaved"):
        benchmark.numba_kernels(lab, PlainCuda(), float)


@pytest.mark.parametrize(
    ("kernel", "blocks"),
    [
        ("reduce_interleaved", [131072, 512, 2, 1]),
        ("strided", [131072, 512, 2, 1]),
        ("reduce_sequential", [131072, 512, 2, 1]),
        ("reduce_first_add", [65536, 128, 1]),
        ("last_warp", [65536, 128, 1]),
        ("reduce_many", [1056, 1]),
        ("reduce_block", [1056, 1]),
    ],
)
def test_passes_end_with_one_block(benchmark, monkeypatch, kernel, blocks):
    monkeypatch.setattr(benchmark, "_grid", lambda: 1056)
    assert benchmark._Run._levels(SimpleNamespace(n=1 << 25), kernel) == blocks


def test_script_without_a_gpu_says_so_and_writes_nothing(tmp_path):
    from kernelbook import device

    if device.gpu_count():
        pytest.skip("this machine has a GPU")
    out = tmp_path / "reduce.json"
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
