"""Draws one warp request in shared memory: which lanes want which word of which of the 32 banks.

One row a bank, one box a word that is wanted of it. A bank gives one word at a time, so the boxes
of one row stand in a queue: each takes a turn (a wavefront) of its own, and the boxes after the
first are conflicts. Accesses of 8 or 16 bytes are made for a part of the warp at a time. The counts
are those of :mod:`kernelbook.simt.banks`, the requests those of :mod:`kernelbook.simt.requests`:
the picture shows what the counter counts.

Limit: one request is shown, by default the worst of the line; the title says how many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kernelbook.errors import LearnerError
from kernelbook.simt import banks, figure, requests
from kernelbook.simt.coalescing import WORD
from kernelbook.simt.errors import lines_text
from kernelbook.simt.record import Allocation, Kind, Recording
from kernelbook.simt.registers import WARP_SIZE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Ints = NDArray[np.int64]
HEIGHT_IN = 5.6  # 32 banks with room for a number in each
MOST_NUMBERED = 10  # wavefronts whose boxes are wide enough for a lane's number
MOST_NAMED = 2  # and for the element's name
VERBS = {Kind.LOAD: "reads", Kind.STORE: "writes", Kind.ATOMIC: "updates"}
COLOURS = {Kind.LOAD: "load", Kind.STORE: "store", Kind.ATOMIC: "atomic"}
_PART = {1: "", 2: ", half a warp at a time", 4: ", a quarter of a warp at a time"}


@dataclass(frozen=True, eq=False)
class Request:
    """What one warp asks of shared memory at once.

    lanes, words: one entry for each word that a lane touches; words count from the array's start.
    conflicts: wavefronts above those that the width of the access needs.
    """

    site: int
    block: int
    warp: int
    array: Allocation
    width: int
    lanes: Ints
    words: Ints
    wavefronts: int
    conflicts: int


@dataclass(frozen=True, slots=True)
class Cell:
    """A word that lanes want. turn: of the request, place: in its part of the warp's queue."""

    bank: int
    turn: int
    place: int
    part: int
    lanes: tuple[int, ...]
    element: str


def of_line(recording: Recording, line: int | None = None) -> tuple[Request, int]:
    """The request with most conflicts on ``line`` (None: on any line), and how many there are.

    Raises LearnerError when no shared memory is touched there.
    """
    found = _shared(recording)
    lines = np.array([site.line for site in recording.sites], np.int64)
    if len(found):
        row_lines = lines[recording.site[found.rows[found.first]]]
        have = sorted({int(n) for n in row_lines})
        part = found if line is None else found.part(row_lines == line)
    else:
        have, part = [], found
    if not len(part):
        where = "" if line is None else f" on line {line}"
        hint = f" Shared memory is touched on {lines_text(have)}." if have else ""
        raise LearnerError(
            f"{recording.kernel}: no thread touches shared memory{where}, so there are no banks "
            f"to show.{hint}"
        )
    cost = _cost(recording, part)
    conflicts = cost.used - cost.ideal
    worst = int(np.argmax(conflicts * 64 + cost.used))
    return _request(recording, part, worst, cost), len(part)


def banks_of(recording: Recording, *, line: int | None = None, title: str = "") -> figure.Picture:
    """Draw the worst shared-memory request of ``line``, or of the kernel."""
    try:
        request, count = of_line(recording, line)
    except LearnerError as error:
        if line is not None:
            raise
        return figure.message(str(error))  # a kernel that does nothing yet is no mistake
    with figure.settings():
        return _draw(recording, request, count, title)


def _shared(recording: Recording) -> requests.Requests:
    found = requests.accesses(recording)
    spaces = np.array([a.space == "shared" for a in recording.allocations], np.bool_)
    if not len(found):
        return found
    owner = recording.allocation[found.rows[found.first]]
    return found.part(spaces[owner])


def _cost(recording: Recording, part: requests.Requests) -> banks.Wavefronts:
    rows = part.rows
    start = np.array([a.address for a in recording.allocations], np.int64)
    offset = recording.address[rows] - start[recording.allocation[rows]]
    width = recording.width[rows].astype(np.int64)
    return banks.wavefronts(part.request, part.lane, offset, width, len(part))


