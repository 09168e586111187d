"""CUDA C++ to PTX by NVRTC, in the helper process."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path
from typing import Any

from kernelbook.compilers import ptxas

MAX_ERRORS = 3

_ERROR = re.compile(r"^(?P<file>[^()\n]*)\((?P<line>\d+)\): (?:catastrophic )?error: (?P<text>.*)$")
FILE = "kernel.cu"


class Refused(Exception):
    """The source does not compile. ``line`` is in the source, None where it has none."""

    def __init__(self, reason: str, line: int | None = None, detail: str = "") -> None:
        super().__init__(reason)
        self.reason, self.line, self.detail = reason, line, detail


def compile_source(source: str, entry: str | None, arch: tuple[int, int]) -> dict[str, Any]:
    """PTX of a translation unit and the resources of one kernel in it.

    entry: name of an ``extern "C" __global__`` function; None takes the first kernel.
    Raises: Refused.
    """
    target = f"sm_{arch[0]}{arch[1]}"
    ptx = ptxas.without_comments(_compile(source, target))
    found = ptxas.entries(ptx)
    if entry is None and not found:
        raise Refused("no kernel is defined: no function is declared __global__")
    if entry is not None and entry not in found:
        line = 1 + source[: max(source.find(entry), 0)].count("\n") if entry in source else None
        others = f"; it defines {', '.join(found)}" if found else ""
        raise Refused(
            f'no kernel is called {entry}{others}; declare it extern "C" __global__ void {entry}',
            line,
        )
    name = entry or found[0]
    try:
        costs = ptxas.resources(ptx, name, target)
    except ptxas.AssemblerError as error:
        raise Refused(too_much_shared(str(error)), None, str(error)) from None
    return {"ptx": ptxas.only_entry(ptx, name), "entry": name, **costs}


def _compile(source: str, target: str) -> str:
    from cuda.bindings import nvrtc

    options = [f"--gpu-architecture={target}", "--std=c++17"]
    options += [f"-I{folder}" for folder in include_folders()]
    _, program = nvrtc.nvrtcCreateProgram(source.encode(), FILE.encode(), 0, [], [])
    try:
        encoded = [option.encode() for option in options]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(encoded), encoded)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            log = _text(program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
            raise read_log(log or str(status))
        return _text(program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _text(program: Any, size_of: Any, read: Any) -> str:
    _, size = size_of(program)
    buffer: bytes = b" " * size
    read(program, buffer)
    return buffer.rstrip(b"\0").decode(errors="replace")


def read_log(log: str) -> Refused:
    """NVRTC's log as one refusal: the first errors with their lines."""
    found: list[tuple[int | None, str]] = []
    for text in log.splitlines():
        if match := _ERROR.match(text.strip()):
            inside = match["file"].strip().endswith(FILE)
            where = None if inside else f" (in {Path(match['file']).name})"
            found.append((int(match["line"]) if inside else None, match["text"] + (where or "")))
    if ptxas.TOO_MUCH_SHARED.search(log):
        return Refused(too_much_shared(log), None, log)
    if not found:
        last = [text for text in log.splitlines() if text.strip()][-1:]
        return Refused("NVRTC refuses it: " + "".join(last), None, log)
    first, *more = found[:MAX_ERRORS]
    reason = first[1]
    for line, text in more:
        reason += f"; line {line}: {text}" if line else f"; {text}"
    if len(found) > MAX_ERRORS:
        reason += f"; and {len(found) - MAX_ERRORS} more"
    return Refused(reason, first[0], log)


def too_much_shared(log: str) -> str:
    """The sentence for a kernel whose static shared memory exceeds the limit."""
    match = ptxas.TOO_MUCH_SHARED.search(log)
    if match is None:
        return "the assembler refuses it"
    used, limit = int(match[1], 16), int(match[2], 16)
    return (
        f"its shared arrays take {used:,} bytes; a block has at most {limit:,}. "
        "Make the arrays smaller"
    )


def include_folders() -> list[Path]:
    """Folders of CUDA's headers: those of the nvidia wheels, else of an installed toolkit."""
    spec = importlib.util.find_spec("nvidia")
    wheels = spec.submodule_search_locations or [] if spec else []
    homes = [home for root in wheels for home in sorted(Path(root).glob("*"))]
    homes += [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    homes.append(Path("/usr/local/cuda"))
    for home in homes:
        include = home / "include"
        if (include / "cuda_fp16.h").exists():
            return [folder for folder in (include, include / "cccl") if folder.is_dir()]
    return []
