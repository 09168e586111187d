"""The first errors of a beginner, in a real kernel: still errors, but sentences."""

from __future__ import annotations

import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

FIRST = (
    "from kernelbook import lab\nfrom numba import cuda, jit\nimport numpy as np\nlab.begin('a/b')"
)


@pytest.fixture(scope="module")
def outputs() -> dict[str, list[NotebookNode]]:
    """What each cell put out, all run in one kernel."""
    sources = {
        "first": FIRST,
        "plain function": "def kernel(out):\n    out[0] = 1\n\nkernel[1, 1](lab.empty(1))",
        "for the cpu": "kernel = jit(lambda out: None)\nkernel[1, 1](lab.empty(1))",
        "not defined": "add_ten[1, 1](lab.empty(1))",
        "inside a function": "def f():\n    return undefined_name\nf()",
        "other type error": "len(3)",
        "check": "lab.check_close([1.0], [1.0])\nlab.check_equal(2, 2)",
        "failed check": "lab.check_close([1.0], [1.0])\nlab.check_equal(2, 3)",
        "no check": "1 + 1",
    }
    notebook = new_notebook(cells=[new_code_cell(source) for source in sources.values()])
    NotebookClient(notebook, allow_errors=True, timeout=60).execute()
    return {name: c.outputs for name, c in zip(sources, notebook.cells, strict=True)}


def error_of(outputs: list[NotebookNode]) -> list[str]:
    return next(list(o.traceback) for o in outputs if o.output_type == "error")


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("plain function", "put @cuda.jit on the line above its def"),
        ("for the cpu", "write @cuda.jit, not @jit"),
        ("not defined", "'add_ten' is not defined. Run the cell that defines it"),
    ],
)
def test_beginners_error_is_one_sentence(
    outputs: dict[str, list[NotebookNode]], cell: str, says: str
) -> None:
    traceback = error_of(outputs[cell])
    assert len(traceback) == 1
    assert says in traceback[0]


@pytest.mark.parametrize("cell", ["inside a function", "other type error"])
def test_other_errors_keep_their_traceback(
    outputs: dict[str, list[NotebookNode]], cell: str
) -> None:
    assert "Traceback" in "\n".join(error_of(outputs[cell]))


def test_passed_checks_are_counted_once_a_cell(outputs: dict[str, list[NotebookNode]]) -> None:
    assert outputs["check"][0].text == "✓ Public check passed (2 comparisons).\n"
    for cell in ("failed check", "no check"):
        assert "✓" not in "".join(o.get("text", "") for o in outputs[cell])
