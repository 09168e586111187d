"""The order between host code and the device: who waits for whom, and who reads too early.

Launches and copies on a stream return before they are done. While diagnosis is on, each is kept
with the bytes that it reads and writes until the host has waited for it. A later launch or copy
that touches such bytes without being ordered after it, or host code that does, is a
:class:`HostOrderError`. A copy into pinned memory arrives, in the simulator, only with the
synchronisation: until then the array holds poison, however it is read.

Copies between the device and pageable host memory are staged by the driver. One to the device
returns when the source may be changed; one from the device returns when it has arrived. CUDA 11
promised the latter, CUDA 13 says only that it "might be synchronous": neither is reported here.
Source: CUDA driver API, "API synchronization behavior"; numba-cuda 0.30.4, ``args.py``.

Limits: host code is seen at arrays from ``cuda.mapped_array``, ``managed_array`` and
``pinned_array`` (not through ``np.asarray`` of one, nor at an array mapped by ``cuda.mapped``);
``Event.query`` and a callback count as waiting; a launch with a truncated recording is judged by
what was recorded.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernelbook import poison
from kernelbook.simt import seam
from kernelbook.simt.clocks import LEGACY, Clock, Clocks, Mark
from kernelbook.simt.errors import HostOrderError
from kernelbook.simt.host_code import Place, here, name_of, stream_name
from kernelbook.simt.memory_map import root_of
from kernelbook.simt.record import Kind, Recording
from kernelbook.simt.spans import Region, Span, first_meeting, touched, whole

Data = np.ndarray[Any, Any]


@dataclass
class Work:
    """A launch or copy that the host has not waited for.

    what: "scale" for a launch, "the copy from x" for a copy. deliver: brings a copy's values to the
    host. source: a host array that is being copied, and its values when the copy was asked for.
    """

    what: str
    stream: str
    place: Place
    mark: Mark
    reads: list[Span] = field(default_factory=list)
    writes: list[Span] = field(default_factory=list)
    deliver: Callable[[], object] | None = None
    source: tuple[Data, Data] | None = None


_clocks = Clocks()
_outstanding: list[Work] = []
_host_visible: dict[int, tuple[weakref.ref[Data], str]] = {}  # by the root's id


def register(array: Data, kind: str) -> None:
    """Host memory that the device reaches: ``kind`` is "pinned", "mapped" or "managed"."""
    root = root_of(array)
    key = id(root)
    _host_visible[key] = (weakref.ref(root, lambda _: _host_visible.pop(key, None)), kind)


def unregister(array: Data) -> None:
    """Ordinary host memory again."""
    _host_visible.pop(id(root_of(array)), None)


def kind_of(array: Data) -> str:
    """ "pinned", "mapped", "managed", or "pageable" for ordinary memory."""
    found = _host_visible.get(id(root_of(array))) if _host_visible else None
    return found[1] if found else "pageable"


def launched(kernel: str, stream: Any, recording: Recording, regions: Iterable[Region]) -> None:
    """A diagnosed launch has run: ``regions``, by the numbers of the recording's allocations.

    Raises HostOrderError when it touched what earlier work, not ordered before it, may still touch.
    """
    number = number_of(stream)
    known = list(regions)
    if number == LEGACY and not any(kind_of(region.root) != "pageable" for region in known):
        _clocks.submit(number)  # it waits for all, all wait for it, and the host can't see it
        return
    reads, writes = touched(recording, known, Kind.STORE), touched(recording, known, Kind.LOAD)
    _submit(kernel, stream, reads, writes)


def copied_in(source: Data, memory: Data, stream: Any) -> None:
    """Host memory has been copied to the device, on ``stream``; 0 is the synchronous call.

    Raises HostOrderError when earlier work, not ordered before it, may still use the memory.
    """
    number = number_of(stream)
    if not stream:
        _wait_for_default_stream()
    elif not seam.settings.diagnosing:
        _clocks.submit(number)
    else:
        pinned = kind_of(source) != "pageable"
        name = name_of(source) or "a host array"
        reads = [whole(source, name)] if pinned else []
        writes = [whole(memory, name_of(memory) or f"the device's copy of {name}")]
        work = _submit(f"the copy of {name}", stream, reads, writes)
        if pinned:
            work.source = source, np.array(source, subok=False)


def copied_out(memory: Data, target: Data, stream: Any) -> None:
    """Copy device memory to host memory on ``stream``; 0 is the synchronous call.

    On a stream, into pinned memory, the values arrive with the synchronisation. Raises
    HostOrderError when earlier work, not ordered before it, may still write what is copied.
    """
    plain = target.view(np.ndarray)
    number = number_of(stream)
    if not stream:
        np.copyto(plain, memory)
        _wait_for_default_stream()
        return
    if not seam.settings.diagnosing:
        _clocks.submit(number)
        np.copyto(plain, memory)
        return
    name = name_of(target)
    what = f"the copy to {name}" if name else "the copy to the host"
    reads = [whole(memory, name_of(memory) or "the device array")]
    kind = kind_of(target)
    if kind == "pageable":
        _submit(what, stream, reads, [])
        np.copyto(plain, memory)
        _wait(_clocks.record(number))
        return
    writes = [whole(target, name or f"the {kind} array")]
    _require_unchanged(writes)
    work = _submit(what, stream, reads, writes)
    if kind == "pinned":
        values = memory.copy(order="K")
        plain[...] = poison.element(plain.dtype)[0]
        work.deliver = lambda: np.copyto(plain, values)
    else:  # a kernel may use mapped memory in place, in stream order
        np.copyto(plain, memory)


def outstanding() -> bool:
    """Whether there is work that the host has not waited for."""
    return bool(_outstanding)


def copied_on_device(source: Data, target: Data, stream: Any) -> None:
    """Device memory has been copied to device memory, on ``stream``."""
    if seam.settings.diagnosing and number_of(stream) != LEGACY:
        reads = [whole(source, name_of(source) or "the source")]
        writes = [whole(target, name_of(target) or "the target")]
        _submit("a copy on the device", stream, reads, writes)
    else:
        _clocks.submit(number_of(stream))


def before_reading(array: Data) -> None:
    """Work on the device is about to read host memory: what is on the way there arrives."""
    if not _outstanding:
        return
    span = whole(array, "")
    for work in _outstanding:
        if work.deliver is not None and any(span.meets(write) for write in work.writes):
            work.deliver()
            work.deliver = None


def host_reads(array: Data, part: Data | None = None) -> None:
    """Host code is about to read ``array``, or only ``part`` of it.

    Raises HostOrderError when work that the host has not waited for may be writing there.
    """
    if _outstanding:
        _require_done(array, array if part is None else part, "reads")


def host_writes(array: Data, part: Data | None = None) -> None:
    """Host code is about to write ``array``, or only ``part`` of it.

    Raises HostOrderError when work that the host has not waited for may read or write there.
    """
    if _outstanding:
        _require_done(array, array if part is None else part, "overwrites")


def synchronize() -> None:
    """The host waits for the device: ``cuda.synchronize()``."""
    _clocks.host_waits_for_all()
    _finish()


def synchronize_stream(stream: Any) -> None:
    """The host waits for all work of ``stream``."""
    _wait(_clocks.record(number_of(stream)))


def record(stream: Any) -> Clock:
    """What an event that is recorded in ``stream`` now stands for."""
    return _clocks.record(number_of(stream))


def stream_waits(stream: Any, clock: Clock) -> None:
    """Later work of ``stream`` waits for an event."""
    _clocks.wait(number_of(stream), clock)


def event_waited(clock: Clock) -> None:
    """The host has waited for an event."""
    _wait(clock)


def number_of(stream: Any) -> int:
    """The number of a stream; 0 for the legacy default stream and for no stream."""
    return getattr(stream, "number", LEGACY) if stream else LEGACY


def forget() -> None:
    """Begin anew: no work is outstanding. For tests, and after a failed run."""
    global _clocks
    _clocks = Clocks()
    _outstanding.clear()


def _wait_for_default_stream() -> None:
    """A synchronous copy has been made: it waits for all streams, and the host for it."""
    if _outstanding:  # else the host has nothing to learn
        _wait(_clocks.record(LEGACY))


def _wait(clock: Clock) -> None:
    _clocks.host_waits(clock)
    _finish()


def _finish() -> None:
    """Let go of the work that the host has waited for; copies arrive, sources must be unchanged."""
    if not _outstanding:
        return
    done = [work for work in _outstanding if _clocks.host_follows(work.mark)]
    _outstanding[:] = [work for work in _outstanding if not _clocks.host_follows(work.mark)]
    changed = None
    for work in done:
        changed = changed or (None if _unchanged(work) else work)
        if work.deliver is not None:
            work.deliver()
    if changed is not None:
        raise _overwritten(changed)


def _submit(what: str, stream: Any, reads: list[Span], writes: list[Span]) -> Work:
    """New work, held against what is outstanding. Raises HostOrderError."""
    mark = _clocks.submit(number_of(stream))
    work = Work(what, stream_name(stream, number_of(stream)), here(), mark, reads, writes)
    for old in _outstanding:
        if mark.follows(old.mark):
            continue
        if met := first_meeting(old.writes, reads):
            raise _unordered(work, old, met.name, "reads", "writing")
        if met := first_meeting(old.writes, writes):
            raise _unordered(work, old, met.name, "writes", "writing")
        if met := first_meeting(old.reads, writes):
            raise _unordered(work, old, met.name, "writes", "reading")
    _outstanding[:] = [old for old in _outstanding if not _repeats(work, old)]
    _outstanding.append(work)
    return work


def _repeats(new: Work, old: Work) -> bool:
    """Whether whoever waits for ``new`` need no longer remember ``old``: the same, once more."""
    if new.mark.stream != old.mark.stream or old.deliver is not None or old.source is not None:
        return False
    return _same(new.reads, old.reads) and _same(new.writes, old.writes)


def _same(one: list[Span], other: list[Span]) -> bool:
    return len(one) == len(other) and all(
        a.root() is b.root() and np.array_equal(a.runs, b.runs)
        for a, b in zip(one, other, strict=True)
    )


def _require_done(array: Data, part: Data, verb: str) -> None:
    span = whole(part, "")
    for work in _outstanding:
        if _clocks.host_follows(work.mark):
            continue
        writing = any(span.meets(write) for write in work.writes)
        if writing or (verb != "reads" and any(span.meets(read) for read in work.reads)):
            raise _too_early(array, work, verb, "writing" if writing else "reading")


def _require_unchanged(writes: list[Span]) -> None:
    """Sources that are about to be written by the device: the last chance to compare them."""
    for work in _outstanding:
        if work.source is not None and first_meeting(work.reads, writes):
            if not _unchanged(work):
                raise _overwritten(work)
            work.source = None


def _unchanged(work: Work) -> bool:
    if work.source is None:
        return True
    now, then = work.source
    plain = np.ascontiguousarray(now.view(np.ndarray))
    return plain.tobytes() == then.tobytes()


def _too_early(array: Data, work: Work, verb: str, doing: str) -> HostOrderError:
    place = here()
    name = name_of(array) or f"the {kind_of(array)} array"
    return HostOrderError(
        f"line {place.line}: the host {verb} {name} while {work.what} ({_asked(work)}) may still "
        f"be {doing} it: the call on line {work.place.line} returns before the device has done "
        f"its work. Call {_wait_call(work)} before line {place.line}."
        f"{place.quote()}{work.place.quote()}"
    )


def _unordered(new: Work, old: Work, name: str, verb: str, doing: str) -> HostOrderError:
    return HostOrderError(
        f"line {new.place.line}: {new.what} ({new.stream}) {verb} {name} while {old.what} "
        f"({_asked(old)}) may still be {doing} it: streams run side by side. Record an event "
        f"after line {old.place.line} and let the other stream wait for it, or call "
        f"{_wait_call(old)} between.{new.place.quote()}{old.place.quote()}"
    )


def _overwritten(work: Work) -> HostOrderError:
    return HostOrderError(
        f"line {work.place.line}: the source of {work.what} ({work.stream}) was overwritten by the "
        "host before the copy was waited for: the device may get the new values. Call "
        f"{_wait_call(work)} before you change it.{work.place.quote()}"
    )


def _asked(work: Work) -> str:
    return f"line {work.place.line}, {work.stream}"


def _wait_call(work: Work) -> str:
    if work.stream.startswith("stream ") and work.stream[7:].isidentifier():
        return f"{work.stream[7:]}.synchronize()"
    return "cuda.synchronize()"
