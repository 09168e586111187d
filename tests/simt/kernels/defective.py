"""All defective kernels."""

from kernels import (
    launches,
    out_of_bounds,
    races_in_global,
    races_in_shared,
    unwritten_reads,
    waits,
)

_MODULES = (races_in_shared, races_in_global, unwritten_reads, out_of_bounds, waits, launches)
CASES = [case for module in _MODULES for case in module.CASES]
