"""The real compiler, behind the same border as the learners' kernels.

Lifted device code cannot run at compile time, but a compiler is a large program that reads what
strangers wrote; so its helper process, too, sees no repository, no network and no other submission.
One process per worker stays up, since its start costs more than a compilation.
"""

from __future__ import annotations

import atexit
import tempfile
from pathlib import Path

from kernelbook.compilers import Worker
from kernelbook.grade.assemble import Compile
from kernelbook.grade.sandbox import Sandbox
from kernelbook.lift import Lifted
from kernelbook.source import Exercise, Kind

# numba-cuda, LLVM and NVRTC reach 0.7 GiB of addresses; a template bomb takes all that it gets.
ADDRESS_BYTES = 2 << 30

_workers: dict[tuple[str, ...], Worker] = {}  # one for each border, kept until exit


def compiler_in(sandbox: Sandbox) -> Compile:
    """A function that compiles an exercise's lifted answer and raises CompileError if refused."""
    worker = _worker(sandbox)

    def compile_answer(exercise: Exercise, lifted: Lifted) -> None:
        if exercise.kind is Kind.SOURCE:
            worker.compile_cuda(lifted, exercise.entry)
        else:
            worker.compile_kernel(lifted, exercise.id, exercise.signature)

    return compile_answer


def _worker(sandbox: Sandbox) -> Worker:
    if sandbox.layers not in _workers:
        scratch = tempfile.TemporaryDirectory(prefix="kernelbook-compiler-")
        prefix = sandbox.argv([], Path(scratch.name), address_bytes=ADDRESS_BYTES)
        worker = Worker(prefix=prefix)
        atexit.register(scratch.cleanup)
        atexit.register(worker.close)
        _workers[sandbox.layers] = worker
    return _workers[sandbox.layers]
