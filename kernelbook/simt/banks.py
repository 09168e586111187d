"""What a warp request costs in shared memory: wavefronts over 32 banks of 4 bytes.

In one wavefront every bank gives, or takes, one 4-byte word; lanes that want the same word share
it, but an atomic takes one lane at a time. An access of 8 bytes is made for half a warp at a time,
one of 16 bytes for a quarter. A load of such a width takes twice as many lanes at a time if lanes
n and n ^ 1, or n and n ^ 2, want the same address in the whole warp (a lane that takes no part
agrees with any). A request needs as many wavefronts as its busiest bank has words; those above
one for each part of the warp are bank conflicts.

Source: CUDA C++ programming guide, shared memory; the split, the pairs and the atomics as ncu
counts them for the 368 probes of ``benchmarks/counters.py`` (H200).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelbook.simt.coalescing import WORD, counting
from kernelbook.simt.record import Kind
from kernelbook.simt.registers import WARP_SIZE
from kernelbook.simt.requests import Ints, starts

BANKS = 32


@dataclass(frozen=True, eq=False)
class Wavefronts:
    """For each request: ``used`` wavefronts, and ``ideal``: those without a bank conflict."""

    used: Ints
    ideal: Ints


def wavefronts(
    request: Ints, lane: Ints, address: Ints, width: Ints, requests: int, kind: Kind = Kind.STORE
) -> Wavefronts:
    """Wavefronts of accesses at ``address`` of ``width`` bytes; ``request`` says whose they are.

    address: only differences matter, as long as each array begins at bank 0. kind: of all of them.
    """
    if not len(request):
        nothing = np.zeros(requests, np.int64)
        return Wavefronts(nothing, nothing)
    parts = np.clip(-(-width // WORD), 1, 4)  # of a warp: whole, halves, quarters
    if kind is Kind.LOAD and int(parts.max()) > 1:
        paired = _paired(request, lane, address, requests)[request]
        parts = np.where(paired & (parts > 1), parts // 2, parts)
    part = request * 4 + lane // (WARP_SIZE // parts)

    words = (address + width - 1) // WORD - address // WORD + 1
    of_row = np.repeat(np.arange(len(address)), words)
    word = address[of_row] // WORD + counting(words)
    place = part[of_row] * BANKS + word % BANKS
    place = np.sort(place) if kind is Kind.ATOMIC else _places_of_distinct(place, word // BANKS)

    begin = starts(place)  # of each bank of each part of a request
    depth = np.diff(np.append(begin, len(place)))
    part = place[begin] // BANKS
    begin = starts(part)
    deepest = np.maximum.reduceat(depth, begin)
    owner = part[begin] // 4
    used = np.bincount(owner, deepest, requests).astype(np.int64)
    return Wavefronts(used, np.bincount(owner, minlength=requests))


def _paired(request: Ints, lane: Ints, address: Ints, requests: int) -> NDArray[np.bool_]:
    """For each request, whether all lanes agree with their neighbours, or all with the next but
    one.
    """
    wanted = np.full((requests, WARP_SIZE), -1, np.int64)
    wanted[request, lane] = address
    paired = np.zeros(requests, np.bool_)
    for step in (1, 2):
        other = wanted[:, np.arange(WARP_SIZE) ^ step]
        paired |= ((wanted == other) | (wanted < 0) | (other < 0)).all(axis=1)
    return paired


def _places_of_distinct(place: Ints, word: Ints) -> Ints:
    """The sorted places, one for each different word at it."""
    span = int(word.max()) + 1
    return np.unique(place * span + word) // span
