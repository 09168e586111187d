"""These tests run kernels in the simulator, in this process: it takes numba.cuda's place."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator

import pytest

from kernelbook import simt

simt.install()


@pytest.fixture(autouse=True)
def undiagnosed() -> Iterator[None]:
    """Diagnosis off unless a test turns it on: whoever imported the lab has turned it on."""
    simt.restart_schedules()
    with simt.diagnosis(False):
        yield


@pytest.fixture
def line_of() -> Callable[[object, str], int]:
    """The line number, in its file, of the first source line of a kernel that holds a text."""

    def find(kernel: object, text: str) -> int:
        lines, first = inspect.getsourcelines(kernel.py_func)
        return first + next(n for n, line in enumerate(lines) if text in line)

    return find