def _request(
    recording: Recording, part: requests.Requests, number: int, cost: banks.Wavefronts
) -> Request:
    rows, lanes = part.rows[part.request == number], part.lane[part.request == number]
    array = recording.allocations[recording.allocation[rows[0]]]
    width = int(recording.width[rows[0]])
    offset = recording.address[rows] - array.address
    each = [range(int(o) // WORD, (int(o) + width - 1) // WORD + 1) for o in offset]
    block, linear = divmod(int(recording.thread[rows[0]]), recording.threads_per_block)
    return Request(
        site=int(recording.site[rows[0]]),
        block=block,
        warp=linear // WARP_SIZE,
        array=array,
        width=width,
        lanes=np.array([lane for lane, w in zip(lanes, each, strict=True) for _ in w], np.int64),
        words=np.array([word for words in each for word in words], np.int64),
        wavefronts=int(cost.used[number]),
        conflicts=int(cost.used[number] - cost.ideal[number]),
    )


def _draw(recording: Recording, request: Request, count: int, title: str) -> figure.Picture:
    site = recording.sites[request.site]
    drawing = figure.Picture(figsize=(figure.WIDTH_IN, HEIGHT_IN), layout="constrained")
    axis = drawing.subplots()
    cells = _cells(request)
    turns = 1 + max(cell.turn for cell in cells)
    for cell in cells:
        _draw_cell(axis, cell, site.kind)
    _label(axis, cells, turns)
    for number, boundary in enumerate(np.cumsum(_depths(cells))[:-1], 2):
        axis.axvline(boundary, color=figure.colour("barrier"), linestyle="--", linewidth=1.2)
        axis.text(boundary, -1.1, f" part {number}", color=figure.colour("barrier"), va="center")
    axis.set_xlim(0, max(turns, 2))
    axis.set_ylim(banks.BANKS - 0.4, -0.6 - (len(_depths(cells)) > 1))
    axis.set_xticks([n + 0.5 for n in _ticks(turns)], [str(n + 1) for n in _ticks(turns)])
    axis.set_yticks(range(0, banks.BANKS, 4))
    axis.set_xlabel("wavefront" + ("; a number is a lane" if turns <= MOST_NUMBERED else ""))
    axis.set_ylabel("bank")
    said = _sentence(request)
    heading = title or f"line {site.line} | {site.text}"
    ink = figure.colour("defect" if request.conflicts else "ink")
    drawing.suptitle(_short(heading), x=0.02, ha="left")
    axis.set_title(said, loc="left", color=ink)
    total = f"the worst of {count:,} requests" if count > 1 else "the only request"
    words = np.bincount(np.unique(request.words) % banks.BANKS, minlength=banks.BANKS)
    drawing.alt = (
        f"Bank map, {heading}. Warp {request.warp} of block {request.block} "
        f"{VERBS[Kind(site.kind)]} {request.array.name}, {request.width} bytes a lane; {total}. "
        f"{said}. Words wanted of banks 0 to 31: {', '.join(map(str, words))}."
    )
    return drawing


def _cells(request: Request) -> list[Cell]:
    """Every word of every bank, in the turn in which the bank can give it."""
    parts = min(max(-(-request.width // WORD), 1), 4)
    part = request.lanes // (WARP_SIZE // parts)
    cells: list[Cell] = []
    begin = 0
    for number in range(parts):
        mine = part == number
        depth: dict[int, int] = {}
        for word in map(int, np.unique(request.words[mine])):
            bank, lanes = word % banks.BANKS, request.lanes[mine & (request.words == word)]
            turn = depth.setdefault(bank, 0)
            depth[bank] += 1
            element = request.array.index_of(word * WORD)
            name = f"{request.array.name}[{', '.join(map(str, element))}]"
            cells.append(Cell(bank, begin + turn, turn, number, tuple(map(int, lanes)), name))
        begin += max(depth.values(), default=0)
    return cells


def _depths(cells: list[Cell]) -> list[int]:
    """The wavefronts of each part of the warp that takes part."""
    depth: dict[int, int] = {}
    for cell in cells:
        depth[cell.part] = max(depth.get(cell.part, 0), cell.place + 1)
    return list(depth.values())


def _draw_cell(axis: Axes, cell: Cell, kind: Kind) -> None:
    from matplotlib.patches import Rectangle

    name = "defect" if cell.place else COLOURS[Kind(kind)]
    corner = (cell.turn + 0.04, cell.bank - 0.42)
    axis.add_patch(
        Rectangle(corner, 0.92, 0.84, facecolor=figure.colour(name), edgecolor="none", linewidth=0)
    )


def _label(axis: Axes, cells: list[Cell], turns: int) -> None:
    """Who asks for the word, in the box where it fits, else once under a bank with room there."""
    if turns <= MOST_NUMBERED:
        for cell in cells:
            text = _ranges(cell.lanes)
            if turns <= MOST_NAMED:
                text = f"{text}: {cell.element}"
            at = cell.turn + 0.5, cell.bank
            axis.text(*at, text, color=figure.colour("paper"), ha="center", va="center_baseline")
        return
    by_bank: dict[int, list[int]] = {}
    for cell in cells:
        by_bank.setdefault(cell.bank, []).extend(cell.lanes)
    for bank, lanes in by_bank.items():
        if bank + 1 not in by_bank and bank + 1 < banks.BANKS:
            text = f"lanes {_ranges(sorted(set(lanes)))}"
            below = 1.0, bank + 1.1
            axis.text(*below, text, color=figure.colour("ink"), ha="left", va="center_baseline")


def _ranges(lanes: Sequence[int]) -> str:
    """Lanes in short: ``5``, ``0–31``, ``0, 2 … 30``."""
    step = {b - a for a, b in pairwise(lanes)}
    if len(lanes) > 2 and len(step) == 1:
        (by,) = step
        return f"{lanes[0]}–{lanes[-1]}" if by == 1 else f"{lanes[0]}, {lanes[1]} … {lanes[-1]}"
    return ", ".join(map(str, lanes)) if len(lanes) <= 3 else f"{len(lanes)} lanes"


def _ticks(turns: int) -> range:
    return range(0, turns, max(1, -(-turns // 8)))


def _sentence(request: Request) -> str:
    how = _PART[min(max(-(-request.width // WORD), 1), 4)]
    turns = f"{request.wavefronts} wavefront{'s' * (request.wavefronts != 1)}{how}"
    if not request.conflicts:
        return f"No bank conflict: {turns}"
    return (
        f"{request.conflicts} bank conflicts: {turns}"
        if request.conflicts > 1
        else (f"1 bank conflict: {turns}")
    )


def _short(text: str, most: int = 52) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
