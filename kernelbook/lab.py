"""The few names a lab notebook imports: ``from kernelbook import lab``, before anything else.

Importing this module chooses the device. Without a GPU the simulator takes ``numba.cuda``'s place,
so that the next line of the notebook, ``from numba import cuda``, is the same on both machines.

A notebook asks for random inputs (:func:`rng`), poisoned outputs (:func:`empty`) and verdicts
(:func:`check_close`, :func:`check_equal`, :func:`compiles`). A hidden test calls :func:`answer`,
which judges nothing: it hands values to whoever graded the notebook, who compares them elsewhere.
"""

from __future__ import annotations

import base64
import linecache
import warnings
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelbook import device as _device
from kernelbook import notebook, poison
from kernelbook.errors import CheckFailed, KernelbookError, NotYet

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from kernelbook.compilers import Compiled
    from kernelbook.simt.player import Player
    from kernelbook.simt.profile import Profile
    from kernelbook.simt.record import Recording

ANSWERS = "application/vnd.kernelbook.answers+json"

_chosen = _device.choose("auto")
if _chosen == "sim":
    from kernelbook import simt
    from kernelbook.simt import ordering, resources, unwritten

    simt.install()
    simt.diagnose_always()
    resources.connect()
    notebook.before_each_cell(simt.restart_schedules)  # a cell that runs again does the same again
else:
    warnings.filterwarnings("ignore", category=Warning, module=r"numba\.cuda.*")


class _State:
    """What one notebook session remembers."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng(0)
        self.answers: list[dict[str, Any]] = []
        self.compared = 0


_state = _State()


def on_gpu() -> bool:
    """True where kernels run on a real GPU, False in the simulator."""
    return _chosen == "gpu"


def begin(lab: str) -> None:
    """Open the lab: say which device this notebook uses and what it cannot check here."""
    from kernelbook import compilers

    compilers.warm_up()
    notebook.attach(lambda: _state.compared, _forget_comparisons)
    if on_gpu():
        gpu = _device.gpus()[0]
        print(f"{lab}: your kernels run on {gpu.name}.")
        return
    print(
        f"{lab}: no GPU here, so your kernels run in the simulator and are compiled for sm_90.\n"
        "It sees values, bounds, races, barriers and warps, and counts what memory is asked for.\n"
        "It cannot see time, and what passes here has not yet met a real memory system."
    )


def rng() -> np.random.Generator:
    """The session's random generator. In a hidden test it is seeded afresh for that test."""
    return _state.generator


def schedules(count: int = 3) -> Iterator[int]:
    """Numbers of ``count`` schedules, each in force while the loop's body runs; one on a GPU.

    ``for _ in lab.schedules():`` runs the body with blocks, warps and lanes in the natural order
    first, then in seeded other orders. The same number gives the same run.
    """
    if on_gpu():
        yield 0
        return
    for seed in range(count):
        with simt.schedule(seed):
            yield seed


def sizes(*, sim: Sequence[int], gpu: Sequence[int]) -> Sequence[int]:
    """Problem sizes for the device in use: small ones in the simulator, large ones on a GPU."""
    return gpu if on_gpu() else sim


def empty(shape: int | tuple[int, ...], dtype: DTypeLike = np.float32) -> NDArray[Any]:
    """A poisoned host array: what nobody writes stays NaN (floats) or 0xCD in every byte."""
    out = np.empty(shape, dtype)
    out[...] = poison.element(out.dtype)[0]
    if not on_gpu():
        unwritten.mark_unwritten(out)
    return out


def check_close(
    got: Any, expected: ArrayLike, rtol: float = 1e-5, atol: float | None = None, *, case: str = ""
) -> None:
    """Require |got - expected| ≤ atol + rtol·|expected| in every element.

    ``atol`` defaults to rtol times the root mean square of ``expected``. ``case`` says what was
    tried ("n = 17") and opens the message. Raises NotYet when nothing was written at all,
    CheckFailed with the first wrong element otherwise.
    """
    wanted = np.asarray(expected)
    values = _values(got, wanted)
    reference = wanted.astype(np.float64)
    if atol is None:
        atol = rtol * float(np.sqrt(np.mean(reference**2))) if reference.size else 0.0
    wrong = ~(np.abs(values.astype(np.float64) - reference) <= atol + rtol * np.abs(reference))
    _verdict(values, wanted, wrong & ~(np.isnan(reference) & np.isnan(values)), case)


