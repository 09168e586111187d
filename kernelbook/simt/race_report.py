"""What is said of a race: who, where, why nothing orders the two accesses, and what to do.

The reader is the subject where one of the two reads, else the plain access where the other is an
atomic, else the later one. Advice is one sentence, chosen by the first case that fits.

Limit: advice is read off the two accesses and what their threads did around them. It names the
usual mend, which need not be the author's intent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernelbook.simt.errors import RaceError, Where, quoted
from kernelbook.simt.happens_before import Meeting
from kernelbook.simt.races import is_block_barrier
from kernelbook.simt.record import Kind, Recording, Site, Sync
from kernelbook.simt.registers import WARP_SIZE
from kernelbook.simt.touches import Touches

_VERBS = {Kind.LOAD: "reads {}", Kind.STORE: "writes {}", Kind.ATOMIC: "changes {} by an atomic"}
_NOUNS = {Kind.LOAD: "load", Kind.STORE: "store", Kind.ATOMIC: "atomic"}
_BARRIER = "cuda.syncthreads()"
_AMONG_THEMSELVES = "Atomics are ordered only among themselves: "
# Which atomic does what a statement does, by what stands in it; else add.
_ATOMICS = (("-=", "sub"), ("|=", "or_"), ("&=", "and_"), ("^=", "xor"), ("max(", "max"),
            ("min(", "min"), (">", "max"), ("<", "min"))  # fmt: skip


def race_error(
    recording: Recording, touches: Touches, meeting: Meeting, seen: Sequence[Meeting]
) -> RaceError:
    """The error for a meeting. seen: the launch's meetings, as far as they were looked for."""
    race = _Race(recording, touches, meeting, seen)
    where, other = recording.where(race.subject), recording.where(race.other)
    more = race.more
    what = _VERBS[race.kind(race.subject)].format(race.element)
    what += f", which {_which(race, where, other)}, {_why(race)}"
    if more:
        what += f" (likewise {more} more element{'s' if more > 1 else ''})"
    lines = {where.line: where.text, other.line: other.text}
    return RaceError(
        quoted(where, what, _advice(race), lines),
        first=race.first,
        second=race.second,
        element=race.element,
        more=more,
    )


