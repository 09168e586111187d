"""Draws one warp request to global memory: which lanes want which bytes of which 32-byte sectors.

One row a lane, one column a sector that the request moves; gaps in memory between them are left out
and marked. Memory arrives in whole sectors, so what is empty in a column was moved for nothing. The
counts are those of :mod:`kernelbook.simt.coalescing`, the requests those of
:mod:`kernelbook.simt.requests`: the picture shows what the counter counts.

Limit: one request is shown, by default the worst of the line; local memory is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kernelbook.errors import LearnerError
from kernelbook.simt import coalescing, figure, requests
from kernelbook.simt.coalescing import SECTOR
from kernelbook.simt.errors import lines_text
from kernelbook.simt.record import Allocation, Kind, Recording
from kernelbook.simt.registers import WARP_SIZE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Ints = NDArray[np.int64]
HEIGHT_IN = 4.6
VERBS = {Kind.LOAD: "reads", Kind.STORE: "writes", Kind.ATOMIC: "updates"}
COLOURS = {Kind.LOAD: "load", Kind.STORE: "store", Kind.ATOMIC: "atomic"}


@dataclass(frozen=True, eq=False)
class Request:
    """What one warp asks of global memory at once.

    offsets, lanes: one entry an access, in bytes from the array's start. moved: sectors. asked:
    distinct bytes. ideal: the fewest sectors that could hold them.
    """

    site: int
    block: int
    warp: int
    array: Allocation
    width: int
    lanes: Ints
    offsets: Ints
    moved: int
    asked: int
    ideal: int


def of_line(recording: Recording, line: int | None = None) -> tuple[Request, int]:
    """The request on ``line`` (None: on any) that moves most in vain, and how many there are.

    Raises LearnerError when no global memory is touched there.
    """
    found = requests.accesses(recording)
    if len(found):
        owner = recording.allocation[found.rows[found.first]]
        found = found.part(
            np.array([a.space == "global" for a in recording.allocations], np.bool_)[owner]
        )
    have: list[int] = []
    if len(found):
        lines = np.array([site.line for site in recording.sites], np.int64)
        of_request = lines[recording.site[found.rows[found.first]]]
        have = sorted({int(n) for n in of_request})
        found = found if line is None else found.part(of_request == line)
    if not len(found):
        where = "" if line is None else f" on line {line}"
        hint = f" Global memory is touched on {lines_text(have)}." if have else ""
        raise LearnerError(
            f"{recording.kernel}: no thread touches global memory{where}, so there are no sectors "
            f"to show.{hint}"
        )
    address = recording.address[found.rows]
    width = recording.width[found.rows].astype(np.int64)
    cost = coalescing.global_sectors(found.request, address, width, len(found))
    worst = int(np.argmax((cost.moved - cost.ideal) * 1024 + cost.moved))
    return _request(recording, found, worst, cost), len(found)


def sectors_of(recording: Recording, *, line: int | None = None, title: str = "") -> figure.Picture:
    """Draw the global-memory request of ``line``, or of the kernel, that moves most in vain."""
    try:
        request, count = of_line(recording, line)
    except LearnerError as error:
        if line is not None:
            raise
        return figure.message(str(error))  # a kernel that does nothing yet is no mistake
    with figure.settings():
        return _draw(recording, request, count, title)


def _request(
    recording: Recording, found: requests.Requests, number: int, cost: coalescing.Sectors
) -> Request:
    rows, lanes = found.rows[found.request == number], found.lane[found.request == number]
    array = recording.allocations[recording.allocation[rows[0]]]
    block, linear = divmod(int(recording.thread[rows[0]]), recording.threads_per_block)
    return Request(
        site=int(recording.site[rows[0]]),
        block=block,
        warp=linear // WARP_SIZE,
        array=array,
        width=int(recording.width[rows[0]]),
        lanes=lanes,
        offsets=recording.address[rows] - array.address,
        moved=int(cost.moved[number]),
        asked=int(cost.bytes[number]),
        ideal=int(cost.ideal[number]),
    )


def _draw(recording: Recording, request: Request, count: int, title: str) -> figure.Picture:
    site = recording.sites[request.site]
    drawing = figure.Picture(figsize=(figure.WIDTH_IN, HEIGHT_IN), layout="constrained")
    axis = drawing.subplots()
    first = request.offsets // SECTOR
    last = (request.offsets + request.width - 1) // SECTOR
    sectors = np.unique(np.concatenate([first, last]))
    _columns(axis, sectors)
    _marks(axis, request, sectors, figure.colour(COLOURS[Kind(site.kind)]))
    axis.set_xlim(-0.3, max(len(sectors), 4) + 0.3)
    axis.set_ylim(WARP_SIZE - 0.3, -0.7)
    axis.set_yticks(range(0, WARP_SIZE, 4))
    axis.set_ylabel("lane")
    every = max(1, -(-len(sectors) // 6))
    shown = range(0, len(sectors), every)
    names = [_element(request.array, int(sectors[n]) * SECTOR) for n in shown]
    axis.set_xticks([n + 0.5 for n in shown], names)
    axis.set_xlabel(f"first element of the sector in {request.array.name}; dashed: a gap")
    axis.tick_params(length=0)
    said = (
        f"{request.moved} sector{'s' * (request.moved != 1)} moved for {request.asked} bytes; "
        f"{request.ideal} would do"
    )
    heading = title or f"line {site.line} | {site.text}"
    drawing.suptitle(heading if len(heading) <= 52 else heading[:51] + "…", x=0.02, ha="left")
    wasteful = request.moved > request.ideal
    axis.set_title(said, loc="left", color=figure.colour("defect" if wasteful else "ink"))
    total = f"the worst of {count:,} requests" if count > 1 else "the only request"
    drawing.alt = (
        f"Sector map, {heading}. Warp {request.warp} of block {request.block} "
        f"{VERBS[Kind(site.kind)]} {request.array.name}, {request.width} bytes a lane; {total}. "
        f"{said}. Lane {request.lanes[0]} touches byte {request.offsets[0]}, lane "
        f"{request.lanes[-1]} byte {request.offsets[-1]}."
    )
    return drawing


def _columns(axis: Axes, sectors: Ints) -> None:
    """The sectors side by side; a dashed line where memory between two of them is left out."""
    for place in range(len(sectors) + 1):
        inside = 0 < place < len(sectors)
        gap = inside and sectors[place] - sectors[place - 1] > 1
        axis.axvline(
            place,
            color=figure.colour("barrier" if gap else "rule"),
            linestyle="--" if gap else "-",
            linewidth=1.0,
            zorder=1,
        )


def _marks(axis: Axes, request: Request, sectors: Ints, color: str) -> None:
    """A bar for the bytes that each lane touches, cut where it crosses into the next sector."""
    for lane, offset in zip(map(int, request.lanes), map(int, request.offsets), strict=True):
        byte, end = offset, offset + request.width
        while byte < end:
            sector = byte // SECTOR
            stop = min(end, (sector + 1) * SECTOR)
            left = int(np.searchsorted(sectors, sector)) + byte % SECTOR / SECTOR
            axis.barh(lane, (stop - byte) / SECTOR, left=left, height=0.8, color=color, zorder=3)
            byte = stop


def _element(array: Allocation, offset: int) -> str:
    return ",".join(map(str, array.index_of(offset)))