def check_equal(got: Any, expected: ArrayLike, *, case: str = "") -> None:
    """Require every element to be equal: for integers, booleans, shapes and indices.

    ``case`` says what was tried ("blocks_for(13, 8)") and opens the message.
    """
    wanted = np.asarray(expected)
    values = _values(got, wanted)
    _verdict(values, wanted, values != wanted, case)


def compiles(kernel: Any, signature: str) -> Compiled:
    """Compile a Numba kernel for sm_90 with the real compiler, GPU or none.

    signature: Numba types of the arguments, such as ``"float32[::1], int32"``.
    Raises CompileError in plain words with the line that the compiler refuses.
    """
    from kernelbook import compilers

    source, name = compilers.kernel_of(kernel)
    compiled = compilers.compile_kernel(source, name, signature)
    _state.compared += 1
    return compiled


def compiles_cuda(source: str, entry: str) -> Compiled:
    """Compile CUDA C++ for sm_90 by NVRTC, GPU or none; ``entry`` is its extern "C" kernel.

    Raises CompileError with the compiler's message and the line.
    """
    from kernelbook import compilers

    compiled = compilers.compile_cuda(source, entry)
    _state.compared += 1
    return compiled


def ptx(kernel: Any, signature: str) -> str:
    """The PTX that the real compiler makes of a Numba kernel for sm_90."""
    return compiles(kernel, signature).ptx


def raw_kernel(source: str, entry: str) -> Any:
    """A launchable ``cupy.RawKernel``. Raises KernelbookError where there is no GPU."""
    if not on_gpu():
        raise KernelbookError(
            "CUDA C++ runs only on a GPU; here it is compiled. Use lab.compiles_cuda(source, entry)"
        )
    import cupy

    return cupy.RawKernel(source, entry, options=("--std=c++17",))


def show_accesses(launch: Any, *args: Any, title: str = "", line: int | None = None) -> Figure:
    """Draw which thread touches which element of each array, from a real simulated launch.

    launch: ``kernel[grid, block]``; args: its arguments. line: only that source line, as counted in
    its cell. A launch that fails is drawn as far as it came, and its error is printed. Small
    launches read best (≤ 64 threads).
    """
    from kernelbook.simt import picture

    return picture.accesses(_recorded(launch, args), line=line, title=title)


def show_banks(launch: Any, *args: Any, title: str = "", line: int | None = None) -> Figure:
    """Draw which lanes want which bank of shared memory, at the worst request of ``line``.

    Without ``line``: the worst of the kernel. Raises LearnerError when no shared memory is touched.
    """
    from kernelbook.simt import bankmap

    return bankmap.banks_of(_recorded(launch, args), line=line, title=title)


def show_sectors(launch: Any, *args: Any, title: str = "", line: int | None = None) -> Figure:
    """Draw which lanes want which 32-byte sector of memory, at the worst request of ``line``.

    Without ``line``: the worst of the kernel. Raises LearnerError when no global memory is touched.
    """
    from kernelbook.simt import sectormap

    return sectormap.sectors_of(_recorded(launch, args), line=line, title=title)


def show_timeline(launch: Any, *args: Any, title: str = "") -> Figure:
    """Draw what each warp does between the barriers; a data race is marked."""
    from kernelbook.simt import timeline

    return timeline.time_line(_recorded(launch, args), title=title)


def play(launch: Any, *args: Any, title: str = "") -> Player:
    """The launch to step through: source, lanes, arrays and barriers. For up to 64 threads."""
    from kernelbook.simt import player

    return player.play(_recorded(launch, args, lines=True), title=title)


def profile(launch: Any, *args: Any) -> Profile:
    """What the launch asks of memory, line by line, its occupancy, and what limits that.

    Its attributes are plain numbers, such as ``profile.bank_conflicts``, ``sectors_per_request``,
    ``occupancy``. It runs in the simulator, also beside a GPU: choose a small launch.
    """
    from kernelbook.simt import profile as profiler

    return profiler.profile(launch, *args)


def _recorded(launch: Any, args: tuple[Any, ...], *, lines: bool = False) -> Recording:
    """The recording of a launch; its error, if it has one, is printed: the picture shows where."""
    from kernelbook.simt import observed

    recording, failure = observed.run(launch, args, lines=lines)
    if failure is not None:
        print(f"{type(failure).__name__}: {failure}")
    return recording


