"""Draws what each warp does between the barriers, one row a warp, or a thread where there are few.

Time here is order: columns between two barriers are steps of :mod:`kernelbook.simt.steps`, and a
barrier is a bar through the rows of those that met. Nothing orders two rows between two bars, so
the columns of one row say nothing about those of another. That is why a race is a race: its two
accesses are joined, and no bar stands between them.

Limit: at most ``MOST_ROWS`` rows and ``MOST_STEPS`` steps; the title says when there were more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelbook.simt import figure, steps
from kernelbook.simt.defect import Defect, of
from kernelbook.simt.record import Kind, Recording
from kernelbook.simt.registers import WARP_SIZE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_ROWS = 16
MOST_STEPS = 4_000
FEW_THREADS = 16  # so many or fewer threads get a row each
ROW_IN = 0.27
MARKERS = {
    Kind.LOAD: ("read", "o", "load"),
    Kind.STORE: ("write", "s", "store"),
    Kind.ATOMIC: ("atomic", "D", "atomic"),
    Kind.FENCE: ("fence", "|", "quiet"),
    Kind.FENCE_BLOCK: ("block fence", "|", "quiet"),
}

Row = tuple[int, int]  # block, and warp or thread in the block


def time_line(recording: Recording, *, title: str = "") -> figure.Picture:
    """Draw the time-line of a launch; a launch that failed as far as it came."""
    defect = of(recording)
    named = [int(recording.thread[row]) for row in (defect.rows if defect else ())]
    threads = steps.warps_of(recording, MOST_ROWS * WARP_SIZE, named)
    by_thread = len(threads) <= FEW_THREADS
    found, whole = steps.steps(recording, threads, MOST_STEPS)
    chart = _Chart(recording, found, threads, by_thread)
    with figure.settings():
        drawing = figure.Picture(
            figsize=(figure.WIDTH_IN, 1.7 + ROW_IN * max(len(chart.rows), 2)), layout="constrained"
        )
        axis = drawing.subplots()
        chart.draw(axis)
        if defect is not None:
            chart.mark(axis, defect)
        drawing.legend(
            handles=chart.handles(defect), loc="outside lower left", ncols=3, handlelength=1
        )
        total = math.prod(recording.grid) * recording.threads_per_block
        remarks = [] if whole and len(threads) == total else ["a part"]
        remarks += [] if recording.finished else ["up to the error"]
        subject = title or recording.kernel
        subject += f" ({', '.join(remarks)})" if remarks else ""
        drawing.suptitle(subject, x=0.02, ha="left")
    drawing.alt = chart.alt(subject, defect)
    return drawing


class _Chart:
    """Where each step stands: a row, and a column in its phase."""

    def __init__(
        self,
        recording: Recording,
        found: Sequence[steps.Step],
        threads: Sequence[int],
        by_thread: bool,
    ) -> None:
        self.recording, self.by_thread = recording, by_thread
        self.rows: dict[Row, int] = {}
        for thread in threads:
            self.rows.setdefault(self._row(thread), len(self.rows))
        self.places: dict[int, tuple[float, int]] = {}  # of each recorded row
        self.bars: list[tuple[str, int, list[int]]] = []  # kind, phase, rows of those who met
        self.widths: list[int] = [1]
        columns: dict[tuple[int, int], int] = {}  # (row, phase): steps so far
        local: dict[int, tuple[int, int, int]] = {}
        for step in found:
            while len(self.widths) <= step.phase + step.meets.startswith(steps.BLOCK_WIDE):
                self.widths.append(1)
            if step.meets:
                met = sorted({self.rows[self._row(thread)] for thread in step.threads})
                if step.meets.startswith(steps.BLOCK_WIDE):
                    self.bars.append((step.meets, step.phase, met))
                continue
            # A column for each access of the line, so that a read and a write stand side by side.
            sites = list(dict.fromkeys(int(recording.site[recorded]) for recorded in step.rows))
            begin = dict(columns)
            for recorded in step.rows:
                row = self.rows[self._row(int(recording.thread[recorded]))]
                column = begin.get((row, step.phase), 0) + sites.index(
                    int(recording.site[recorded])
                )
                local[recorded] = (row, step.phase, column)
                columns[row, step.phase] = max(columns.get((row, step.phase), 0), column + 1)
                self.widths[step.phase] = max(self.widths[step.phase], column + 1)
        self.starts = np.concatenate([[0.0], np.cumsum(np.array(self.widths) + 1.0)])
        for recorded, (row, phase, column) in local.items():
            self.places[recorded] = (float(self.starts[phase]) + column + 0.5, row)

    def draw(self, axis: Axes) -> None:
        """Rows, bars, and a mark for each kind of access of each step."""
        end = float(self.starts[-1]) - 1
        for row in self.rows.values():
            axis.axhline(row, color=figure.colour("rule"), linewidth=1, zorder=1)
        for _, phase, rows in self.bars:
            x = float(self.starts[phase + 1]) - 0.5
            color = figure.colour("barrier")
            axis.plot([x, x], [rows[0] - 0.4, rows[-1] + 0.4], color=color, linewidth=2.2, zorder=2)
        kinds = self.recording.kind
        for kind, (_, marker, name) in MARKERS.items():
            own = [place for recorded, place in self.places.items() if kinds[recorded] == kind]
            marks = np.unique(np.array(own).reshape(-1, 2), axis=0)
            axis.scatter(
                marks[:, 0],
                marks[:, 1],
                marker=marker,
                s=46 if kind == Kind.LOAD else 22,
                **_paint(kind, figure.colour(name)),
                linewidths=1.3,
                rasterized=len(marks) > figure.MOST_VECTOR_MARKS,
                zorder=3,
            )
        axis.set_xlim(-0.5, max(end, 1.0) + 0.2)
        axis.set_ylim(len(self.rows) - 0.2, -0.8)
        axis.set_yticks(range(len(self.rows)), [self._name(row) for row in self.rows])
        self._number_phases(axis)
        axis.tick_params(length=0)
        for side in ("left", "bottom"):
            axis.spines[side].set_visible(False)

    def _number_phases(self, axis: Axes) -> None:
        """Say under each stretch how many barriers lie before it, as far as there is room."""
        last = len(self.widths) - 1
        every = max(1, -(-(last + 1) // 8))
        shown = range(0, last + 1, every)
        middle = [float(self.starts[n]) + self.widths[n] / 2 for n in shown]
        axis.set_xticks(middle, [str(n) for n in shown])
        axis.set_xlabel("barriers passed")

    def mark(self, axis: Axes, defect: Defect) -> None:
        """Ring and join the accesses that the error names, and say their lines."""
        named = [(row, self.places[row]) for row in defect.rows if row in self.places]
        if not named:
            return
        red, paper = figure.colour("defect"), figure.colour("paper")
        x, y = [place[0] for _, place in named], [place[1] for _, place in named]
        axis.plot(x, y, color=red, linewidth=2, zorder=4)
        axis.scatter(x, y, s=150, facecolors="none", edgecolors=red, linewidths=2, zorder=5)
        left, right = axis.get_xlim()
        # Labels of two marks that lie close are set apart, above and below.
        close = len(named) > 1 and abs(y[0] - y[1]) < 2
        upper = 0 if len(named) > 1 and y[0] <= y[1] else len(named) - 1
        for number, (recorded, (column, row)) in enumerate(named):
            site = self.recording.sites[self.recording.site[recorded]]
            across = (column - left) / (right - left)
            side = "left" if across < 0.25 else "right" if across > 0.75 else "center"
            away = 0.0
            if not close:
                side = "right" if across > 0.5 else "left"
                away = -12.0 if across > 0.5 else 12.0
            shift = 0 if not close else 16 if number == upper else -16
            axis.annotate(
                f"{MARKERS[Kind(site.kind)][0]}, line {site.line}",
                (column, row),
                xytext=(away, shift),
                textcoords="offset points",
                ha=side,
                va="center",
                color=red,
                zorder=6,
                bbox={"boxstyle": "round,pad=0.2", "facecolor": paper, "edgecolor": red},
            )

    def handles(self, defect: Defect | None) -> list[object]:
        """What the legend shows: only what is drawn."""
        from matplotlib.lines import Line2D

        kinds = {int(self.recording.kind[recorded]) for recorded in self.places}
        found: list[object] = [
            Line2D(
                [],
                [],
                linestyle="",
                marker=marker,
                color=figure.colour(name),
                markerfacecolor="none" if kind == Kind.LOAD else figure.colour(name),
                label=word,
            )
            for kind, (word, marker, name) in MARKERS.items()
            if kind in kinds
        ]
        if self.bars:
            found.append(
                Line2D([], [], color=figure.colour("barrier"), linewidth=2.2, label="barrier")
            )
        if defect is not None:
            found.append(
                Line2D([], [], color=figure.colour("defect"), linewidth=2, label=defect.title)
            )
        return found

    def alt(self, subject: str, defect: Defect | None) -> str:
        """The chart in words."""
        what = "thread" if self.by_thread else "warp"
        barriers = len(self.widths) - 1
        said = [
            f"Time-line of {subject}: {len(self.rows)} rows, one a {what}; "
            f"{barriers} barrier{'' if barriers == 1 else 's'}"
        ]
        counts = [
            f"{count} {word}s"
            for kind, (word, _, _) in MARKERS.items()
            if (count := sum(int(self.recording.kind[row]) == kind for row in self.places))
        ]
        said.append(", ".join(counts) if counts else "no access")
        if defect is not None:
            places = " and ".join(
                f"{self._name(self._row(int(self.recording.thread[row])))} on line {line}"
                for row, line in zip(defect.rows, defect.lines, strict=True)
            )
            said.append(f"marked: {defect.title}, {places}")
        return ". ".join(said) + "."

    def _row(self, thread: int) -> Row:
        block, linear = divmod(thread, self.recording.threads_per_block)
        return block, linear if self.by_thread else linear // WARP_SIZE

    def _name(self, row: Row) -> str:
        what = "thread" if self.by_thread else "warp"
        one_block = math.prod(self.recording.grid) == 1
        return f"{what} {row[1]}" if one_block else f"block {row[0]}, {what} {row[1]}"


def _paint(kind: Kind, color: str) -> dict[str, Any]:
    if kind == Kind.LOAD:
        return {"facecolors": "none", "edgecolors": color}
    return {"color": color}