@dataclass(frozen=True, eq=False)
class _Race:
    """A meeting with what is asked about it."""

    recording: Recording
    touches: Touches
    meeting: Meeting
    seen: Sequence[Meeting]

    @property
    def first(self) -> int:
        return self.meeting.others[0]

    @property
    def second(self) -> int:
        return self.meeting.row

    @cached_property
    def subject(self) -> int:
        for kind in (Kind.LOAD, Kind.STORE):
            rows = [row for row in (self.first, self.second) if self.kind(row) is kind]
            if len(rows) == 1:
                return rows[0]
        return self.second

    @property
    def other(self) -> int:
        return self.first + self.second - self.subject

    @property
    def kinds(self) -> set[Kind]:
        return {self.kind(self.first), self.kind(self.second)}

    @cached_property
    def element(self) -> str:
        # Where the widths differ, the narrower access lies within the element.
        rows = (self.second, self.first)
        return self.recording.element(min(rows, key=lambda row: int(self.recording.width[row])))

    @cached_property
    def more(self) -> int:
        """How many other elements the same two sites were seen to race on."""
        places = self.places(self.meeting)
        return len(
            {m.element for m in self.seen if self.places(m) == places} - {self.meeting.element}
        )

    @property
    def same_line(self) -> bool:
        return self.line(self.first) == self.line(self.second)

    @property
    def same_block(self) -> bool:
        return self.block(self.first) == self.block(self.second)

    @cached_property
    def within_block(self) -> bool:
        """Whether threads of one block alone touch the element."""
        threads = self.touches.thread[self.touches.element == self.meeting.element]
        return len(np.unique(threads // self.recording.threads_per_block)) == 1

    @property
    def crosses_blocks(self) -> bool:
        """Whether the same two sites were seen to race between blocks too, on other elements."""
        places = self.places(self.meeting)
        alike = (m for m in self.seen if self.places(m) == places)
        return any(self.block(m.row) != self.block(row) for m in alike for row in m.others)

    @property
    def within_warps(self) -> bool:
        """Whether all meetings are between lanes of one warp, so that a syncwarp will do."""
        pairs = [self.meeting, *self.seen]
        return all(self.warp(m.row) == self.warp(row) for m in pairs for row in m.others)

    def places(self, meeting: Meeting) -> set[int]:
        """The two sites that meet."""
        return {int(self.recording.site[row]) for row in (meeting.row, meeting.others[0])}

    def kind(self, row: int) -> Kind:
        return Kind(self.recording.kind[row])

    def site(self, row: int) -> Site:
        return self.recording.sites[self.recording.site[row]]

    def line(self, row: int) -> tuple[str, int]:
        return self.site(row).file, self.site(row).line

    def thread(self, row: int) -> int:
        return int(self.recording.thread[row])

    def block(self, row: int) -> int:
        return self.thread(row) // self.recording.threads_per_block

    def linear(self, row: int) -> int:
        return self.thread(row) % self.recording.threads_per_block

    def warp(self, row: int) -> tuple[int, int]:
        return self.block(row), self.linear(row) // WARP_SIZE

    def rows_of(self, kind: Kind, thread: int | None = None) -> list[int]:
        """Rows of that kind on the element, in order; of one thread, if given."""
        touches = self.touches
        chosen = (touches.element == self.meeting.element) & (touches.kind == kind)
        if thread is not None:
            chosen &= touches.thread == thread
        return touches.row[chosen].tolist()

    def between(self) -> list[Sync]:
        """Syncs between the two that concern their block, the two being of one."""
        return [
            sync
            for sync in self.recording.syncs
            if self.first < sync.position <= self.second and sync.block == self.block(self.first)
        ]


def _which(race: _Race, where: Where, other: Where) -> str:
    who = f"thread {other.thread}"
    if other.block != where.block:
        who = f"block {other.block}, thread {other.thread}"
    verb = _VERBS[race.kind(race.other)].replace(" {}", "")
    if race.kinds == {Kind.STORE}:
        verb += " too"
    line = "the same line" if race.same_line else f"line {other.line}"
    function = race.site(race.other).function
    if function != race.recording.kernel and not race.same_line:
        line += f" of {function}"
    return f"{who} {verb} on {line}"


def _why(race: _Race) -> str:
    """The clause that says why the two are not ordered."""
    if not race.same_block:
        return "with nothing to order the two blocks"
    if _left_before_barrier(race):
        return "but leaves before the barrier, which orders only threads that reach it"
    for sync in reversed(race.between()):
        named = {race.linear(race.first), race.linear(race.second)} & set(sync.threads)
        if sync.kind == "syncwarp" and len(named) == 1:
            return "with only a syncwarp between, which does not name both"
        if sync.kind != "syncwarp" and len(named) == 2:
            return f"with only {sync.kind} between, which orders no memory"
    if race.warp(race.first) == race.warp(race.second):
        return "with no barrier between (lanes of a warp run in any order)"
    return "with no barrier between"


def _left_before_barrier(race: _Race) -> bool:
    return race.same_block and any(
        is_block_barrier(sync.kind) and race.linear(race.first) not in sync.threads
        for sync in race.between()
    )


def _advice(race: _Race) -> str:
    if Kind.ATOMIC in race.kinds:
        return _beside_atomic(race)
    message = "" if race.same_block else _message(race)
    if message:
        return message
    if _is_lost_update(race):
        return f"A load and a store are not one step: use {_atomic_for(race)}."
    if race.kinds == {Kind.STORE}:
        return _two_stores(race)
    if not race.within_block:
        return _between_blocks(race)
    if _left_before_barrier(race):
        return "Let the thread return after the barrier."
    between = f"ut {_BARRIER} between"
    if race.within_warps:
        between = f"ut cuda.syncwarp() or {_BARRIER} between"
    if not race.same_line:
        upper, lower = sorted((race.first, race.second), key=race.line)
        if _in_a_later_turn(race, upper, lower):
            before, again = race.site(lower).line, race.site(upper).line
            return f"P{between[:-8]} after line {before}, before line {again} runs again."
        return f"P{between} the two lines."
    if race.crosses_blocks:  # elsewhere on these lines, so a barrier would mend this element only
        return _between_blocks(race)
    if _same_turn(race):
        return f"Read into a variable first: p{between} the read and the write."
    return f"P{between} one turn of the loop and the next."


def _beside_atomic(race: _Race) -> str:
    plain = race.subject
    own = race.rows_of(Kind.ATOMIC, race.thread(plain))
    if race.kind(plain) is Kind.LOAD:
        if any(row < plain and not race.site(row).result_used for row in own) and _is_ticket(race):
            return "Use the value that the atomic returns: others change it in between."
        if any(row > plain for row in own) or race.same_line:
            return f"{_AMONG_THEMSELVES}let the atomic alone read and change it."
    if race.within_block:
        return f"{_AMONG_THEMSELVES}put {_BARRIER} between the two lines."
    if race.kind(plain) is Kind.LOAD:
        return f"{_AMONG_THEMSELVES}read it in a later launch, or by an atomic too."
    return f"{_AMONG_THEMSELVES}write it in an earlier launch, or by cuda.atomic.exch."


def _is_ticket(race: _Race) -> bool:
    """Whether most threads that change the element read it back, rather than one for all."""
    changing = {race.thread(row) for row in race.rows_of(Kind.ATOMIC)}
    reading = {race.thread(row) for row in race.rows_of(Kind.LOAD)}
    return 2 * len(changing & reading) > len(changing)


def _is_lost_update(race: _Race) -> bool:
    """Whether writer and reader both load the element, change the value and store it back."""
    if race.kinds != {Kind.LOAD, Kind.STORE}:
        return False
    read, write = race.line(race.subject), race.line(race.other)
    reader, writer = race.thread(race.subject), race.thread(race.other)
    loads = race.rows_of(Kind.LOAD, writer)
    if not any(row < race.other and race.line(row) == read for row in loads):
        return False
    recording = race.recording
    stores = np.flatnonzero((recording.thread == reader) & (recording.kind == Kind.STORE))
    there = {row for row in stores.tolist() if race.line(row) == write}
    if not there:  # only tested, and not stored: if x[i] > best[0]: best[0] = x[i]
        return race.site(race.subject).text.startswith("if ")
    return not there.isdisjoint(race.rows_of(Kind.STORE, reader))


def _atomic_for(race: _Race) -> str:
    text = race.site(race.subject).text.split("#")[0]
    if not race.same_line:
        text += race.site(race.other).text.split("#")[0]
    name = next((name for mark, name in _ATOMICS if mark in text), "add")
    array, index = race.element.rstrip("]").split("[", 1)
    index = f"({index})" if "," in index else index
    return f"cuda.atomic.{name}({array}, {index}, …)"


def _in_a_later_turn(race: _Race, upper: int, lower: int) -> bool:
    """Whether the access on the upper line belongs to a later turn, or call, than the other.

    Told by how often the two threads had been at each other's line; a line that one of them never
    reaches tells nothing.
    """
    passed = _times(race, upper, at=lower)
    if passed >= _times(race, lower, at=lower):
        return True
    reached = _times(race, lower, at=upper)
    return 0 < reached < _times(race, upper, at=upper)


def _times(race: _Race, row: int, *, at: int) -> int:
    """How often the thread of ``row`` had made the access of the row ``at``, up to its own."""
    mine = race.recording.thread[: row + 1] == race.thread(row)
    return int((mine & (race.recording.site[: row + 1] == race.recording.site[at])).sum())


def _same_turn(race: _Race) -> bool:
    """Whether both threads have made their access equally often."""
    return _times(race, race.first, at=race.first) == _times(race, race.second, at=race.second)


def _two_stores(race: _Race) -> str:
    if race.same_line:
        writer = "Let one thread write it"
        if race.more:
            which = "does the index differ from thread to thread?"
            if not race.same_block:
                which = "do index and stride count all blocks, as cuda.grid and cuda.gridsize do?"
            writer = f"Let each element have one writer ({which})"
        return f"{writer}, or combine the values with an atomic."
    if race.within_block:
        return f"Let each element have one writer, or put {_BARRIER} between the two lines."
    return "Let each element have one writer, or write it in two launches."


def _between_blocks(race: _Race) -> str:
    # Who reads first and stores later works in place; who stores first wants others' results.
    touches, subject = race.touches, race.subject
    own = touches.allocation == race.recording.allocation[subject]
    own &= (touches.thread == race.thread(subject)) & (touches.kind == Kind.STORE)
    if race.same_line or (own.any() and touches.row[own][0] > subject):
        return "Write to another array than you read, or split the work into two launches."
    return (
        "Split the work into two launches, or pass the value on: store, cuda.threadfence(), atomic "
        "by the one; atomic, cuda.threadfence(), load by the other."
    )


def _message(race: _Race) -> str:
    """What a message from the first thread to the second lacks; "" when there is none.

    A message: an atomic by the first's block after its access, and on the same element a later one
    by the second's block before its access, whose result is used.
    """
    touches, size = race.touches, race.recording.threads_per_block
    between = (touches.row > race.first) & (touches.row < race.second)
    atomics = np.flatnonzero(between & (touches.kind == Kind.ATOMIC))[::-1]
    block = touches.thread[atomics] // size
    sent: dict[int, int] = {}
    for number in atomics[block == race.block(race.first)]:
        sent[int(touches.element[number])] = int(touches.row[number])
    for number in atomics[block == race.block(race.second)]:
        element, got = int(touches.element[number]), int(touches.row[number])
        if sent.get(element, got) < got and race.site(got).result_used:
            return _missing_fences(race, sent[element], got)
    return ""


def _missing_fences(race: _Race, sent: int, got: int) -> str:
    released = _fences_between(race, race.first, sent)
    acquired = _fences_between(race, got, race.second)
    if released and acquired:
        if Kind.FENCE in released & acquired:
            return ""
        return "cuda.threadfence_block() orders within one block only: use cuda.threadfence()."
    places = []
    if not released:
        one = _NOUNS[race.kind(race.first)]
        places.append(f"between the {one} and the atomic on line {race.site(sent).line}")
    if not acquired:
        two = _NOUNS[race.kind(race.second)]
        places.append(f"between the atomic on line {race.site(got).line} and the {two}")
    return f"Put cuda.threadfence() {' and '.join(places)}."


def _fences_between(race: _Race, begin: int, end: int) -> set[Kind]:
    """Kinds of the fences that one of the two rows' threads made between them."""
    kind, thread = race.recording.kind[begin:end], race.recording.thread[begin:end]
    fence = (kind == Kind.FENCE) | (kind == Kind.FENCE_BLOCK)
    fence &= (thread == race.thread(begin)) | (thread == race.thread(end))
    return {Kind(k) for k in kind[fence]}
