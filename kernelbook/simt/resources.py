"""What a kernel costs for the arguments of a launch, from the real compile; asked once a kernel.

Nothing in the simulator imports this: whoever wants launches held against the real compile calls
:func:`connect`, as a lab does. Then the compiler is asked before the first launch of a block so
large that its registers may not suffice.
Limit: no answer for a kernel that cannot be lifted or compiled; its launches are not checked.
"""

from __future__ import annotations

import weakref
from typing import Any

from kernelbook.compilers import Compiled, compile_kernel, kernel_of
from kernelbook.errors import KernelbookError
from kernelbook.simt import device, occupancy
from kernelbook.simt.argument_types import signature_of

Answer = tuple[Compiled | None, str]
_known: weakref.WeakKeyDictionary[Any, dict[Any, Answer]] = weakref.WeakKeyDictionary()


def connect() -> None:
    """Hold launches that follow against the registers of the real compile."""
    occupancy.connect(registers_of)


def registers_of(kernel: Any, args: tuple[Any, ...]) -> int | None:
    """Registers a thread on the GPU in use; None when they are not known."""
    compiled, _ = compiled_for(kernel, args)
    return None if compiled is None else compiled.registers


def compiled_for(kernel: Any, args: tuple[Any, ...]) -> Answer:
    """The real compile of ``kernel`` for arguments of a launch, or None and the reason why not.

    It is for the compute capability of the GPU in use. Cost: about half a second the first time,
    a dictionary look-up from then on.
    """
    try:
        signature = signature_of(kernel.signatures, args)
        arch = device.model().compute_capability
        answers = _known.setdefault(kernel, {})
        if (signature, arch) not in answers:
            answers[signature, arch] = _compile(kernel, signature, arch)
    except KernelbookError as error:
        return None, str(error)
    return answers[signature, arch]


def _compile(kernel: Any, signature: str, arch: tuple[int, int]) -> Answer:
    try:
        source, name = kernel_of(kernel)
        return compile_kernel(source, name, signature, arch), ""
    except KernelbookError as error:  # kept as well: asking again would give the same
        return None, str(error)
