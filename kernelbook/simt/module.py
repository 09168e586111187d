"""Puts the simulator in the place of ``numba.cuda``, by :data:`sys.modules` alone.

Nothing inside Numba is changed. Submodules that mean something here (``libdevice``, ``cg``,
``types``, ``args``) can be imported; all others say that they are not simulated.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from numba.core import types

from kernelbook.errors import KernelbookError
from kernelbook.simt.errors import NotSimulated

_NAME = "numba.cuda"


class _Guard:
    """Import finder that answers for every submodule of ``numba.cuda`` which does not exist."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.startswith(f"{_NAME}."):
            raise NotSimulated(
                f"{name} is not simulated: it is part of the real numba.cuda, which needs a GPU"
            )
        return None


def install() -> ModuleType:
    """Make ``from numba import cuda`` give the simulator, in this process, from now on.

    Calling it again does nothing. Returns the module. Raises KernelbookError when the real
    ``numba.cuda`` has been imported already: then some modules hold the real one.
    """
    from kernelbook.simt import args, cg, cuda, libdevice

    present = sys.modules.get(_NAME)
    if present is cuda:
        return cuda
    if present is not None:
        raise KernelbookError(
            "the real numba.cuda is already imported, so the simulator can't take its place. "
            "Restart the kernel and run `from kernelbook import lab` before `from numba import "
            "cuda`."
        )
    numba: Any = importlib.import_module("numba")
    cuda.__path__ = []  # makes it a package, whose submodules the guard answers for
    sys.modules[_NAME] = cuda
    for name, module in {
        "cg": cg,
        "libdevice": libdevice,
        "types": types,
        "args": args,
    }.items():
        sys.modules[f"{_NAME}.{name}"] = module
    sys.meta_path.insert(0, _Guard)
    numba.cuda = cuda
    return cuda


def installed() -> bool:
    """Whether the simulator stands in the place of ``numba.cuda``."""
    present = sys.modules.get(_NAME)
    return present is not None and getattr(present, "implementation", "") == "kernelbook.simt"
