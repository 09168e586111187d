"""A launch to step through, as one piece of HTML: source, lanes, arrays, barriers.

It is made of the steps of :mod:`kernelbook.simt.steps` and needs nothing from outside: style sheet,
script and data are in the page, so it works in a notebook, in the static book and in a saved file.
Where a front end takes scripts out, a table of the first steps remains.

Limit: a recording holds no values, so cells show who touches them, not what is in them. At most
``MOST_THREADS`` threads, ``MOST_STEPS`` steps and ``MOST_CELLS`` cells an array are shown; the
player says when that is not all. Local arrays are left out: each thread has its own.
"""

from __future__ import annotations

import ast
import hashlib
import itertools
import json
import linecache
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

from kernelbook.simt import figure, steps
from kernelbook.simt.defect import Defect, of
from kernelbook.simt.record import Kind, Recording
from kernelbook.simt.registers import WARP_SIZE
from kernelbook.simt.steps import Step

MOST_THREADS = 64
MOST_STEPS = 300
MOST_CELLS = 256
MOST_ARRAYS = 6
MOST_TABLE_ROWS = 30
WORDS = {Kind.LOAD: "read", Kind.STORE: "write", Kind.ATOMIC: "update"}
FENCES = {Kind.FENCE: "fence", Kind.FENCE_BLOCK: "fence for the block"}
_numbers = itertools.count()


@dataclass(frozen=True)
class Player:
    """What a notebook shows. said: each step in words. data: what the script draws."""

    title: str
    said: tuple[str, ...]
    data: dict[str, Any]
    remarks: tuple[str, ...]

    def to_html(self) -> str:
        """The player; the page needs :func:`kernelbook.simt.figure.style` and this module's
        style sheet and script, which :func:`page` adds."""
        text = json.dumps(self.data, separators=(",", ":")).replace("</", "<\\/")
        key = f"{hashlib.sha256(text.encode()).hexdigest()[:10]}-{next(_numbers)}"
        return (
            f'<div class="kb-player" data-kb-player="{key}" role="group" tabindex="0" '
            f'aria-label="Step through {escape(self.title, quote=True)}" '
            'data-lm-suppress-shortcuts="true">'
            f"{self._table()}"
            f'<script type="application/json" class="kb-data">{text}</script></div>'
            f"<script>{_file('player.js').replace('KEY', key)}</script>"
        )

    def to_page(self) -> str:
        """A complete HTML document: what a saved file holds."""
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(self.title)}</title>"
            "<style>:root{color-scheme:light dark}</style></head>"
            f"<body>{page(self.to_html())}</body></html>"
        )

    def __repr__(self) -> str:
        return "\n".join([f"{self.title}: {len(self.said)} steps", *self.remarks, *self.said])

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return {"text/html": page(self.to_html()), "text/plain": repr(self)}

    def _table(self) -> str:
        """The first steps as a plain table: what is left where scripts are taken out."""
        left = 'style="text-align:left"'  # notebooks set tables to the right
        rows = "".join(
            f"<tr><td>{n}</td><td {left}>{escape(said)}</td></tr>"
            for n, said in enumerate(self.said[:MOST_TABLE_ROWS], 1)
        )
        more = len(self.said) - MOST_TABLE_ROWS
        rest = f"<p>… and {more} more steps: run the cell to step through.</p>" if more > 0 else ""
        remarks = "".join(f"<p>{escape(remark)}</p>" for remark in self.remarks)
        return (
            f'<div class="kb-static"><p><b>{escape(self.title)}</b></p>{remarks}<table><thead><tr>'
            f"<th>step</th><th {left}>what happens</th></tr></thead><tbody>{rows}</tbody></table>"
            f"{rest}</div>"
        )


def page(body: str) -> str:
    """``body`` with the style sheets that players and pictures need."""
    return figure.page(f"<style>{_file('player.css')}</style>{body}")


def play(recording: Recording, *, title: str = "") -> Player:
    """The player of a launch; a launch that failed is played as far as it came."""
    defect = of(recording)
    named = [int(recording.thread[row]) for row in (defect.rows if defect else ())]
    threads = steps.warps_of(recording, MOST_THREADS, named)
    found, whole = steps.steps(recording, threads, MOST_STEPS)
    arrays, cut = _arrays(recording, found)
    said = tuple(_say(recording, step) for step in found)
    remarks = _remarks(recording, threads, found, whole, cut, defect)
    places = _places(recording, found)
    index = {thread: n for n, thread in enumerate(threads)}
    data = {
        "title": title or recording.kernel,
        "remarks": remarks,
        "finished": recording.finished and whole,
        "threads": [_thread_name(recording, thread) for thread in threads],
        "warps": _warps(recording, threads),
        "source": [{"first": first, "lines": lines} for _, first, lines in places],
        "arrays": [_array(recording, *array) for array in arrays],
        "steps": [
            {
                "says": says,
                "threads": _packed([index[thread] for thread in step.threads]),
                "meets": step.meets,
                "at": _at(recording, step, places),
                "does": _does(recording, step, index, arrays),
                "bad": _bad(recording, step, defect, index, arrays),
            }
            for step, says in zip(found, said, strict=True)
        ],
    }
    return Player(title or recording.kernel, said, data, tuple(remarks))


