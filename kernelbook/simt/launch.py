"""``cuda.jit`` and the launch: configuration, limits, arguments in, results out.

Limits are the model device's (:mod:`kernelbook.simt.device`). Host arrays are copied to separate
memory before the launch and back after it, as Numba does; when a kernel fails, nothing is copied
back. Compiler options are accepted and mean nothing here: the real compiler judges them.
"""

from __future__ import annotations

import functools
import inspect
import math
import numbers
import threading
import weakref
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from kernelbook.errors import SimulatorError
from kernelbook.simt import device, guard, host, occupancy, ordering, seam, signatures, verdict
from kernelbook.simt.abstract import known_arguments
from kernelbook.simt.args import ArgHint, InOut
from kernelbook.simt.errors import KernelError, LaunchError, NotSimulated
from kernelbook.simt.freeze import Frozen
from kernelbook.simt.limit import time_limit
from kernelbook.simt.log import Log
from kernelbook.simt.recorded import Recorded, wrap
from kernelbook.simt.registers import blockDim, blockIdx, gridDim, now, threadIdx
from kernelbook.simt.schedule import Schedule
from kernelbook.simt.scheduler import Grid, KernelInfo
from kernelbook.simt.unwritten import written_bytes

Triple = tuple[int, int, int]
_launching = threading.Lock()  # one grid at a time: the special registers exist once
_DEFAULT_BLOCK = 256  # what forall() uses; Numba asks the driver instead

# fmt: off
_OPTIONS = frozenset((
    "inline", "forceinline", "link", "debug", "opt", "lineinfo", "cache", "launch_bounds", "lto",
    "shared_memory_carveout", "fastmath", "max_registers", "extensions", "boundscheck", "fma",
    "prec_div", "prec_sqrt", "ftz", "abi", "abi_info", "linkable_code", "nopython",
    "_dbg_extend_lifetimes", "_dbg_optnone",
))
# fmt: on


def jit(func_or_sig: Any = None, device: bool = False, **options: Any) -> Any:
    """Make a kernel, or with ``device=True`` a device function, of a Python function.

    func_or_sig: the function, or a signature (string, tuple, numba signature) or list of them.
    Raises TypeError for an unknown option, NotImplementedError for ``boundscheck=True`` as Numba
    does (here bounds are always checked).
    """
    unknown = set(options) - _OPTIONS
    if unknown:
        raise TypeError(f"cuda.jit got an unknown option: {', '.join(sorted(unknown))}")
    if options.get("boundscheck"):
        raise NotImplementedError(
            "bounds checking is not supported for CUDA: leave boundscheck out. "
            "The simulator checks bounds in any case."
        )
    if isinstance(func_or_sig, FunctionType):
        return Dispatcher(func_or_sig, bool(device), (), options)
    given = () if func_or_sig is None else signatures.parse(func_or_sig)
    if not device:
        signatures.require_void(given)
    return lambda function: Dispatcher(_require_function(function), bool(device), given, options)


