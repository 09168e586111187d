"""Draws a simulated launch: which thread touches which element of each array, and when.

One panel for each array, threads downwards, elements to the right. A straight diagonal is a
coalesced access; a steep or scattered one is not. Colour counts the barriers passed before the
access, so that the steps of a reduction can be told apart. The rows come from the same trace that
the simulator's errors come from: the picture cannot disagree with them.

Limit: made for up to a few hundred threads; a larger trace is cut, and the title says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kernelbook.errors import SimulatorError
from kernelbook.simt.seam import Access, Allocation, Triple, observe
from kernelbook.simt.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_ACCESSES = 20_000
MARKERS = {"load": "o", "store": "s", "atomic": "D"}
FILLED = {"store", "atomic"}
PANEL_HEIGHT = 2.6
WIDTH = 7.5


def accesses(launch: Any, *args: Any, title: str = "") -> Figure:
    """Run ``launch`` (a ``kernel[grid, block]``) under a trace and draw it.

    A kernel that fails is drawn as far as it came; its error is printed.
    """
    trace = Trace()
    failure = ""
    try:
        with observe(trace):
            launch(*args)
    except SimulatorError as error:
        failure = f"{type(error).__name__}: {error}"
        print(failure)
    return draw(trace, title or trace.kernel, failed=bool(failure))


def draw(trace: Trace, title: str, *, failed: bool = False) -> Figure:
    """The figure of a trace that has been taken."""
    import matplotlib.pyplot as plt

    kept = trace.accesses[:MOST_ACCESSES]
    arrays = _shown(kept)
    rows = max(len(arrays), 1)
    figure, axes = plt.subplots(
        rows, 1, figsize=(WIDTH, PANEL_HEIGHT * rows + 0.6), squeeze=False, layout="constrained"
    )
    if not arrays:
        axes[0][0].text(
            0.5,
            0.5,
            "No thread has touched an array: the kernel does nothing yet.",
            ha="center",
            va="center",
        )
        axes[0][0].set_axis_off()
    phases = _phases(trace, kept)
    for axis, array in zip(axes[:, 0], arrays, strict=False):
        chosen = [(a, phase) for a, phase in zip(kept, phases, strict=True) if a.array is array]
        _panel(axis, array, chosen, trace, max(phases))
    remarks = [f"first {MOST_ACCESSES} accesses"] if len(trace.accesses) > MOST_ACCESSES else []
    remarks += ["up to the error"] if failed else []
    figure.suptitle(f"{title} ({', '.join(remarks)})" if remarks else title)
    plt.close(figure)  # the notebook shows what is returned; left open, it would show it twice
    return figure


def _panel(
    axis: Axes, array: Allocation, chosen: Sequence[tuple[Access, int]], trace: Trace, last: int
) -> None:
    shared = array.space != "global"
    threads_per_block = math.prod(trace.block)
    threads = threads_per_block * (1 if shared else math.prod(trace.grid))
    for kind, marker in MARKERS.items():
        found = [(a, phase) for a, phase in chosen if a.kind == kind]
        if not found:
            continue
        x = [a.offset // array.dtype.itemsize for a, _ in found]
        y = [a.thread if shared else _thread(a, trace.grid, threads_per_block) for a, _ in found]
        colours = [_colour(phase, last) for _, phase in found]
        axis.scatter(
            x,
            y,
            s=40 if kind == "load" else 12,
            marker=marker,
            facecolors=colours if kind in FILLED else "none",
            edgecolors=colours,
            linewidths=1.1,
            label=f"{kind} ({len(found)})",
        )
    from matplotlib.ticker import MaxNLocator

    for block in range(1, threads // threads_per_block):
        axis.axhline(block * threads_per_block - 0.5, color="0.6", linewidth=0.6, linestyle=":")
    margin = max(0.5, 0.03 * threads)
    axis.set_ylim(threads - 1 + margin, -margin)
    elements = math.prod(array.shape)
    axis.set_xlim(-max(0.5, 0.03 * elements), elements - 1 + max(0.5, 0.03 * elements))
    axis.set_ylabel("thread of the block" if shared else "thread of the grid")
    size = "×".join(map(str, array.shape))
    where = f", block {chosen[0][0].block}" if shared and math.prod(trace.grid) > 1 else ""
    name = f"{array.space} {array.name or 'array'} [{size}]{where}"
    axis.set_title(name, loc="left", fontsize="medium")
    axis.set_xlabel("element, in memory order" + (_legend(last) if last else ""))
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.yaxis.set_major_locator(MaxNLocator(integer=True))
    axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small", frameon=False)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def _shown(kept: Sequence[Access]) -> list[Allocation]:
    """Global arrays first, then the shared and local ones of the first block or thread seen."""
    found = dict.fromkeys(access.array for access in kept)
    first = kept[0].block if kept else (0, 0, 0)
    private = {a.array: None for a in kept if a.array.space != "global" and a.block == first}
    once: dict[str, Allocation] = {}  # a local array exists once a thread: one stands for all
    for array in private:
        key = f"local {array.name}" if array.space == "local" else f"{len(once)}"
        once.setdefault(key, array)
    return [array for array in found if array.space == "global"] + list(once.values())


def _phases(trace: Trace, kept: Sequence[Access]) -> list[int]:
    """For each access, the barriers that its block had passed before it."""
    passed: dict[Triple, int] = {}
    waiting = iter([(at, block) for at, kind, block, _ in trace.barriers if "syncthreads" in kind])
    upcoming = next(waiting, None)
    phases = []
    for position, access in enumerate(kept):
        while upcoming is not None and upcoming[0] <= position:
            passed[upcoming[1]] = passed.get(upcoming[1], 0) + 1
            upcoming = next(waiting, None)
        phases.append(passed.get(access.block, 0))
    return phases or [0]


def _thread(access: Access, grid: Triple, threads_per_block: int) -> int:
    x, y, z = access.block
    return ((z * grid[1] + y) * grid[0] + x) * threads_per_block + access.thread


def _colour(phase: int, last: int) -> tuple[float, float, float, float]:
    """From dark blue (before any barrier) to yellow: readable without telling red from green."""
    import matplotlib as mpl

    shade: tuple[float, float, float, float] = mpl.colormaps["viridis"](0.85 * phase / max(last, 1))
    return shade


def _legend(last: int) -> str:
    return f"   (colour: barriers passed, dark 0 … light {last})"
