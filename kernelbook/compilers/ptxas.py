"""Registers, shared memory and spills of a kernel, asked from the assembler (nvJitLink).

Runs in the helper process. Source: the "ptxas info" lines that ``-v`` makes nvJitLink write.
"""

from __future__ import annotations

import re
from pathlib import Path

TOO_MUCH_SHARED = re.compile(r"uses too much shared data \((0x[0-9a-f]+) bytes, (0x[0-9a-f]+) max")
_PROPERTIES = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(
    r"^(?!.*\.extern).*\.shared\s+(?:\.align\s+\d+\s+)?\.[bsuf](\d+)\s+([\w$]+)(?:\[(\d+)\])?;",
    re.MULTILINE,
)
_ENTRY = re.compile(r"\.visible\s+\.entry\s+([\w$]+)")
_COMMENT = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"?|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)


class AssemblerError(Exception):
    """The assembler refuses the PTX; the text is what it says."""


def entries(ptx: str) -> list[str]:
    """Names of the kernels that PTX defines, in order."""
    return _ENTRY.findall(ptx)


def without_comments(ptx: str) -> str:
    """PTX with a space for each comment outside of strings, lines kept.

    Inline assembler may hold a comment that reads like an instruction; PTX that is searched for
    instructions must not. Limit: an instruction in a branch that is never taken still stands.
    """

    def blank(match: re.Match[str]) -> str:
        if match[0].startswith('"'):
            return match[0]
        return "\n" * match[0].count("\n") or " "

    return _COMMENT.sub(blank, ptx)


def only_entry(ptx: str, entry: str) -> str:
    """PTX (without comments) less the kernels other than ``entry``.

    Whoever asks what a kernel is made of must not be shown another one that is never launched.
    """
    kept: list[str] = []
    skipping, depth = False, 0
    for line in ptx.split("\n"):
        found = _ENTRY.search(line)
        if found and not skipping and found[1] != entry:
            skipping, depth = True, 0
        if not skipping:
            kept.append(line)
            continue
        depth += line.count("{") - line.count("}")
        skipping = depth > 0 or "}" not in line
    return "\n".join(kept)


def resources(ptx: str, entry: str, arch: str, max_registers: int | None = None) -> dict[str, int]:
    """{"registers", "shared_bytes", "local_bytes", "spill_bytes"} as far as they are known.

    arch: such as "sm_90". Raises: AssemblerError when the PTX breaks a limit of the hardware.
    """
    from cuda.core import Linker, LinkerOptions, ObjectCode

    known = {"shared_bytes": shared_bytes(ptx, entry)}
    options = LinkerOptions(arch=arch, ptxas_options=["-v"], max_register_count=max_registers)
    codes = [ObjectCode.from_ptx(ptx.encode())]
    runtime = _device_runtime()
    if ".extern .func" in ptx and runtime is not None:
        codes.append(ObjectCode.from_library(str(runtime)))
    linker = Linker(*codes, options=options)
    try:
        linker.link("cubin")
        log = linker.get_info_log() + linker.get_error_log()
    except Exception as error:  # cuda.core raises several kinds
        log = f"{error}\n{linker.get_error_log()}"
        if TOO_MUCH_SHARED.search(log):
            raise AssemblerError(log) from None
        return known
    return known | read_log(log, entry)


def shared_bytes(ptx: str, entry: str) -> int:
    """Bytes of static shared memory that PTX declares for a kernel, device functions' included.

    ptxas counts these too, but on sm_90 its log leaves them out, and the section of the binary
    adds the 1 KiB that the system reserves (CUDA 13.0).
    """
    start = ptx.find(f".entry {entry}")
    following = ptx.find(".entry ", start + 1)
    own = ptx[start : following if following > 0 else None]
    total = 0
    for bits, name, count in _SHARED.findall(ptx):
        if re.search(rf"{re.escape(name)}(?![\w$])", own):
            total += int(bits) // 8 * int(count or 1)
    return total


def read_log(log: str, entry: str) -> dict[str, int]:
    """The numbers that a ``ptxas -v`` log gives for one kernel."""
    start = log.find(f"Compiling entry function '{entry}'")
    if start < 0:
        return {}
    end = log.find("Compiling entry function", start + 1)
    part = log[start : end if end > 0 else None]
    found: dict[str, int] = {}
    if used := _USED.search(part):
        found["registers"] = int(used[1])
    if properties := _PROPERTIES.search(part):
        found |= {"local_bytes": int(properties[1]), "spill_bytes": int(properties[2])}
    return found


def _device_runtime() -> Path | None:
    """libcudadevrt, which grid-wide barriers are linked against."""
    import nvidia

    for folder in nvidia.__path__:
        for library in sorted(Path(folder).glob("*/lib*/libcudadevrt.a")):
            return library
    return None
