"""Asking the helper process to compile: start, time limit, one restart, an answer or an error."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import queue
import re
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import kernelbook
from kernelbook.compilers.compiled import Compiled, KernelRefused
from kernelbook.errors import KernelbookError
from kernelbook.lift import Lifted, lift

SM_90 = (9, 0)

START_SECONDS = 120  # imports numba-cuda: 1 s alone, far more on a busy machine
COMPILE_SECONDS = 60
CACHE_ENTRIES = 256
TOOLKIT_VARIABLES = ("CUDA_HOME", "CUDA_PATH")  # where a toolkit that is no wheel lies
MAX_COMPILES = 500  # Numba never forgets a type; a fresh process does

# The folder of this package comes last on the path, so that it can shadow nothing.
BOOT = "import sys; sys.path.append(sys.argv.pop()); import runpy; " + (
    "runpy.run_module('kernelbook.compilers.worker', run_name='__main__')"
)
PACKAGE_FOLDER = str(Path(kernelbook.__file__).resolve().parent.parent)


class WorkerDied(KernelbookError):
    """The helper process ended, or could not be started."""


class WorkerTimeout(KernelbookError):
    """A compilation took longer than it may."""


class Worker:
    """A helper process that compiles. A context manager; it starts at first use or on `start`.

    prefix: what stands before the Python command, such as a sandbox's own command line.
    Safe to use from several threads (one compilation at a time) and after a fork, where the child
    gets a process of its own.
    """

    def __init__(
        self,
        prefix: Sequence[str] = (),
        *,
        python: str = sys.executable,
        compile_seconds: float = COMPILE_SECONDS,
        start_seconds: float = START_SECONDS,
    ) -> None:
        self.command = [*prefix, python, "-P", "-c", BOOT, PACKAGE_FOLDER]
        self.compile_seconds = compile_seconds
        self.start_seconds = start_seconds
        self._cache: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._process: subprocess.Popen[str] | None
        self._lines: queue.SimpleQueue[str | None]
        self._ready: bool
        self._asked: int
        self._reset()

    def __enter__(self) -> Worker:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start the process without waiting until it is ready."""
        with self._own_lock():
            self._start()

    def close(self) -> None:
        """End the process; it starts again when something is to be compiled."""
        with self._own_lock():
            self._end()

    def compile_kernel(
        self,
        source: str | Lifted,
        name: str,
        signature: str,
        arch: tuple[int, int] = SM_90,
    ) -> Compiled:
        """PTX and resources of the Numba kernel ``name`` for argument types ``signature``.

        source: Python text, of which only what :func:`kernelbook.lift.lift` takes is run.
        Raises: NotAKernel, KernelRefused (the learner's fault); WorkerDied, WorkerTimeout.
        """
        lifted = source if isinstance(source, Lifted) else lift([source], name)
        answer = self._ask("numba", lifted.source, name, signature, arch)
        return _result(answer, lifted, name)

    def compile_cuda(
        self,
        source: str | Lifted,
        entry: str | None = None,
        arch: tuple[int, int] = SM_90,
    ) -> Compiled:
        """PTX and resources of the kernel ``entry`` in CUDA C++, or of the first one.

        Raises: KernelRefused (the learner's fault); WorkerDied, WorkerTimeout.
        """
        text = source.source if isinstance(source, Lifted) else source
        lines = {n: (0, n) for n in range(1, text.count("\n") + 2)}
        lifted = source if isinstance(source, Lifted) else Lifted(text, (), lines, ())
        answer = self._ask("cuda", text, entry, "", arch)
        return _result(answer, lifted, entry or "CUDA source")

    def _ask(
        self, language: str, source: str, name: str | None, signature: str, arch: tuple[int, int]
    ) -> dict[str, Any]:
        request = {
            "language": language, "source": source, "name": name, "signature": signature,
            "arch": list(arch),
        }  # fmt: skip
        key = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
        with self._own_lock():
            if key not in self._cache:
                answer = self._exchange_twice(request)
                self._cache[key] = answer
                while len(self._cache) > CACHE_ENTRIES:
                    self._cache.popitem(last=False)
            self._cache.move_to_end(key)
            return self._cache[key]

    def _exchange_twice(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._exchange(request)
        except WorkerDied:
            self._end()  # it may have died long ago; a fresh one gets the same question once
            try:
                return self._exchange(request)
            except WorkerDied as error:
                self._end()
                raise WorkerDied(f"{error} It was restarted once and ended again.") from None

    def _exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._asked >= MAX_COMPILES:
            self._end()
        self._start()
        if not self._ready:
            first = self._receive(0, self.start_seconds)
            if "broken" in first:
                self._end()
                raise KernelbookError(f"{first['broken']}. `kernelbook doctor` says how to fix it.")
            self._ready = True
        self._asked += 1
        number = self._asked
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"id": number, **request}) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise WorkerDied(self._epitaph()) from None
        answer = self._receive(number, self.compile_seconds)
        if "failed" in answer:
            raise KernelbookError(f"The compiler broke down: {answer['failed']}")
        return answer

    def _receive(self, number: int, seconds: float) -> dict[str, Any]:
        while True:  # an answer to a question that was interrupted is passed over
            try:
                line = self._lines.get(timeout=seconds)
            except queue.Empty:
                self._end()
                raise WorkerTimeout(
                    f"The compiler gave no answer within {seconds:g} s and was stopped. A very "
                    "long unrolled loop can cause this; so can a busy machine."
                ) from None
            if line is None:
                raise WorkerDied(self._epitaph())
            with contextlib.suppress(ValueError):
                answer = json.loads(line)
                if isinstance(answer, dict) and answer.get("id") == number:
                    return answer

    def _start(self) -> None:
        if self._process is not None:
            return
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("NUMBA_", "CUDA_")) or name in TOOLKIT_VARIABLES
        }
        environment |= {"CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                encoding="utf-8",
                env=environment,
                cwd="/",
                start_new_session=True,  # an interrupt of the notebook is not meant for it
            )
        except OSError as error:
            raise WorkerDied(f"The compiler's process cannot be started: {error}.") from None
        self._lines = queue.SimpleQueue()
        reader = threading.Thread(
            target=_read, args=(self._process, self._lines), name="compiler-answers", daemon=True
        )
        reader.start()

    def _end(self) -> None:
        process, self._process = self._process, None
        self._ready, self._asked = False, 0
        if process is None:
            return
        with contextlib.suppress(OSError):
            process.kill()
        process.wait()
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()

    def _epitaph(self) -> str:
        assert self._process is not None
        try:
            status = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "The compiler's process closed its output."
        how = f"signal {-status}" if status < 0 else f"status {status}"
        return f"The compiler's process ended by {how}."

    def _own_lock(self) -> threading.RLock:
        if self._pid != os.getpid():
            self._reset()  # after a fork: the parent's process and lock are the parent's
        return self._lock

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._process = None
        self._lines = queue.SimpleQueue()
        self._ready = False
        self._asked = 0


