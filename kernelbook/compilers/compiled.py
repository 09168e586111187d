"""What a compiler yields: machine code and what it costs, or the reason for a refusal."""

from __future__ import annotations

from dataclasses import dataclass

from kernelbook.errors import CompileError
from kernelbook.lift.lifted import MAX_MESSAGE, MAX_REASON, place, shortened


@dataclass(frozen=True)
class Compiled:
    """One kernel for one architecture.

    ``ptx``: without comments, so that what is found in it is an instruction and no remark.
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

    ``cell`` is set when the line stands in another one. ``text``: the line, ``detail``: the
    compiler's own words; both shortened.
    """

    def __init__(
        self,
        name: str,
        reason: str,
        *,
        line: int | None = None,
        cell: int | None = None,
        inside: str = "",
        text: str = "",
        detail: str = "",
    ) -> None:
        name, reason = shortened(name, 60), shortened(reason, MAX_REASON)
        text = shortened(text.strip(), 80)
        quoted = f"\n    {text}" if text else ""
        message = f"{place(name, line, inside, cell is not None)}: {reason}{quoted}"
        super().__init__(shortened(message, MAX_MESSAGE))
        self.name, self.reason, self.line, self.cell = name, reason, line, cell
        self.text, self.detail = text, detail
        self.inside = inside if inside != name else ""
