"""The counters as a table: rows, text for a terminal, HTML for a notebook.

The HTML carries no colours of its own, so that a light and a dark theme both suit it.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelbook.simt.counters import Counters
    from kernelbook.simt.counts import Counts, LineCounts, SharedTraffic, Traffic

Row = dict[str, int | float | str]
Table = tuple[tuple[str, ...], list[tuple[str, ...]]]  # the heading, and the rows under it
_SECTORS = (
    "global_load", "global_store", "global_atomic", "local_load", "local_store", "constant_load",
)  # fmt: skip
_WAVEFRONTS = ("shared_load", "shared_store", "shared_atomic")
_SECTOR_COLUMNS = (
    "sectors", "ideal_sectors", "sectors_per_request", "bytes_needed", "bytes_moved",
)  # fmt: skip
MOST_TEXT = 44  # characters of a source line
NUMBERS = frozenset("0123456789.,%×–- ")


def rows(counters: Counters) -> list[Row]:
    """One dictionary for each access in the source, and for each line if lines were recorded."""
    return [row for site in counters.sites for row in _rows_of(site)]


def _rows_of(site: LineCounts) -> Iterator[Row]:
    counts = site.counts
    for name in (*_SECTORS, *_WAVEFRONTS):
        traffic: Traffic | SharedTraffic = getattr(counts, name)
        if not traffic.requests:
            continue
        row = _head(site, name.replace("_", " "))
        row |= {"requests": traffic.requests, "lanes": traffic.lanes}
        if name in _WAVEFRONTS:
            row |= {n: getattr(traffic, n) for n in ("wavefronts", "bank_conflicts")}
        else:
            row |= {n: getattr(traffic, n) for n in _SECTOR_COLUMNS}
        if counts.atomics.requests:
            row["turns"] = counts.atomics.turns
        yield row
    if counts.divergence.lines:
        executed = counts.divergence
        yield _head(site, "line") | {
            "executed": executed.lines,
            "active_lanes": executed.active_lanes,
        }


def _head(site: LineCounts, what: str) -> Row:
    return {
        "line": site.line,
        "text": site.text,
        "function": site.function,
        "arrays": ", ".join(site.arrays),
        "what": what,
    }


def text(counters: Counters) -> str:
    """The tables for a terminal."""
    blocks = [title(counters)]
    blocks += [_aligned(heading, body) for heading, body in _tables(counters)]
    return "\n\n".join([blocks[0], *blocks[1:], "\n".join(_remarks(counters))])


def html(counters: Counters) -> str:
    """The tables for a notebook."""
    parts = [f"<p><b>{escape(title(counters))}</b></p>"]
    for heading, body in _tables(counters):
        head = "".join(f'<th style="text-align:left">{escape(cell)}</th>' for cell in heading)
        lines = "".join(f"<tr>{''.join(map(_html_cell, line))}</tr>" for line in body)
        parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>")
    parts.append(f"<p>{'<br>'.join(map(escape, _remarks(counters)))}</p>")
    return f'<div class="kernelbook-counters">{"".join(parts)}</div>'


def title(counters: Counters) -> str:
    """Kernel and launch, in one line."""
    grid, block = ("×".join(map(str, _trimmed(d))) for d in (counters.grid, counters.block))
    return f"{counters.kernel}: grid {grid}, block {block}"


def _tables(counters: Counters) -> Iterator[Table]:
    sectors = [line for name in _SECTORS if (line := _sector_line(counters, name))]
    if sectors:
        yield ("", "requests", "sectors", "per request", "ideal", "bytes moved", "useful"), sectors
    wavefronts = [line for name in _WAVEFRONTS if (line := _wavefront_line(counters, name))]
    if wavefronts:
        yield ("", "requests", "wavefronts", "per request", "bank conflicts"), wavefronts
    body = list(_line_rows(counters))
    if body:
        lanes = bool(counters.divergence.lines)
        heading = ("line", "source", "what", "requests", "cost", "ideal", "lanes")
        cut = len(heading) - (not lanes)
        yield heading[:cut], [line[:cut] for line in body]


def _sector_line(counters: Counters, name: str) -> tuple[str, ...] | None:
    traffic: Traffic = getattr(counters, name)
    if not traffic.requests:
        return None
    return (
        name.replace("_", " "),
        f"{traffic.requests:,}",
        f"{traffic.sectors:,}",
        f"{traffic.sectors_per_request:.2f}",
        f"{traffic.ideal_sectors_per_request:.2f}",
        f"{traffic.bytes_moved:,}",
        f"{traffic.efficiency:.0%}",
    )


def _wavefront_line(counters: Counters, name: str) -> tuple[str, ...] | None:
    shared: SharedTraffic = getattr(counters, name)
    if not shared.requests:
        return None
    return (
        name.replace("_", " "),
        f"{shared.requests:,}",
        f"{shared.wavefronts:,}",
        f"{shared.wavefronts_per_request:.2f}",
        f"{shared.bank_conflicts:,}",
    )


def _line_rows(counters: Counters) -> Iterator[tuple[str, ...]]:
    """For each line the kinds of access on it; number, source and lanes in the first row only."""
    for key, line in counters.lines.items():
        divergence = line.counts.divergence
        lanes = f"{divergence.active_lanes:.1f}" if divergence.lines else ""
        head = (str(key), _shortened(line.text))
        for what, requests, cost, ideal in _accesses(line.counts):
            yield (*head, what, requests, cost, ideal, lanes)
            head, lanes = ("", ""), ""
        if lanes:
            yield (*head, "", "", "", "", lanes)


def _accesses(counts: Counts) -> Iterator[tuple[str, str, str, str]]:
    for name in _SECTORS:
        traffic: Traffic = getattr(counts, name)
        if traffic.requests:
            cost = f"{traffic.sectors:,} sectors"
            yield (
                name.replace("_", " "),
                f"{traffic.requests:,}",
                cost,
                f"{traffic.ideal_sectors:,}",
            )
    for name in _WAVEFRONTS:
        shared: SharedTraffic = getattr(counts, name)
        if shared.requests:
            cost = f"{shared.wavefronts:,} wavefronts"
            ideal = f"{shared.ideal_wavefronts:,}"
            yield name.replace("_", " "), f"{shared.requests:,}", cost, ideal


def _remarks(counters: Counters) -> list[str]:
    size = counters.bytes
    found = []
    if size.moved:
        found.append(
            f"Global memory: {size.moved:,} bytes moved; {size.once:,} if each sector came once; "
            f"{size.least:,} is the least possible ({size.excess:.2f} times that)."
        )
    if counters.atomics.requests:
        found.append(
            f"Atomics: {counters.atomics.requests:,} requests, "
            f"{counters.atomics.turns_per_request:.2f} turns each; "
            f"{counters.hottest_atomic:,} operations on the most used address."
        )
    if counters.divergence.lines:
        found.append(
            f"Divergence: {counters.divergence.active_lanes:.1f} of 32 lanes active in an executed "
            f"line ({counters.warp_execution_efficiency:.0%})."
        )
    if counters.barriers:
        met = ", ".join(f"{number:,} {kind}" for kind, number in counters.barriers.items())
        found.append(f"Barriers and warp operations: {met}.")
    if not counters.complete:
        found.append("The record of this launch is not complete: it counts what was recorded.")
    found.append("Counted from the source: no caches, and a compiler may merge or drop accesses.")
    return found


def _aligned(heading: tuple[str, ...], body: list[tuple[str, ...]]) -> str:
    columns = list(zip(heading, *body, strict=True))
    widths = [max(map(len, column)) for column in columns]
    right = [all(set(cell) <= NUMBERS for cell in column[1:]) for column in columns]
    lines = []
    for row in (heading, *body):
        cells = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _html_cell(cell: str) -> str:
    side = "right" if cell and set(cell) <= NUMBERS else "left"
    return f'<td style="text-align:{side};white-space:pre">{escape(cell)}</td>'


def _shortened(line: str) -> str:
    return line if len(line) <= MOST_TEXT else f"{line[: MOST_TEXT - 1]}…"


def _trimmed(dims: tuple[int, ...]) -> tuple[int, ...]:
    while len(dims) > 1 and dims[-1] == 1:
        dims = dims[:-1]
    return dims