class Dispatcher:
    """A kernel or device function. ``kernel[grid, block](args…)`` runs it."""

    def __init__(
        self,
        py_func: FunctionType,
        is_device: bool,
        given: tuple[signatures.Arguments, ...],
        options: dict[str, Any],
    ) -> None:
        self.py_func = py_func
        self.is_device = is_device
        self.signatures = self.declared = given
        self.targetoptions = {"device": is_device, **options}
        self.shapes: dict[tuple[int, int], tuple[CodeType, Any]] = {}
        functools.update_wrapper(self, py_func)

    @property
    def is_kernel(self) -> bool:
        return not self.is_device

    @property
    def specialized(self) -> bool:
        return len(self.signatures) == 1

    @property
    def overloads(self) -> Overloads:
        return Overloads()

    def __getitem__(self, configuration: Any) -> Configured:
        if not isinstance(configuration, tuple) or not 2 <= len(configuration) <= 4:
            raise LaunchError(
                f"{self.__name__}[…] needs at least two things: "
                f"{self.__name__}[blocks_per_grid, threads_per_block](…)"
            )
        return self.configure(*configuration)

    def configure(
        self, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0
    ) -> Configured:
        """The kernel with its launch configuration; ``sharedmem`` in bytes.

        Raises LaunchError when the device has no room for it.
        """
        name = self.__name__
        if self.is_device:
            raise LaunchError(
                f"{name} is a device function: call it from a kernel, or leave device=True out"
            )
        grid, grid_ndim = _triple(griddim, "grid", name)
        block, block_ndim = _triple(blockdim, "block", name)
        _require_within_limits(name, grid, block, sharedmem)
        ndims = grid_ndim, block_ndim
        return Configured(self, grid, block, ndims, int(sharedmem), stream)

    def forall(self, ntasks: int, tpb: int = 0, stream: Any = 0, sharedmem: int = 0) -> ForAll:
        """The kernel for ``ntasks`` threads in one dimension; the last block may have more."""
        if ntasks < 0:
            raise ValueError(f"Can't create ForAll with negative task count: {ntasks}")
        return ForAll(self, ntasks, tpb or _DEFAULT_BLOCK, sharedmem, stream)

    def specialize(self, *args: Any) -> Dispatcher:
        """Itself: nothing is compiled here."""
        return self

    def compile(self, sig: Any) -> None:
        """Nothing: the simulator runs the Python function."""

    def __call__(self, *args: Any) -> Any:
        name = self.__name__
        if now.block is None or not now.in_kernel():
            if self.is_device:
                raise LaunchError(f"{name} is a device function: only device code can call it")
            raise LaunchError(
                f"{name} is a kernel and needs a launch configuration: "
                f"{name}[blocks_per_grid, threads_per_block](…)"
            )
        if not self.is_device:
            raise KernelError(
                f"{name} is a kernel, and a kernel can't call a kernel. Make the shared part a "
                "device function: @cuda.jit(device=True)"
            )
        return now.block.grid.kernel.frozen.function(self.py_func)(*args)

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("inspect_", "get_")):
            raise NotSimulated(
                f"{name}: the simulator compiles nothing. Compile the kernel for real instead"
            )
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __repr__(self) -> str:
        kind = "device function" if self.is_device else "kernel"
        return f"<simulated {kind} {self.__name__}>"


