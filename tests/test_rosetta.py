"""The pages that show one kernel in several languages: every tab's code runs, or compiles.

Numba's runs wherever this runs; CUDA C++ is compiled everywhere, and runs on a GPU.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelbook import lab

ROSETTA = Path(__file__).parents[1] / "book" / "rosetta"
CODE = ROSETTA / "code"
KERNELS = ("vector_add", "reduce", "softmax", "matmul")


def load(path: Path, name: str) -> Callable[..., Any]:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def cases(name: str) -> Iterator[tuple[tuple[np.ndarray, ...], Any]]:
    """Arguments and the result in float64, at sizes around the edges of blocks and tiles."""
    rng = np.random.default_rng(0)

    def random(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, dtype=np.float32)

    if name == "vector_add":
        for n in (1, 255, 256, 257, 1000):
            x, y = random(n), random(n)
            yield (x, y), x.astype(np.float64) + y
    elif name == "reduce":
        for n in (1, 31, 257, 5000):
            x = random(n)
            yield (x,), x.astype(np.float64).sum()
    elif name == "softmax":
        for shape in ((1, 1), (3, 31), (4, 33), (5, 200)):
            x = 40 * random(*shape)
            yield (x,), softmax(x)
        masked = np.array([[-np.inf, 0, 1]], np.float32)
        yield (masked,), softmax(masked)
    else:
        for m, k, n in ((1, 1, 1), (16, 16, 16), (17, 5, 33), (30, 40, 20)):
            a, b = random(m, k), random(k, n)
            yield (a, b), a.astype(np.float64) @ b


@pytest.mark.parametrize("name", KERNELS)
def test_numba_gives_what_numpy_gives(name: str) -> None:
    function = load(CODE / f"{name}_numba.py", name)
    for args, wanted in cases(name):
        for _ in lab.schedules():
            np.testing.assert_allclose(function(*args), wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", KERNELS)
def test_cuda_compiles_and_on_a_gpu_gives_what_numpy_gives(name: str) -> None:
    path = CODE / f"{name}_cuda.py"
    values = {
        node.targets[0].id: node.value
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    source = ast.literal_eval(values["SOURCE"])
    entry = re.search(r"void (\w+)\(", source)[1]
    assert lab.compiles_cuda(source, entry).ptx
    if lab.on_gpu():
        function = load(path, name)
        for args, wanted in cases(name):
            np.testing.assert_allclose(function(*args), wanted, rtol=2e-5, atol=2e-5)


def test_every_code_file_is_in_a_page() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in ROSETTA.glob("*.md"))
    for path in CODE.iterdir():
        if path.suffix == ".py":
            assert f"code/{path.name}" in pages
