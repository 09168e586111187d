"""What a compiler yields: machine code and what it costs, or the reason for a refusal."""

from __future__ import annotations

from dataclasses import dataclass

from kernelbook.errors import CompileError


@dataclass(frozen=True)
class Compiled:
    """One kernel for one architecture.

    ``registers`` a thread; ``shared_bytes`` static, a block; ``local_bytes`` of stack frame and
    ``spill_bytes`` of spill stores, a thread: None where the assembler could not be asked.
    ``seconds``: what the compilation took.
    """

    ptx: str
    entry: str  # the kernel's name in the PTX
    registers: int | None
    shared_bytes: int | None
    local_bytes: int | None
    spill_bytes: int | None
    seconds: float

    def __repr__(self) -> str:
        """One line for a notebook: what the kernel costs."""
        registers = "?" if self.registers is None else self.registers
        shared = f"{self.shared_bytes} bytes of shared memory" if self.shared_bytes else ""
        spills = f"{self.spill_bytes} bytes spilled" if self.spill_bytes else ""
        costs = [f"{registers} registers a thread", *filter(None, (shared, spills))]
        return f"Compiled for the GPU: {', '.join(costs)}."


class KernelRefused(CompileError):
    """The real compiler refuses the code. ``line`` counts in the kernel's own cell.

    ``cell`` is set when the line stands in another one. ``detail``: the compiler's own words,
    shortened.
    """

    def __init__(
        self,
        name: str,
        reason: str,
        *,
        line: int | None = None,
        cell: int | None = None,
        text: str = "",
        detail: str = "",
    ) -> None:
        where = name
        where += f", code cell {cell + 1}" if cell is not None else ""
        where += f", line {line}" if line is not None else ""
        quoted = f"\n    {text.strip()}" if text.strip() else ""
        super().__init__(f"{where}: {reason}{quoted}")
        self.name, self.reason, self.line, self.cell = name, reason, line, cell
        self.text, self.detail = text, detail