def answer(
    value: Any, *, rtol: float = 1e-5, atol: float | None = None, equal_nan: bool = False
) -> None:
    """Hand a value to the grader. Only hidden tests call this; it judges nothing.

    The tolerance that counts is the one the reference run hands over, never a submission's.
    """
    array = np.asarray(value)
    if array.dtype.kind not in "biufc":
        array = np.zeros((0,), np.uint8)  # nothing numeric was returned: an answer of no elements
    array = np.ascontiguousarray(array).reshape(array.shape)
    _state.answers.append(
        {
            "dtype": array.dtype.str,
            "shape": list(array.shape),
            "data": base64.b64encode(array.tobytes()).decode("ascii"),
            "rtol": rtol,
            "atol": atol,
            "equal_nan": equal_nan,
        }
    )


def _forget_comparisons() -> None:
    _state.compared = 0


def _answer(name: str, texts: Sequence[str]) -> Any:
    """What ``texts`` define as ``name``, in a namespace of its own, each text with its own lines.

    Called by the grader with lifted device code: nothing that an answer defines can replace a name
    of the lab or of a test, and nothing that a test binds can change an answer.
    """
    namespace: dict[str, Any] = {"__name__": f"answer_{name}"}
    # Paths that no file has, kept by linecache: so a message can show the line it names.
    folder = f"<{name}>/"
    for path in [path for path in linecache.cache if path.startswith(folder)]:
        del linecache.cache[path]
    for number, text in enumerate(texts, 1):
        path = f"{folder}{number}"
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
        exec(compile(text, path, "exec"), namespace)
    return namespace[name]


class _Answers:
    """Crosses the border as a MIME bundle in the execute reply."""

    def __init__(self, items: list[dict[str, Any]]) -> None:
        self.items = items

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return {ANSWERS: self.items}


def _begin_test(seed: int, device: str) -> None:
    """Called by the grader before each hidden test: fresh inputs, no answers yet."""
    if device != _chosen:
        raise KernelbookError(f"graded on {device!r}, but this kernel runs on {_chosen!r}")
    if on_gpu():
        _require_living_context()
    else:
        simt.restart_schedules()
    _state.generator = np.random.default_rng(seed)
    _state.answers = []


def _require_living_context() -> None:
    """Raise what CUDA raises when an earlier kernel has broken this process's context for good."""
    cuda: Any = import_module("numba.cuda")
    cuda.device_array(1, np.uint8)
    cuda.synchronize()


def _take_answers() -> _Answers:
    items, _state.answers = _state.answers, []
    return _Answers(items)


def _values(got: Any, wanted: NDArray[Any]) -> NDArray[Any]:
    """``got`` as an array shaped like ``wanted``, or the reason why it is not."""
    if got is None or got is Ellipsis:
        raise NotYet("The function returned nothing. Write its body, then run this cell again.")
    if not on_gpu() and isinstance(got, np.ndarray):
        ordering.host_reads(got)
    try:
        values = np.asarray(got.copy_to_host() if hasattr(got, "copy_to_host") else got)
    except (TypeError, ValueError) as error:
        raise CheckFailed(f"expected numbers, got {type(got).__name__}: {error}") from None
    if values.dtype.kind not in "biufc":
        raise CheckFailed(f"expected numbers, got {type(got).__name__}")
    if values.shape != wanted.shape:
        raise CheckFailed(f"expected shape {wanted.shape}, got {values.shape}")
    return values


def _verdict(
    values: NDArray[Any], wanted: NDArray[Any], wrong: NDArray[np.bool_], case: str
) -> None:
    untouched = poison.untouched(values)
    opening = f"{case}: " if case else ""
    if values.size and untouched.all() and wrong.any():
        raise NotYet(
            f"{opening}every element of the output is what it was before the launch. Write the "
            "kernel, then run this cell again. If it is written: no thread stores a value in the "
            "output, or it adds to what stood there, which is NaN."
        )
    count = int(np.count_nonzero(wrong))
    if count == 0:
        _state.compared += 1
        return
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    place = f"element [{', '.join(map(str, first))}]" if first else "the value"
    found = "was never written" if untouched[first] else f"is {_number(values[first])}"
    rest = f"; {count} of {wrong.size} elements are wrong" if count > 1 else ""
    cause = ""
    if not untouched[first] and values.dtype.kind in "fc" and np.isnan(values[first]):
        cause = " A NaN was computed: something was read that nobody had written."
    elif values.dtype.kind in "iu" and wanted.dtype.kind == "f" and wanted[first] % 1:
        cause = f" The output is {values.dtype}, which holds no fractions."
    raise CheckFailed(f"{opening}{place} {found}, expected {_number(wanted[first])}{rest}.{cause}")


def _number(value: Any) -> str:
    """A float with seven digits: more would be noise beside a float32."""
    return f"{value:.7g}" if isinstance(value, np.inexact) else str(value)
