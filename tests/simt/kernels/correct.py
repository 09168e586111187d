"""All correct kernels."""

from kernels import correct_grid, correct_shared, correct_warps

CASES = [case for module in (correct_shared, correct_warps, correct_grid) for case in module.CASES]
