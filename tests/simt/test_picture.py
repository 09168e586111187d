"""Pictures show what the recording holds: every access, the barriers, the defect, nothing else."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numba import cuda
from recordings import Builder

from kernelbook.errors import LearnerError
from kernelbook.simt import (
    RaceError,
    bankmap,
    counters,
    figure,
    observe,
    observed,
    picture,
    sectormap,
    steps,
    timeline,
    verdict,
)
from kernelbook.simt.record import Kind


@cuda.jit
def reverse(x, out):
    i = cuda.threadIdx.x
    shared = cuda.shared.array(8, np.float32)
    shared[i] = x[cuda.grid(1)]
    cuda.syncthreads()
    out[cuda.grid(1)] = shared[7 - i]


@cuda.jit
def reverse_without_barrier(x, out):
    i = cuda.threadIdx.x
    shared = cuda.shared.array(64, np.float32)
    shared[i] = x[i]
    out[i] = shared[63 - i]


@cuda.jit
def nothing(x, out):
    pass


@cuda.jit
def too_far(x, out):
    i = cuda.grid(1)
    out[i] = x[i]


@cuda.jit
def strided(x, out, stride):
    i = cuda.threadIdx.x
    tile = cuda.shared.array(1024, np.float32)
    tile[i * stride] = x[i * stride]
    cuda.syncthreads()
    out[i] = tile[i * stride]


@cuda.jit
def wide(out):
    i = cuda.threadIdx.x
    tile = cuda.shared.array(32, np.float64)
    tile[i] = i
    cuda.syncthreads()
    out[i] = tile[31 - i]


@cuda.jit
def tree(x):
    i = cuda.threadIdx.x
    apart = 1
    while apart < 8:
        if i % (2 * apart) == 0:
            x[i] += x[i + apart]
        cuda.syncthreads()
        apart *= 2


@cuda.jit
def loops_of_two_lengths(x):
    i = cuda.threadIdx.x
    for _ in range(i % 2 + 1):
        x[i] += 1
    x[i] *= 2


@cuda.jit
def meets_in_the_grid(x):
    i = cuda.grid(1)
    x[i] = i
    cuda.cg.this_grid().sync()
    x[i] = x[i] + 1


def recorded(launch, *args, lines=False):
    recording, _ = observed.run(launch, args, lines=lines)
    return recording


def floats(n: int) -> np.ndarray:
    return np.arange(n, dtype=np.float32)


def points(axis) -> set[tuple[int, int]]:
    """(element, thread) of every mark on one panel."""
    return {
        (round(x), round(y))
        for marks in axis.collections
        for x, y in np.asarray(marks.get_offsets())
    }


def stripped(html: str) -> str:
    """What a notebook leaves of an output that it does not trust."""
    html = re.sub(r"<(style|script)\b.*?</\1>", "", html, flags=re.S)
    return re.sub(r"</?(svg|defs|g|path|use|clipPath|rect)\b[^>]*>", "", html)


# -- which thread touches which element -----------------------------------------------------------


def test_accesses_draws_each_array_once_with_every_access() -> None:
    drawing = picture.accesses(recorded(reverse[2, 8], floats(16), floats(16)))
    titles = [axis.get_title(loc="left") for axis in drawing.axes]
    assert titles == ["global x [16]", "global out [16]", "shared shared [8], block 0"]
    diagonal = {(i, i) for i in range(16)}
    assert points(drawing.axes[0]) == diagonal
    assert points(drawing.axes[1]) == diagonal
    assert points(drawing.axes[2]) == {(i, i) for i in range(8)} | {(7 - i, i) for i in range(8)}


def test_accesses_of_a_line_draws_that_line_alone(line_of) -> None:
    recording = recorded(reverse[1, 8], floats(8), floats(8))
    drawing = picture.accesses(recording, line=line_of(reverse, "7 - i"))
    titles = [axis.get_title(loc="left") for axis in drawing.axes]
    assert sorted(titles) == ["global out [8]", "shared shared [8]"]
    shared = drawing.axes[titles.index("shared shared [8]")]
    assert points(shared) == {(7 - i, i) for i in range(8)}


def test_accesses_of_a_line_without_any_names_the_lines_that_have(line_of) -> None:
    recording = recorded(reverse[1, 8], floats(8), floats(8))
    there = line_of(reverse, "x[cuda"), line_of(reverse, "7 - i")
    with pytest.raises(LearnerError, match=f"lines {there[0]} and {there[1]}"):
        picture.accesses(recording, line=line_of(reverse, "syncthreads()"))


def test_accesses_colour_changes_at_the_barrier() -> None:
    recording = recorded(reverse[1, 8], floats(8), floats(8))
    drawing = picture.accesses(recording)
    loaded, stored = (axis.collections for axis in drawing.axes[:2])
    colours = [
        {tuple(edge) for marks in panel for edge in marks.get_edgecolors()}
        for panel in (loaded, stored)
    ]
    assert len(colours[0]) == len(colours[1]) == 1
    assert colours[0] != colours[1]


def test_accesses_draws_a_line_where_each_sector_ends() -> None:
    drawing = picture.accesses(recorded(too_far[1, 24], floats(24), floats(24)))
    edges = [line.get_xdata()[0] for line in drawing.axes[0].lines]
    assert edges == [7.5, 15.5]


def test_accesses_unsolved_kernel_says_so() -> None:
    drawing = picture.accesses(recorded(nothing[1, 4], np.zeros(4), np.zeros(4)))
    assert "does nothing yet" in drawing.axes[0].texts[0].get_text()
    assert "no thread touches an array" in drawing.alt


def test_accesses_failing_kernel_is_drawn_up_to_the_error() -> None:
    recording, failure = observed.run(too_far[1, 5], (floats(3), floats(3)))
    assert type(failure).__name__ == "BoundsError"
    drawing = picture.accesses(recording)
    assert "up to the error" in drawing.get_suptitle()
    assert points(drawing.axes[0]) == {(0, 0), (1, 1), (2, 2)}


def test_accesses_race_marks_the_two_accesses_that_the_error_names() -> None:
    recording = recorded(reverse_without_barrier[1, 64], floats(64), floats(64))
    error = verdict.first_defect(recording)
    assert isinstance(error, RaceError)
    drawing = picture.accesses(recording)
    shared = next(axis for axis in drawing.axes if "shared" in axis.get_title(loc="left"))
    ring = {tuple(map(int, at)) for at in np.asarray(shared.collections[-1].get_offsets())}
    start = recording.allocations[recording.allocation[error.first]].address
    assert ring == {
        (int(recording.address[row] - start) // 4, int(recording.thread[row]))
        for row in (error.first, error.second)
    }
    assert "data race" in shared.texts[0].get_text()
    assert "data race" in drawing.alt


# -- themes and words -----------------------------------------------------------------------------


def test_picture_has_alt_text_and_takes_its_colours_from_the_page() -> None:
    drawing = picture.accesses(recorded(reverse[1, 8], floats(8), floats(8)), title="a < b")
    html = drawing._repr_mimebundle_()["text/html"]
    assert html.count("a &lt; b") == 2  # label of the SVG, alt of the PNG
    svg = html[html.index("<svg") : html.index("</svg>")]
    assert "<text" not in svg
    literal = re.sub(r"var\(--kb-\w+,#\w{6}\)", "", svg)
    assert not [light for light, _ in figure.COLOURS.values() if light in literal]
    for mark in ("prefers-color-scheme:dark", 'data-theme="dark"', 'data-jp-theme-light="false"'):
        assert mark in html


def test_picture_without_styles_and_svg_leaves_an_image_with_alt_text() -> None:
    drawing = picture.accesses(recorded(reverse[1, 8], floats(8), floats(8)))
    left = stripped(drawing._repr_mimebundle_()["text/html"])
    assert re.fullmatch(
        r'<div class="kb-picture"><div class="kb-svg">\s*</div>'
        r'<img class="kb-plain" alt="[^"]+" src="data:image/png;base64,[^"]+"></div>',
        left,
    )


@pytest.mark.parametrize("place", [0, 1], ids=["light", "dark"])
def test_colours_stand_out_from_their_ground(place: int) -> None:
    def luminance(colour: str) -> float:
        parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
        r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    grounds = ("#ffffff", "#121212")
    for name, pair in figure.COLOURS.items():
        if name in ("paper", "rule"):
            continue
        light, dark = sorted((luminance(pair[place]), luminance(grounds[place])), reverse=True)
        wanted = 4.5 if name in ("ink", "quiet", "defect") else 3.0
        assert (light + 0.05) / (dark + 0.05) >= wanted, name


def test_colours_are_told_apart_by_their_light_value() -> None:
    assert len({light for light, _ in figure.COLOURS.values()}) == len(figure.COLOURS)


# -- banks and sectors ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stride", "wavefronts"), [(1, 1), (2, 2), (8, 8), (32, 32), (3, 1), (0, 1)]
)
def test_bank_map_shows_the_wavefronts_that_are_counted(stride: int, wavefronts: int) -> None:
    recording = recorded(strided[1, 32], floats(1024), floats(32), stride)
    request, _ = bankmap.of_line(recording)
    cells = bankmap._cells(request)
    assert request.wavefronts == wavefronts == 1 + max(cell.turn for cell in cells)
    assert request.conflicts == wavefronts - 1
    assert {lane for cell in cells for lane in cell.lanes} == set(range(32))
    assert all(cell.bank == int(cell.element[5:-1]) % 32 for cell in cells)
    per_line = counters.count(recording).lines.values()
    assert max(line.bank_conflicts for line in per_line) == request.conflicts


def test_bank_map_of_8_byte_accesses_shows_the_halves_of_the_warp() -> None:
    recording = recorded(wide[1, 32], np.zeros(32))
    request, _ = bankmap.of_line(recording)
    cells = bankmap._cells(request)
    assert request.conflicts == 0
    assert bankmap._depths(cells) == [1, 1]
    assert {cell.lanes[0] // 16 for cell in cells if cell.turn == 0} == {0}
    drawing = bankmap.banks_of(recording)
    assert "No bank conflict: 2 wavefronts" in drawing.alt


def test_bank_map_without_shared_memory_says_so() -> None:
    drawing = bankmap.banks_of(recorded(too_far[1, 3], floats(3), floats(3)))
    assert "no thread touches shared memory" in drawing.alt
    assert drawing.texts[0].get_text().replace("\n", " ") == drawing.alt


def test_sector_map_of_a_kernel_that_does_nothing_says_so() -> None:
    drawing = sectormap.sectors_of(recorded(nothing[1, 4], np.zeros(4), np.zeros(4)))
    assert "no thread touches global memory" in drawing.alt


def test_bank_map_of_another_line_names_those_with_shared_memory(line_of) -> None:
    recording = recorded(reverse[1, 8], floats(8), floats(8))
    with pytest.raises(LearnerError, match=str(line_of(reverse, "7 - i"))):
        bankmap.banks_of(recording, line=line_of(reverse, "syncthreads()"))


@pytest.mark.parametrize(("stride", "moved"), [(1, 4), (2, 8), (8, 32), (0, 1)])
def test_sector_map_shows_the_sectors_that_are_counted(stride: int, moved: int, line_of) -> None:
    recording = recorded(strided[1, 32], floats(1024), floats(32), stride)
    line = line_of(strided, "= x[")
    request, count = sectormap.of_line(recording, line)
    assert (request.moved, count) == (moved, 1)
    assert counters.count(recording).lines[line].sectors == moved
    drawing = sectormap.sectors_of(recording, line=line)
    assert f"{moved} sector" in drawing.alt
    bars = [(p.get_x(), p.get_y()) for p in drawing.axes[0].patches]
    assert len(bars) == 32
    assert len({int(x + 1e-9) for x, _ in bars}) == moved


# -- steps and the time-line ----------------------------------------------------------------------


@pytest.mark.parametrize("lines", [False, True], ids=["accesses", "lines"])
def test_steps_hold_every_row_once_in_each_threads_own_order(lines: bool) -> None:
    recording = recorded(tree[2, 64], floats(128), lines=lines)
    threads = list(range(128))
    found, whole = steps.steps(recording, threads, 10_000)
    assert whole
    rows = [row for step in found for row in step.rows]
    assert sorted(rows) == list(np.flatnonzero(recording.kind != Kind.LINE))
    for thread in threads:
        own = [row for row in rows if recording.thread[row] == thread]
        assert own == sorted(own)


def test_steps_never_pass_a_barrier_before_the_others() -> None:
    recording = recorded(tree[1, 64], floats(64), lines=True)
    found, _ = steps.steps(recording, range(64), 10_000)
    phases = [step.phase for step in found]
    assert phases == sorted(phases)
    assert [step.meets for step in found if step.meets] == ["syncthreads"] * 3


def test_steps_bring_lanes_together_after_a_branch(line_of) -> None:
    recording = recorded(tree[1, 8], floats(8), lines=True)
    found, _ = steps.steps(recording, range(8), 1000)
    by_line: dict[int, list[int]] = {}
    for step in found:
        if not step.meets:
            by_line.setdefault(recording.sites[step.site].line, []).append(len(step.threads))
    assert by_line[line_of(tree, "x[i] +=")] == [4, 2, 1]
    assert by_line[line_of(tree, "apart *= 2")] == [8, 8, 8]


def test_steps_bring_lanes_together_after_loops_of_two_lengths(line_of) -> None:
    recording = recorded(loops_of_two_lengths[1, 8], floats(8), lines=True)
    found, _ = steps.steps(recording, range(8), 1000)
    after = line_of(loops_of_two_lengths, "x[i] *= 2")
    assert [len(step.threads) for step in found if recording.sites[step.site].line == after] == [8]


def test_phases_count_the_meetings_of_the_whole_grid(line_of) -> None:
    recording = recorded(meets_in_the_grid[2, 4], floats(8))
    phases = steps.phases(recording)
    first = line_of(meets_in_the_grid, "x[i] = i")
    lines = np.array([site.line for site in recording.sites])[recording.site]
    assert set(phases[lines == first]) == {0}
    assert set(phases[lines != first]) == {1}


def test_warps_of_shows_the_racing_warps_first() -> None:
    built = Builder("def k(x):\n    x[0] = 1", grid=3, block=64)
    x = built.array("x", 4)
    for thread in range(192):
        built.store(thread, x, 0, 2)
    recording = built.recording()
    assert steps.warps_of(recording, 64, [70, 130]) == [*range(64, 96), *range(128, 160)]
    assert steps.warps_of(recording, 64) == list(range(64))


def test_time_line_few_threads_get_a_row_each_many_one_a_warp() -> None:
    few = timeline.time_line(recorded(tree[1, 8], floats(8)))
    many = timeline.time_line(recorded(tree[2, 64], floats(128)))
    assert [t.get_text() for t in few.axes[0].get_yticklabels()][:2] == ["thread 0", "thread 1"]
    assert [t.get_text() for t in many.axes[0].get_yticklabels()] == [
        f"block {b}, warp {w}" for b in (0, 1) for w in (0, 1)
    ]


def test_time_line_race_is_joined_and_no_barrier_stands_between(line_of) -> None:
    recording = recorded(reverse_without_barrier[1, 64], floats(64), floats(64))
    drawing = timeline.time_line(recording)
    axis = drawing.axes[0]
    lines = {
        line_of(reverse_without_barrier, "shared[i] = x[i]"),
        line_of(reverse_without_barrier, "63 - i"),
    }
    said = {text.get_text() for text in axis.texts}
    assert said == {f"write, line {min(lines)}", f"read, line {max(lines)}"}
    joined = axis.lines[-1]
    assert len(joined.get_xdata()) == 2
    assert "barrier" not in [t.get_text() for t in drawing.legends[0].get_texts()]


def test_time_line_bars_stand_between_the_accesses_that_they_order() -> None:
    recording = recorded(reverse[1, 8], floats(8), floats(8))
    chart = timeline._Chart(recording, *_steps_of(recording, 8), by_thread=True)
    stores = [row for row in chart.places if recording.sites[recording.site[row]].text[0] == "s"]
    bar = float(chart.starts[1]) - 0.5
    assert len(chart.bars) == 1
    assert all(chart.places[row][0] < bar for row in stores)
    after = [row for row in chart.places if row not in stores]
    assert all(chart.places[row][0] > bar for row in after)


def _steps_of(recording, threads: int):
    found, _ = steps.steps(recording, range(threads), 1000)
    return found, range(threads)


def test_recording_that_is_drawn_is_the_one_observed() -> None:
    with observe() as trace:
        reverse[1, 8](floats(8), floats(8))
    drawn = points(picture.accesses(trace.recording).axes[0])
    assert drawn == {(i, i) for i in range(8)}
