"""The figures of the class report: marks, tests that fail most, how tests end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from markupsafe import Markup
from matplotlib.figure import Figure

from kernelbook.grade.feedback import MEANINGS
from kernelbook.grade.plot import ROLES, WIDTH_IN, inline_svg, settings
from kernelbook.grade.record import Category, visible
from kernelbook.grade.standing import Standing

MOST_ROWS = 15  # of a bar chart; the table below it has them all
MOST_PANELS = 6  # of the histogram; more labs than that are pooled
BIN_PERCENT = 10
LABEL_CHARS = 54
DETAIL_CHARS = 62
ROW_IN = 0.68
PANEL_IN = 1.7

# Roles of categories, in the order they are stacked, with what the legend calls them.
STACK = {
    "pass": "passed",
    "wrong": "wrong answer",
    "error": "error, not a kernel",
    "stopped": "stopped at a limit, died",
    "none": "not attempted, no answer",
    "ours": "our fault",
}


@dataclass(frozen=True)
class Chart:
    """A figure with its heading and the sentence that says how to read it."""

    name: str
    title: str
    caption: str
    svg: Markup


@dataclass(frozen=True)
class _Row:
    label: str
    value: str
    detail: str
    shares: tuple[tuple[str, float], ...]  # role of the segment, share of the full width


def draw(percents: Mapping[str, Sequence[float]], tests: Sequence[Standing]) -> list[Chart]:
    """Return the report's figures.

    percents: each lab's marks in percent, one a learner. tests: worst first. A figure without
    data is left out, so an empty class gives an empty list.
    """
    charts = []
    if any(percents.values()):
        charts.append(_marks(percents))
    if tests:
        charts.append(_endings(tests))
    failing = [test for test in tests if test.passed < test.total]
    if failing:
        charts.append(_worst(failing[:MOST_ROWS], len(failing)))
    return charts


def _marks(percents: Mapping[str, Sequence[float]]) -> Chart:
    panels = {lab: values for lab, values in percents.items() if values}
    if len(panels) > MOST_PANELS:
        panels = {"all labs": [value for values in panels.values() for value in values]}
    with settings():
        figure = Figure(figsize=(WIDTH_IN, PANEL_IN * len(panels)))
        figure.subplots_adjust(0, 0.2 / len(panels), 1, 1 - 0.18 / len(panels), hspace=0.75)
        axes = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
        for axis, (lab, values) in zip(axes, panels.items(), strict=True):
            counts = _bins(values)
            starts = [i * BIN_PERCENT for i in range(len(counts))]
            axis.bar(starts, counts, width=BIN_PERCENT * 0.9, align="edge", color=ROLES["bar"])
            for start, count in zip(starts, counts, strict=True):
                if count:
                    middle = start + BIN_PERCENT * 0.45
                    axis.text(middle, count, str(count), ha="center", va="bottom", fontsize=10)
            axis.set_xlim(0, 100)
            axis.set_ylim(0, max(counts) * 1.25)
            axis.set_yticks([])
            axis.set_xticks(range(0, 101, 20), [f"{tick} %" for tick in range(0, 101, 20)])
            labels = axis.get_xticklabels()
            labels[0].set_ha("left")
            labels[-1].set_ha("right")
            axis.spines["left"].set_visible(False)
            axis.set_title(_cut(lab, LABEL_CHARS), loc="left", fontsize=11.5, fontweight="bold")
            about = f"median {median(values):.0f} % of {len(values)}"
            axis.set_title(about, loc="right", fontsize=10.5, color=ROLES["muted"])
    said = "; ".join(
        f"{visible(lab)}: {len(values)} marks, median {median(values):.0f} percent, "
        + ", ".join(f"{n} from {i * BIN_PERCENT}" for i, n in enumerate(_bins(values)) if n)
        for lab, values in panels.items()
    )
    caption = "Number of learners by share of the points, in steps of ten percent."
    svg = inline_svg(figure, "marks", f"Histogram of marks. {said}")
    return Chart("marks", "Distribution of marks", caption, svg)


def _worst(worst: Sequence[Standing], failing: int) -> Chart:
    rows = [
        _Row(
            test.test,
            f"{test.total - test.passed} of {test.total}",
            f"{test.lab} · {test.exercise}",
            (("bar", test.fail_rate),),
        )
        for test in worst
    ]
    some = f"The worst {len(worst)} of {failing}. " if failing > len(worst) else ""
    caption = f"{some}Bar: share of graded submissions that did not pass the test."
    svg = _bars(rows, "worst", "Failing tests", value_below=True)
    return Chart("worst", "Tests that fail most", caption, svg)


def _endings(tests: Sequence[Standing]) -> Chart:
    exercises: dict[tuple[str, str], Counter[Category]] = {}
    for test in tests:
        exercises.setdefault((test.lab, test.exercise), Counter()).update(test.ended)
    ordered = sorted(exercises.items(), key=lambda item: item[1][Category.PASS] / item[1].total())
    rows = [
        _Row(
            f"{exercise} · {lab}",
            f"{ended[Category.PASS]} of {ended.total()} passed",
            ", ".join(f"{ended[c]} {c.value}" for c in Category if ended[c] and c != "pass"),
            _shares(ended),
        )
        for (lab, exercise), ended in ordered[:MOST_ROWS]
    ]
    some = (
        f"The worst {len(rows)} of {len(ordered)} exercises. " if len(ordered) > len(rows) else ""
    )
    caption = f"{some}All tests of an exercise over all graded submissions, by how they ended."
    return Chart("endings", "How tests end", caption, _bars(rows, "endings", "Exercises"))


def _shares(ended: Counter[Category]) -> tuple[tuple[str, float], ...]:
    by_role: Counter[str] = Counter()
    for category, count in ended.items():
        by_role[MEANINGS[category].role] += count
    return tuple((role, by_role[role] / ended.total()) for role in STACK if by_role[role])


def _bars(rows: Sequence[_Row], name: str, subject: str, value_below: bool = False) -> Markup:
    """Draw one row a bar, its label above it: nothing is cut at the side of a phone."""
    with settings():
        muted = ROLES["muted"]
        figure = Figure(figsize=(WIDTH_IN, ROW_IN * len(rows)))
        axis = figure.add_axes((0, 0, 1, 1))
        axis.set_axis_off()
        axis.set_xlim(0, 1)
        axis.set_ylim(len(rows), 0)
        for i, row in enumerate(rows):
            room = LABEL_CHARS if value_below else LABEL_CHARS - len(row.value) - 2
            axis.text(0, i + 0.22, _cut(row.label, room), fontsize=11.5)
            line = i + 0.5 if value_below else i + 0.22
            axis.text(1, line, row.value, fontsize=10.5, ha="right", color=muted)
            axis.text(0, i + 0.5, _cut(row.detail, DETAIL_CHARS), fontsize=10, color=muted)
            axis.barh(i + 0.69, 1, height=0.2, color=ROLES["rule"])
            left = 0.0
            for role, share in row.shares:
                bar = axis.barh(i + 0.69, share, left=left, height=0.2, color=ROLES[role])
                for patch in bar:
                    patch.set_edgecolor(ROLES["paper"])
                left += share
    said = "; ".join(f"{row.label} ({row.detail}): {row.value}" for row in rows)
    return inline_svg(figure, name, f"{subject}. {said}")


def _bins(values: Sequence[float]) -> list[int]:
    """Count marks by tens of percent; full marks belong to the last bin."""
    counts = [0] * (100 // BIN_PERCENT)
    for value in values:
        counts[min(int(value // BIN_PERCENT), len(counts) - 1)] += 1
    return counts


def _cut(text: str, most: int) -> str:
    line = visible(text, newline=" ")
    return line if len(line) <= most else f"{line[: most - 1]}…"
