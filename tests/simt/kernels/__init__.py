"""Kernels with one known defect each, and kernels with none, for the simulator and for a GPU."""
