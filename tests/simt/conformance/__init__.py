"""Small kernels whose results on a GPU are on record, to be equal in the simulator.

``record.py`` runs them with the real ``numba.cuda`` and writes ``h200.json``; the test beside this
folder runs them in the simulator. Importing this package imports ``numba.cuda``, so whoever wants
the simulator installs it first.
"""

from conformance import (
    atomics,
    complexes,
    control,
    conversions,
    floats,
    half,
    indexing,
    integers,
    intrinsics,
    libdevice,
    mathematics,
    memory,
    structures,
    warps,
)
from conformance.case import CASES, Case, decoded, launch, ulps

THEMES = (
    integers, floats, conversions, indexing, intrinsics, warps, atomics, memory, mathematics,
    libdevice, control, half, complexes, structures,
)  # fmt: skip

__all__ = ["CASES", "THEMES", "Case", "decoded", "launch", "ulps"]