def _remarks(
    recording: Recording,
    threads: Sequence[int],
    found: Sequence[Step],
    whole: bool,
    cut: bool,
    defect: Defect | None,
) -> list[str]:
    x, y, z = recording.grid
    total = x * y * z * recording.threads_per_block
    remarks = []
    if defect is not None:
        remarks.append(f"{defect.title.capitalize()}: {defect.message.splitlines()[0]}")
    elif not recording.finished:
        remarks.append("The launch failed: this is how far it came.")
    if len(threads) < total:
        remarks.append(f"{len(threads)} of {total:,} threads are shown.")
    if not whole:
        remarks.append(f"The first {len(found)} steps are shown; the launch has more.")
    if cut:
        remarks.append("Not all arrays or elements are shown.")
    return remarks


def _warps(recording: Recording, threads: Sequence[int]) -> list[dict[str, Any]]:
    """Each warp's name and how many of the threads shown are its."""
    many = len({thread // recording.threads_per_block for thread in threads}) > 1
    counts: dict[tuple[int, int], int] = {}
    for thread in threads:
        block, linear = divmod(thread, recording.threads_per_block)
        key = (block, linear // WARP_SIZE)
        counts[key] = counts.get(key, 0) + 1
    return [
        {"name": f"block {block}, warp {warp}" if many else f"warp {warp}", "size": size}
        for (block, warp), size in counts.items()
    ]


def _thread_name(recording: Recording, thread: int) -> int:
    return thread % recording.threads_per_block


def _arrays(recording: Recording, found: Sequence[Step]) -> tuple[list[tuple[int, int, int]], bool]:
    """(allocation, first element, elements) of the arrays that the steps touch; whether cut."""
    touched: dict[int, list[int]] = {}
    local = False
    for step in found:
        for row in step.rows:
            number = int(recording.allocation[row])
            if number < 0:
                continue
            local |= recording.allocations[number].space == "local"
            if recording.allocations[number].space != "local":
                touched.setdefault(number, []).append(_element(recording, row))
    arrays, cut = [], local or len(touched) > MOST_ARRAYS
    for number in list(touched)[:MOST_ARRAYS]:
        memory = recording.allocations[number]
        size = memory.nbytes // memory.dtype.itemsize
        first = 0 if size <= MOST_CELLS else min(touched[number]) // 16 * 16
        shown = min(MOST_CELLS, size - first)
        cut |= shown < size
        arrays.append((number, first, shown))
    return arrays, cut


def _array(recording: Recording, number: int, first: int, shown: int) -> dict[str, Any]:
    memory = recording.allocations[number]
    size = "×".join(map(str, memory.shape))
    many = memory.block >= 0 and recording.grid != (1, 1, 1)
    whose = f", block {memory.block}" if many else ""
    columns = memory.shape[-1] if len(memory.shape) > 1 and 2 <= memory.shape[-1] <= 33 else 16
    itemsize = memory.dtype.itemsize
    labels = [
        ", ".join(map(str, memory.index_of(element * itemsize)))
        for element in range(first, first + shown, columns)
    ]
    return {
        "name": f"{memory.space} {memory.name or 'array'} [{size}]{whose}",
        "short": memory.name or "array",
        "cells": shown,
        "columns": columns,
        "labels": labels,
    }


def _does(
    recording: Recording,
    step: Step,
    index: dict[int, int],
    arrays: Sequence[tuple[int, int, int]],
) -> list[list[Any]]:
    """[kind, array, threads, cells] for each access of the line; cells as far as they are shown."""
    groups: dict[tuple[int, int], list[tuple[int, int]]] = {}
    shown = {number: (n, first, count) for n, (number, first, count) in enumerate(arrays)}
    for row in step.rows:
        number = int(recording.allocation[row])
        place = shown.get(number)
        cell = _element(recording, row) - place[1] if place else -1
        array = place[0] if place and 0 <= cell < place[2] else -1
        thread = index[int(recording.thread[row])]
        key = (int(recording.kind[row]), array)
        groups.setdefault(key, []).append((thread, cell if array >= 0 else -1))
    return [
        [kind, array, _packed([t for t, _ in pairs]), _packed([c for _, c in pairs])]
        for (kind, array), pairs in groups.items()
    ]


def _bad(
    recording: Recording,
    step: Step,
    defect: Defect | None,
    index: dict[int, int],
    arrays: Sequence[tuple[int, int, int]],
) -> list[list[int]]:
    """[thread, array, cell] of each access of this step that the error names."""
    shown = {number: (n, first, count) for n, (number, first, count) in enumerate(arrays)}
    marks = []
    for row in set(defect.rows if defect else ()) & set(step.rows):
        place = shown.get(int(recording.allocation[row]))
        cell = _element(recording, row) - place[1] if place else -1
        inside = place is not None and 0 <= cell < place[2]
        marks.append(
            [
                index[int(recording.thread[row])],
                *((place[0], cell) if place and inside else (-1, -1)),
            ]
        )
    return marks


def _element(recording: Recording, row: int) -> int:
    memory = recording.allocations[recording.allocation[row]]
    return (int(recording.address[row]) - memory.address) // memory.dtype.itemsize


def _packed(numbers: Sequence[int]) -> list[int] | dict[str, int]:
    """An arithmetic sequence as start, step and count: most are one, and the page stays small."""
    apart = {b - a for a, b in pairwise(numbers)}
    if len(numbers) > 3 and len(apart) == 1:
        return {"from": numbers[0], "by": apart.pop(), "n": len(numbers)}
    return list(numbers)


def _say(recording: Recording, step: Step) -> str:
    per_block = recording.threads_per_block
    if step.meets:
        blocks = sorted({thread // per_block for thread in step.threads})
        who = _ranges(
            [thread % per_block for thread in step.threads if thread // per_block == blocks[0]]
        )
        if step.meets == "grid":
            return "The whole grid meets: all that was written before is seen by all after."
        if step.meets.startswith("syncthreads"):
            return f"{step.meets}: threads {who} have met. What they wrote before, all see after."
        orders = step.meets == "syncwarp"
        means = "what they wrote before, they all see after" if orders else "it orders no memory"
        return f"{step.meets}: threads {who} have met; {means}."
    one = recording.grid == (1, 1, 1)
    lanes = [thread % per_block % WARP_SIZE for thread in step.threads]
    warp = f"warp {step.warp}" if one else f"block {step.block}, warp {step.warp}"
    plural = "lane" if len(lanes) == 1 else "lanes"
    site = recording.sites[step.site]
    inside = "" if site.function == recording.kernel else f" of {site.function}"
    head = f"{warp.capitalize()}, {plural} {_ranges(lanes)}, line {site.line}{inside}"
    done = _accesses(recording, step)
    return f"{head}: {'; '.join(done)}." if done else f"{head}: {site.text}"


def _accesses(recording: Recording, step: Step) -> list[str]:
    groups: dict[tuple[int, int], list[int]] = {}
    for row in step.rows:
        kind, number = int(recording.kind[row]), int(recording.allocation[row])
        groups.setdefault((kind, number), []).append(row)
    said = []
    for (kind, number), rows in groups.items():
        if number < 0:
            said.append(FENCES.get(Kind(kind), "fence"))
            continue
        memory = recording.allocations[number]
        elements = sorted({_element(recording, row) for row in rows})
        if len(memory.shape) == 1 or len(elements) > 1:
            where = f"{memory.name or 'array'}[{_ranges(elements)}]"
        else:
            where = recording.element(rows[0])
        if len(memory.shape) > 1 and len(elements) > 1:
            where = f"{recording.element(rows[0])} … {recording.element(rows[-1])}"
        said.append(f"{WORDS[Kind(kind)]} {where}")
    return said


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers in short: ``3``, ``0–15``, ``0, 2 … 14``, ``1, 2, 5``."""
    apart = {b - a for a, b in pairwise(numbers)}
    if len(numbers) > 2 and len(apart) == 1:
        (by,) = apart
        if by == 1:
            return f"{numbers[0]}–{numbers[-1]}"
        return f"{numbers[0]}, {numbers[1]} … {numbers[-1]}"
    if len(numbers) <= 6:
        return ", ".join(map(str, numbers))
    return f"{', '.join(map(str, numbers[:3]))} … {numbers[-1]} ({len(numbers)})"


def _places(recording: Recording, found: Sequence[Step]) -> list[tuple[str, int, list[str]]]:
    """(file, first line, lines) of each function that the steps pass through, kernel first."""
    spans: dict[tuple[str, int], list[str]] = {}
    for site in dict.fromkeys(step.site for step in found if step.site >= 0):
        at = recording.sites[site]
        first, last = _span(at.file, at.line)
        if any(f == at.file and n <= at.line < n + len(ls) for (f, n), ls in spans.items()):
            continue
        lines = linecache.getlines(at.file)[first - 1 : last]
        spans[at.file, first] = [line.rstrip("\n") for line in lines] or [at.text]
    return [(file, first, _dedented(lines)) for (file, first), lines in spans.items()]


def _span(file: str, line: int) -> tuple[int, int]:
    """First and last line of the outermost function around ``line``; itself where unknown."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return line, line
    found = (line, line)
    width = -1
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            last = node.end_lineno or node.lineno
            if first <= line <= last and (width < 0 or last - first < width):
                found, width = (first, last), last - first
    return found


def _dedented(lines: list[str]) -> list[str]:
    margin = min((len(s) - len(s.lstrip()) for s in lines if s.strip()), default=0)
    return [line[margin:] for line in lines]


def _at(
    recording: Recording, step: Step, places: Sequence[tuple[str, int, list[str]]]
) -> list[int]:
    """[place, line] of a step; [] for a meeting."""
    if step.site < 0:
        return []
    site = recording.sites[step.site]
    for number, (file, first, lines) in enumerate(places):
        if file == site.file and first <= site.line < first + len(lines):
            return [number, site.line]
    return []


@lru_cache
def _file(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")