_default = Worker()


def compile_kernel(
    source: str | Lifted, name: str, signature: str, arch: tuple[int, int] = SM_90
) -> Compiled:
    """:meth:`Worker.compile_kernel` in a process that this Python process keeps for itself."""
    return _default.compile_kernel(source, name, signature, arch)


def compile_cuda(
    source: str | Lifted, entry: str | None = None, arch: tuple[int, int] = SM_90
) -> Compiled:
    """:meth:`Worker.compile_cuda` in a process that this Python process keeps for itself."""
    return _default.compile_cuda(source, entry, arch)


def warm_up() -> None:
    """Start the helper process in the background, so that the first compilation need not wait."""
    with contextlib.suppress(WorkerDied):
        _default.start()


def _result(answer: dict[str, Any], lifted: Lifted, name: str) -> Compiled:
    if "compiled" in answer:
        done = answer["compiled"]
        return Compiled(
            ptx=done["ptx"],
            entry=done["entry"],
            registers=done.get("registers"),
            shared_bytes=done.get("shared_bytes"),
            local_bytes=done.get("local_bytes"),
            spill_bytes=done.get("spill_bytes"),
            seconds=done["seconds"],
        )
    number = answer["line"]
    texts = lifted.source.split("\n")
    cell, line = lifted.lines.get(number, (None, number))
    own = next((n for n, text in enumerate(texts, 1) if text.startswith(f"def {name}(")), None)
    elsewhere = cell is not None and cell != lifted.lines.get(own or 0, (cell, 0))[0]
    raise KernelRefused(
        name,
        answer["refused"],
        line=line,
        cell=cell if elsewhere else None,
        inside=_definition_around(texts, number),
        text=texts[number - 1] if number and number <= len(texts) else "",
        detail=answer["detail"],
    )


def _definition_around(texts: list[str], number: int | None) -> str:
    """Name of the function whose lines hold line ``number`` of lifted source; "" for none."""
    number = number or 0
    above = texts[:number][::-1]
    if above and above[0].startswith("@"):
        above = texts[number:]
    for text in above:
        if match := re.match(r"def (\w+)", text):
            return match[1]
    return ""


def _read(process: subprocess.Popen[str], lines: queue.SimpleQueue[str | None]) -> None:
    assert process.stdout is not None
    with contextlib.suppress(OSError, ValueError):
        for line in process.stdout:
            lines.put(line)
        process.stdout.close()
    lines.put(None)


atexit.register(_default.close)
