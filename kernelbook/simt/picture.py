"""Draws a recorded launch: which thread touches which element of each array, and when.

One panel for each array, threads downwards, elements to the right. A straight diagonal is a
coalesced access; a steep or scattered one is not. Colour counts the barriers passed before the
access, so that the steps of a reduction can be told apart; fine lines stand every 32 bytes, where
one sector of global memory ends. What is drawn is the recording that the verdict was made from, so
the picture cannot disagree with it: a race is marked on the two accesses that the error names.

Limit: made for up to a few hundred threads; a larger recording is cut, and the title says so.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kernelbook.errors import LearnerError
from kernelbook.simt import figure, steps
from kernelbook.simt.coalescing import SECTOR
from kernelbook.simt.defect import Defect, of
from kernelbook.simt.errors import lines_text
from kernelbook.simt.record import Allocation, Kind, Recording

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_ACCESSES = 20_000
MOST_PANELS = 8
MOST_ELEMENTS = 512  # of an array that is drawn whole
MOST_THREADS = 256  # more, and only those that do something are given room
MOST_SECTORS = 40  # as many boundaries can be told apart in one panel
PANEL_IN = 2.3
KINDS = {
    Kind.LOAD: ("read", "o", False),
    Kind.STORE: ("write", "s", True),
    Kind.ATOMIC: ("atomic", "D", True),
}

Rows = NDArray[np.int64]


def accesses(recording: Recording, *, line: int | None = None, title: str = "") -> figure.Picture:
    """Draw which thread touches which element of each array.

    line: only what happens on that source line of the kernel's file or cell. A launch that failed
    is drawn as far as it came. Raises LearnerError when no thread touches memory on that line.
    """
    rows = np.flatnonzero(np.isin(recording.kind, list(KINDS)))
    if line is not None:
        rows = rows[_on_line(recording, rows, line)]
    kept = rows[:MOST_ACCESSES]
    arrays = _shown(recording, kept)
    phases = steps.phases(recording)
    kept = kept[np.isin(recording.allocation[kept], arrays)]
    last = int(phases[kept].max(initial=0))
    defect = of(recording)
    panels = max(len(arrays), 1)
    with figure.settings():
        drawing = figure.Picture(
            figsize=(figure.WIDTH_IN, PANEL_IN * panels + 0.9), layout="constrained"
        )
        axes = drawing.subplots(panels, 1, squeeze=False)[:, 0]
        if not arrays:
            text = "No thread has touched an array:\nthe kernel does nothing yet."
            axes[0].text(0.5, 0.5, text, ha="center", va="center")
            axes[0].set_axis_off()
        for axis, array in zip(axes, arrays, strict=False):
            chosen = kept[recording.allocation[kept] == array]
            _panel(axis, recording, array, chosen, phases, last)
            _mark(axis, recording, array, chosen, defect)
        if arrays:
            _legend(drawing, recording, kept, phases[kept])
        remarks = [f"first {MOST_ACCESSES:,} accesses"] if len(rows) > MOST_ACCESSES else []
        remarks += [] if recording.finished else ["up to the error"]
        subject = title or recording.kernel + ("" if line is None else f", line {line}")
        drawing.suptitle(
            f"{subject} ({', '.join(remarks)})" if remarks else subject, x=0.02, ha="left"
        )
    drawing.alt = _alt(recording, kept, arrays, subject, remarks, defect, last)
    return drawing


def _on_line(recording: Recording, rows: Rows, line: int) -> NDArray[np.bool_]:
    there = np.array([site.line == line for site in recording.sites], np.bool_)
    found = there[recording.site[rows]] if len(rows) else np.zeros(0, np.bool_)
    if not found.any():
        lines = sorted({recording.sites[site].line for site in np.unique(recording.site[rows])})
        have = f" Memory is touched on {lines_text(lines)}." if lines else ""
        raise LearnerError(
            f"{recording.kernel}: no thread touches memory on line {line}.{have} Lines count in "
            "the file or cell that holds the kernel."
        )
    return found


def _shown(recording: Recording, kept: Rows) -> list[int]:
    """Global arrays first, then the shared and local ones of the first block or thread seen."""
    numbers, first = np.unique(recording.allocation[kept], return_index=True)
    found = [int(number) for number in numbers[np.argsort(first)]]
    spaces = {n: recording.allocations[n] for n in found}
    everyone = [n for n in found if spaces[n].block < 0]
    block = min((a.block for a in spaces.values() if a.block >= 0), default=-1)
    once: dict[tuple[str, object], int] = {}  # a local array exists once a thread: one stands
    for n in found:
        if spaces[n].block == block >= 0:
            local = spaces[n].space == "local"
            once.setdefault((spaces[n].name, "local" if local else n), n)
    return (everyone + list(once.values()))[:MOST_PANELS]


def _panel(
    axis: Axes,
    recording: Recording,
    array: int,
    rows: Rows,
    phases: Rows,
    last: int,
) -> None:
    from matplotlib.ticker import MaxNLocator

    memory = recording.allocations[array]
    x, y = _points(recording, memory, rows)
    for kind, (_, marker, filled) in KINDS.items():
        here = recording.kind[rows] == kind
        colours = [figure.phase_colour(int(p), last) for p in phases[rows[here]]]
        axis.scatter(
            x[here],
            y[here],
            s=14 if filled else 44,
            marker=marker,
            facecolors=colours if filled else "none",
            edgecolors=colours,
            linewidths=1.2,
            rasterized=len(rows) > figure.MOST_VECTOR_MARKS,
            zorder=3,
        )
    per_block = recording.threads_per_block
    low, high = _threads_shown(recording, memory, y)
    if memory.block < 0:
        for boundary in range(low // per_block + 1, high // per_block + 1):
            place = boundary * per_block - 0.5
            axis.axhline(place, color=figure.colour("barrier"), linewidth=1.0, linestyle="--")
    sector = SECTOR / memory.dtype.itemsize
    begin, end = _elements_shown(memory, x, sector)
    label = "element, in memory order"
    if memory.space == "global" and sector >= 2 and 1 < (end - begin) / sector <= MOST_SECTORS:
        label += "; a line every 32 bytes"
        for edge in np.arange(begin + sector, end, sector):
            axis.axvline(edge - 0.5, color=figure.colour("rule"), linewidth=0.8, zorder=1)
    axis.set_xlabel(label)
    margin = max(0.6, 0.04 * (high - low + 1))
    axis.set_ylim(high + margin, low - margin)
    margin = max(0.6, 0.03 * (end - begin))
    axis.set_xlim(begin - margin, end - 1 + margin)
    blocks = math.prod(recording.grid)
    whose = "" if blocks == 1 else " of block" if memory.block >= 0 else " of grid"
    axis.set_ylabel(f"thread{whose}")
    size = "×".join(map(str, memory.shape))
    name = f"{memory.space} {memory.name or 'array'} [{size}]"
    if memory.block >= 0 and blocks > 1:
        name += f", block {memory.block}"
    axis.set_title(name, loc="left")
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))


def _threads_shown(recording: Recording, memory: Allocation, y: Rows) -> tuple[int, int]:
    """All threads, so that the idle ones are seen; of a large launch those that do something."""
    threads = recording.threads_per_block
    if memory.block < 0:
        threads *= math.prod(recording.grid)
    return (0, threads - 1) if threads <= MOST_THREADS else (int(y.min()), int(y.max()))


def _elements_shown(memory: Allocation, x: Rows, sector: float) -> tuple[int, int]:
    """The whole array; of a large one the sectors between the first and last that is touched."""
    elements = math.prod(memory.shape)
    if elements <= MOST_ELEMENTS:
        return 0, elements
    unit = max(int(sector), 1)
    return int(x.min()) // unit * unit, min((int(x.max()) // unit + 1) * unit, elements)


def _points(recording: Recording, memory: Allocation, rows: Rows) -> tuple[Rows, Rows]:
    """(element in memory order, thread) of each row."""
    offset = recording.address[rows] - memory.address
    thread = recording.thread[rows].astype(np.int64)
    if memory.block >= 0:
        thread = thread % recording.threads_per_block
    return offset // memory.dtype.itemsize, thread


def _mark(axis: Axes, recording: Recording, array: int, rows: Rows, defect: Defect | None) -> None:
    """Ring the accesses that the error names, and join them."""
    if defect is None:
        return
    named = np.array([row for row in defect.rows if row in rows], np.int64)
    if not len(named):
        return
    x, y = _points(recording, recording.allocations[array], named)
    red = figure.colour("defect")
    axis.plot(x, y, color=red, linewidth=1.6, zorder=4)
    axis.scatter(
        x, y, s=170, facecolors="none", edgecolors=red, linewidths=2, zorder=5, clip_on=False
    )
    right = float(x.max()) > sum(axis.get_xlim()) / 2
    text = f"{defect.title}: " + lines_text(sorted(set(defect.lines)))
    axis.annotate(
        text,
        (float(x.max() if not right else x.min()), float(y.mean())),
        xytext=(-12 if right else 12, 0),
        textcoords="offset points",
        ha="right" if right else "left",
        va="center",
        color=red,
        zorder=6,
        bbox={"boxstyle": "round,pad=0.2", "facecolor": figure.colour("paper"), "edgecolor": red},
    )


def _legend(drawing: figure.Picture, recording: Recording, kept: Rows, phases: Rows) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    ink = figure.colour("ink")
    handles: list[Line2D | Patch] = []
    for kind, (word, marker, filled) in KINDS.items():
        count = int(np.count_nonzero(recording.kind[kept] == kind))
        if count:
            handles.append(
                Line2D(
                    [],
                    [],
                    color=ink,
                    linestyle="",
                    marker=marker,
                    markersize=4 if filled else 7,
                    markerfacecolor=ink if filled else "none",
                    label=f"{word} ({count:,})",
                )
            )
    last = int(phases.max())
    if last:
        seen = [int(phase) for phase in np.unique(phases)]
        shown = seen if len(seen) <= 4 else [seen[0], seen[len(seen) // 2], seen[-1]]
        handles += [
            Patch(color=figure.phase_colour(n, last), label=f"{n} barrier{'s' * (n != 1)} passed")
            for n in shown
        ]
    drawing.legend(handles=handles, loc="outside lower left", ncols=2, handlelength=1)


def _alt(
    recording: Recording,
    kept: Rows,
    arrays: list[int],
    subject: str,
    remarks: list[str],
    defect: Defect | None,
    last: int,
) -> str:
    said = [f"Which thread touches which element: {subject}" + "".join(f", {r}" for r in remarks)]
    for array in arrays:
        memory = recording.allocations[array]
        rows = kept[recording.allocation[kept] == array]
        x, y = _points(recording, memory, rows)
        counts = [
            f"{word} {count} times"
            for kind, (word, _, _) in KINDS.items()
            if (count := int(np.count_nonzero(recording.kind[rows] == kind)))
        ]
        said.append(
            f"{memory.space} {memory.name or 'array'}: {', '.join(counts)}, elements {x.min()} to "
            f"{x.max()}, threads {y.min()} to {y.max()}"
        )
    if not arrays:
        said.append("no thread touches an array")
    if last:
        said.append(f"colour counts the barriers passed, 0 to {last}")
    if defect is not None:
        said.append(f"marked: {defect.title}, {lines_text(sorted(set(defect.lines)))}")
    return ". ".join(said) + "."