class Configured:
    """A kernel with grid, block and dynamic shared memory; calling it runs the launch."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        grid: Triple,
        block: Triple,
        ndims: tuple[int, int],
        dynamic_bytes: int,
        stream: Any = 0,
    ) -> None:
        self.dispatcher = dispatcher
        self.griddim, self.blockdim = grid, block
        self.ndims = ndims
        self.sharedmem = dynamic_bytes
        self.stream = stream

    def __call__(self, *args: Any) -> None:
        """Run the kernel to its end.

        Raises LaunchError for arguments that no kernel takes, other SimulatorErrors for what the
        kernel does.
        """
        dispatcher = self.dispatcher
        name = dispatcher.__name__
        if now.in_kernel():
            raise KernelError(
                f"{name} is launched from inside a kernel, which Numba can't do: launch it from "
                "the host, or make it a device function"
            )
        with _launching:
            try:
                now.owner = threading.get_ident()
                gridDim.set(*self.griddim)
                blockDim.set(*self.blockdim)
                with np.errstate(all="ignore"):
                    self._run(name, args)
            finally:
                now.log = None
                for register in (threadIdx, blockIdx, blockDim, gridDim):
                    register.clear()

    def _run(self, name: str, args: tuple[Any, ...]) -> None:
        dispatcher = self.dispatcher
        names = _parameter_names(dispatcher.py_func, name, args)
        args = signatures.convert(dispatcher.signatures, name, names, args)
        occupancy.require_resources(dispatcher, math.prod(self.blockdim), args)
        log = now.log = self._open_log(name)
        after: list[Callable[[], None]] = []
        device_args = tuple(
            _argument(name, names[n], v, after, self.stream) for n, v in enumerate(args)
        )
        frozen = Frozen()
        function = frozen.function(dispatcher.py_func, known_arguments(args, device_args))
        info = KernelInfo(name, frozen, *self.ndims, dispatcher.shapes)
        seed = seam.next_schedule()
        grid = Grid(
            function,
            device_args,
            (self.griddim, self.blockdim),
            self.sharedmem,
            info,
            schedule=Schedule(seed),
            log=log,
        )
        if log is None:
            with time_limit():
                grid.run()
        else:
            log.schedule = seed
            _run_recorded(grid, log, self.stream)
        for copy_back in after:
            copy_back()

    def _open_log(self, name: str) -> Log | None:
        if not (seam.settings.diagnosing or seam.settings.traces):
            return None
        lines = any(trace.lines for trace in seam.settings.traces)
        return Log(name, self.griddim, self.blockdim, self.ndims, lines)


def _run_recorded(grid: Grid, log: Log, stream: Any) -> None:
    """Run ``grid``; raise the first defect that its recording shows, else its own failure."""
    failure: SimulatorError | None = None
    try:
        with time_limit():
            grid.run()
    except SimulatorError as error:
        failure = error
    except BaseException:
        log.close(finished=False)
        raise
    recording = log.close(finished=failure is None)
    for trace in seam.settings.traces:
        trace.keep(recording)
    if seam.settings.diagnosing:
        defect = verdict.first_defect(recording)
        if defect is not None:
            raise defect from failure
    if failure is not None:
        raise failure
    if seam.settings.diagnosing:
        guard.require_whole(log.kernel, log.memory.regions())
        ordering.launched(log.kernel, stream, recording, log.memory.regions())


def simulated(launch: Any) -> Configured:
    """``kernel[grid, block]`` as a launch in the simulator; also one of the real ``numba.cuda``.

    Raises LaunchError for anything that is not a configured kernel.
    """
    if isinstance(launch, Configured):
        return launch
    function = getattr(getattr(launch, "dispatcher", None), "py_func", None)
    if function is None:
        if isinstance(launch, Dispatcher):
            name = launch.__name__
            raise LaunchError(f"{name} lacks its launch: {name}[blocks, threads]")
        found = "None" if launch is None else f"a {type(launch).__name__}"
        raise LaunchError(
            f"expected kernel[blocks_per_grid, threads_per_block], got {found}. Leave the call to "
            "this function: its arguments follow after a comma"
        )
    known = _twins.get(function)
    if known is None:
        known = _twins[function] = Dispatcher(function, False, (), {})
    return known.configure(launch.griddim, launch.blockdim, 0, launch.sharedmem)


_twins: weakref.WeakKeyDictionary[FunctionType, Dispatcher] = weakref.WeakKeyDictionary()


class ForAll:
    """A kernel that is launched with enough blocks for a number of tasks."""

    def __init__(
        self, dispatcher: Dispatcher, ntasks: int, tpb: int, sharedmem: int, stream: Any
    ) -> None:
        self.dispatcher = dispatcher
        self.ntasks = ntasks
        self.thread_per_block = tpb
        self.sharedmem = sharedmem
        self.stream = stream

    def __call__(self, *args: Any) -> None:
        """Launch ``ceil(ntasks / threads)`` blocks; nothing for 0 tasks."""
        if self.ntasks:
            blocks = -(-self.ntasks // self.thread_per_block)
            self.dispatcher[blocks, self.thread_per_block, self.stream, self.sharedmem](*args)


class Overload:
    """What a compiled kernel would know; here only the size of a cooperative grid."""

    def max_cooperative_grid_blocks(self, blockdim: Any, dynsmemsize: int = 0) -> int:
        """Blocks that the model device holds at once, by threads alone."""
        return device.resident_blocks(int(np.prod(blockdim)))


class Overloads(dict[Any, Overload]):
    """Every signature has an overload: nothing is compiled, so nothing is missing."""

    def __missing__(self, key: Any) -> Overload:
        return Overload()


def _require_function(function: Any) -> FunctionType:
    if isinstance(function, FunctionType):
        return function
    raise TypeError(f"cuda.jit decorates a Python function, not a {type(function).__name__}")


def _triple(dim: Any, what: str, name: str) -> tuple[Triple, int]:
    dims = tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    if not 1 <= len(dims) <= 3:
        raise LaunchError(f"{name}: the {what} has 1, 2 or 3 dimensions, got {dim!r}")
    for n in dims:
        if not isinstance(n, numbers.Integral):
            hint = " Use // instead of /." if isinstance(n, float) else ""
            raise LaunchError(f"{name}: the {what} is made of integers, got {dim!r}.{hint}")
    x, y, z = (*(int(n) for n in dims), *(1, 1))[:3]
    return (x, y, z), len(dims)


def _require_within_limits(name: str, grid: Triple, block: Triple, dynamic_bytes: int) -> None:
    for what, dims, limits in (
        ("grid", grid, device.GRID_LIMITS),
        ("block", block, device.BLOCK_LIMITS),
    ):
        for axis, n, limit in zip("xyz", dims, limits, strict=True):
            if n < 1:
                raise LaunchError(
                    f"{name}: the {what} {dims} has no threads: every dimension is at least 1"
                )
            if n > limit:
                more = ". Use smaller blocks and more of them." if what == "block" else ""
                raise LaunchError(
                    f"{name}: the {what}'s {axis} is {n:,}, the limit is {limit:,}{more}"
                )
    threads = block[0] * block[1] * block[2]
    if threads > device.THREADS_PER_BLOCK:
        raise LaunchError(
            f"{name}: a block of {block} has {threads:,} threads, the limit is "
            f"{device.THREADS_PER_BLOCK:,}. Use smaller blocks and more of them."
        )
    if not isinstance(dynamic_bytes, numbers.Integral) or dynamic_bytes < 0:
        raise LaunchError(
            f"{name}: dynamic shared memory is a number of bytes, got {dynamic_bytes!r}"
        )
    if dynamic_bytes > device.STATIC_SHARED_BYTES:
        raise LaunchError(
            f"{name}: {dynamic_bytes:,} bytes of dynamic shared memory, the limit is "
            f"{device.STATIC_SHARED_BYTES:,} (Numba never asks the driver for more)"
        )


def _parameter_names(function: FunctionType, name: str, args: tuple[Any, ...]) -> list[str]:
    parameters = list(inspect.signature(function).parameters.values())
    names = [p.name for p in parameters]
    if parameters and parameters[-1].kind is inspect.Parameter.VAR_POSITIONAL:
        rest = names.pop()
        return names + [f"{rest}[{n}]" for n in range(len(args) - len(names))]
    least = sum(p.default is inspect.Parameter.empty for p in parameters)
    if not least <= len(args) <= len(names):
        wanted = f"{least}" if least == len(names) else f"{least} to {len(names)}"
        raise LaunchError(f"{name} takes {wanted} arguments ({', '.join(names)}), got {len(args)}")
    return names


def _argument(
    kernel: str, name: str, value: Any, after: list[Callable[[], None]], stream: Any
) -> Any:
    """``value`` as the kernel sees it; work to do after the launch is added to ``after``."""
    if isinstance(value, ArgHint):
        data, copy_back = value.stage(stream)
        if copy_back is not None:
            after.append(copy_back)
        return _wrapped(value.value if value.copies_in else data, data, name)
    if isinstance(value, host.DeviceNDArray):
        return _wrapped(value.memory, value.memory, name)
    if isinstance(value, (host.MappedNDArray, host.ManagedNDArray)):
        return _wrapped(value, value.view(np.ndarray), name)
    if hasattr(value, "__cuda_array_interface__") and hasattr(value, "copy_to_host"):
        here = value.copy_to_host()  # a real GPU's memory: the simulator works on a copy
        after.append(functools.partial(value.copy_to_device, here))
        return _wrapped(here, here, name)
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject or not value.dtype.isnative:
            raise LaunchError(
                f"{kernel}: argument {name} is an array of {value.dtype}, which a kernel can't "
                "take: give it numbers in this machine's own byte order, with astype."
            )
        return _argument(kernel, name, InOut(value), after, stream)
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, float) and not isinstance(value, np.generic):
        return np.float64(value)
    if isinstance(value, np.integer) and value.itemsize < 8:
        return int(value)
    if isinstance(value, (int, complex, np.number, np.void)) or value is None:
        return value
    if isinstance(value, tuple):
        parts = [_argument(kernel, f"{name}[{n}]", v, after, stream) for n, v in enumerate(value)]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    more = " Make lists into arrays with np.array." if isinstance(value, list) else ""
    raise LaunchError(
        f"{kernel}: argument {name} is a {type(value).__name__}, which a kernel can't take: pass "
        f"arrays, numbers or tuples of them.{more}"
    )


def _wrapped(made: Any, memory: np.ndarray[Any, Any], name: str) -> Any:
    """``memory`` as the kernel sees it; ``made`` is the host's array that it holds."""
    array = wrap(memory, name, "global")
    if isinstance(array, Recorded) and array.region.written is None:
        made = getattr(made, "memory", made)
        array.region.written = written_bytes(made, memory)
        array.region.written_from = array.region.low
    return array
