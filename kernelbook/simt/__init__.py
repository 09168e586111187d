"""The CUDA simulator: runs Numba CUDA kernels with no GPU. Importing it changes nothing.

``install()`` makes ``from numba import cuda`` give :mod:`kernelbook.simt.cuda`. ``diagnosis()``
raises races and reads of unwritten memory, ``observe()`` keeps the recording of a launch,
``schedule()`` chooses the order in which things run.
"""

from kernelbook.simt import cuda
from kernelbook.simt.errors import (
    BarrierError,
    BoundsError,
    DeadlockError,
    HostOrderError,
    KernelError,
    LaunchError,
    LaunchInterrupted,
    NotSimulated,
    RaceError,
    SimulatorWarning,
    TimeLimitError,
    UninitialisedError,
    WarpError,
)
from kernelbook.simt.launch import simulated
from kernelbook.simt.module import install, installed
from kernelbook.simt.record import Allocation, Kind, Recording, Site, Sync
from kernelbook.simt.seam import (
    Trace,
    diagnose_always,
    diagnosis,
    observe,
    restart_schedules,
    schedule,
)

__all__ = [
    "Allocation",
    "BarrierError",
    "BoundsError",
    "DeadlockError",
    "HostOrderError",
    "KernelError",
    "Kind",
    "LaunchError",
    "LaunchInterrupted",
    "NotSimulated",
    "RaceError",
    "Recording",
    "SimulatorWarning",
    "Site",
    "Sync",
    "TimeLimitError",
    "Trace",
    "UninitialisedError",
    "WarpError",
    "cuda",
    "diagnose_always",
    "diagnosis",
    "install",
    "installed",
    "observe",
    "restart_schedules",
    "schedule",
    "simulated",
]
