"""How array arguments travel between host and device: ``In``, ``Out``, ``InOut``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from kernelbook.simt import guard, ordering, seam
from kernelbook.simt.host import NOT_CONTIGUOUS, DeviceNDArray, contiguous, order_of
from kernelbook.simt.unwritten import fresh


class ArgHint:
    """How an array argument travels. ``stage()`` gives its device memory and what to do after."""

    copies_in, copies_out = True, True

    def __init__(self, value: Any) -> None:
        self.value = value

    def stage(self, stream: Any = 0) -> tuple[np.ndarray[Any, Any], Callable[[], None] | None]:
        """Device memory for the launch, and the copy back to run after it (None: no copy).

        Both copies are on ``stream``; without one they are synchronous.
        """
        value = self.value
        if isinstance(value, DeviceNDArray):
            return value.memory, None
        array = np.asanyarray(value)
        if not contiguous(array):
            raise ValueError(NOT_CONTIGUOUS)
        order = order_of(array)
        if self.copies_in:
            ordering.before_reading(array)
            if seam.settings.diagnosing:
                memory = guard.copied(array, order)
            else:
                memory = np.array(array, order=order, subok=False)
            ordering.copied_in(array, memory, stream)
        else:
            memory = fresh(array.shape, array.dtype, order)
        if not array.flags.writeable:
            memory.flags.writeable = False
            return memory, None
        if not self.copies_out:
            return memory, None
        return memory, functools.partial(ordering.copied_out, memory, array, stream)


class In(ArgHint):
    """Copied to the device, not back."""

    copies_out = False


class Out(ArgHint):
    """Copied back, not to the device: the kernel starts with undefined memory."""

    copies_in = False


class InOut(ArgHint):
    """Copied both ways, as a bare array is."""
