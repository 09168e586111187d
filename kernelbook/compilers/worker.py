"""The helper process: reads requests from stdin, writes answers to stdout, one JSON object a line.

It writes no file, keeps standard output to itself and ends when its input ends.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, TextIO

from kernelbook.compilers.nvrtc import Refused, compile_source


def main() -> int:
    """Answer requests until the input ends; returns the exit status."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # what a compiler prints must not be taken for an answer
    if error := _prepare():
        _write(answers, {"id": 0, "broken": error})
        return 1
    _write(answers, {"id": 0, "ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        _write(answers, {"id": request["id"], **_answer(request)})
    return 0


def _prepare() -> str:
    """Import what takes seconds; returns why that failed, or ""."""
    try:
        from numba.cuda.compiler import compile_ptx  # noqa: F401
    except Exception as error:
        return f"Numba's CUDA compiler cannot be loaded ({type(error).__name__}: {error})"
    return ""


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    started = time.perf_counter()
    arch = (request["arch"][0], request["arch"][1])
    try:
        if request["language"] == "numba":
            from kernelbook.compilers.numba_ptx import compile_function

            done = compile_function(request["source"], request["name"], request["signature"], arch)
        else:
            done = compile_source(request["source"], request["name"], arch)
    except Refused as refusal:
        detail = refusal.detail[:8000]
        return {"refused": refusal.reason, "line": refusal.line, "detail": detail}
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"[:2000]}
    return {"compiled": {**done, "seconds": time.perf_counter() - started}}


def _write(answers: TextIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
    raise SystemExit(main())
