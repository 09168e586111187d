"""What a launch costs, as far as a simulator can tell: counters, occupancy, pictures.

The counters are counted from the recording of one simulated launch; registers and shared memory are
the real compiler's, for sm_90. Every attribute of :class:`~kernelbook.simt.counters.Counters` is an
attribute of the profile as well, a plain number, so that a test can hand it in.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

from kernelbook import compilers
from kernelbook.errors import KernelbookError, LearnerError, SimulatorError
from kernelbook.simt import (
    bankmap,
    counters_table,
    figure,
    observed,
    occupancy,
    picture,
    player,
    sectormap,
    timeline,
)
from kernelbook.simt.argument_types import signature_of
from kernelbook.simt.counters import Counters, LineCounts, count
from kernelbook.simt.device import model
from kernelbook.simt.launch import Configured
from kernelbook.simt.occupancy import Occupancy
from kernelbook.simt.record import Recording

CANNOT_SEE = (
    "What this cannot see: time, caches, and what the compiler makes of the source. A sector that "
    "is still in L1 or L2 from an earlier request costs less than one from memory, and here it is "
    "counted again; accesses that the compiler merges, hoists out of a loop or keeps in registers "
    "are counted as they are written; whether the device waits for memory, for arithmetic or for "
    "nothing at all is not known. Occupancy is what an SM could hold, not what it held. Measure on "
    "a GPU before you believe that one kernel is faster than another."
)


@dataclass(frozen=True, repr=False)
class Profile:
    """The profile of one launch; see also the attributes of ``counters``.

    registers: a thread, shared_bytes: a block, static and dynamic, spill_bytes: a thread; the first
    and last None where the kernel could not be compiled, and then ``compiler`` says why. failure:
    the error that the launch ended with.
    """

    recording: Recording
    counters: Counters
    theoretical: Occupancy
    shared_bytes: int
    registers: int | None = None
    spill_bytes: int | None = None
    compiler: str = ""
    failure: SimulatorError | None = None

    @property
    def occupancy(self) -> float:
        """Active warps of an SM over the most it can have, 0 to 1."""
        return self.theoretical.fraction

    @property
    def limited_by(self) -> tuple[str, ...]:
        """What keeps occupancy from being higher: "threads", "registers", "shared memory", …"""
        return self.theoretical.limited_by

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return getattr(self.counters, name)
        except AttributeError:
            raise AttributeError(f"a profile has no {name!r}") from None

    def show_accesses(self, line: int | None = None) -> figure.Picture:
        """Which thread touches which element."""
        return picture.accesses(self.recording, line=line)

    def show_banks(self, line: int | None = None) -> figure.Picture:
        """The worst shared-memory request, bank by bank."""
        return bankmap.banks_of(self.recording, line=line)

    def show_sectors(self, line: int | None = None) -> figure.Picture:
        """The global-memory request that moves most in vain, sector by sector."""
        return sectormap.sectors_of(self.recording, line=line)

    def show_timeline(self) -> figure.Picture:
        """What each warp does between the barriers."""
        return timeline.time_line(self.recording)

    def play(self) -> player.Player:
        """The launch, step by step."""
        return player.play(self.recording)

    def __repr__(self) -> str:
        parts = [self._failure()] if self.failure else []
        parts += [str(self.counters), "\n".join(self._resources()), CANNOT_SEE]
        return "\n\n".join(parts)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return {"text/html": figure.page(self.to_html()), "text/plain": repr(self)}

    def to_html(self) -> str:
        """Tables and pictures; the page must hold :func:`kernelbook.simt.figure.style`."""
        wrap = "white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere"
        failure = f'<pre style="{wrap}">{escape(self._failure())}</pre>' if self.failure else ""
        resources = "<br>".join(map(escape, self._resources()))
        drawn = "".join(drawing.to_html() for drawing in self._pictures())
        return (
            f'<div class="kb-profile">{failure}{counters_table.html(self.counters)}'
            f"<p>{resources}</p>{drawn}<p><small>{escape(CANNOT_SEE)}</small></p></div>"
        )

    def _failure(self) -> str:
        return f"{type(self.failure).__name__}: {self.failure}"

    def _resources(self) -> list[str]:
        said = [
            f"Theoretical occupancy: {self.occupancy:.0%} "
            f"({self.theoretical.active_warps} of {model().warps_per_sm} warps an SM). "
            f"{self.theoretical.why}"
        ]
        if self.registers is None:
            said.append(f"Registers are not known, so they are left out: {self.compiler}")
        else:
            spills = f", {self.spill_bytes} bytes spilled" if self.spill_bytes else ""
            said.append(
                f"Compiled for sm_90: {self.registers} registers a thread{spills}; "
                f"{self.shared_bytes:,} bytes of shared memory a block."
            )
        return said

    def _pictures(self) -> list[figure.Picture]:
        """The bank map where there are conflicts, and the sectors of the costliest line."""
        drawn = []
        if self.counters.bank_conflicts:
            drawn.append(self.show_banks())
        worst = _worst_global(self.counters)
        if worst is not None:
            drawn.append(self.show_sectors(worst.line))
        if not drawn or self.failure is not None:
            drawn.append(self.show_timeline())
        return drawn


def profile(launch: Any, *args: Any) -> Profile:
    """Run ``launch`` (a ``kernel[grid, block]``) in the simulator and count what it did.

    The launch is real: its results are in the arrays afterwards. A launch that fails is counted as
    far as it came. Raises LaunchError when there is nothing to run.
    """
    configured, args = observed.prepared(launch, args)
    recording, failure = observed.run(configured, args, lines=True)
    compiled, why = _compiled(configured, args)
    registers = compiled.registers if compiled else None
    static = compiled.shared_bytes if compiled else None
    if static is None:
        static = max(_shared_by_block(recording) - configured.sharedmem, 0)
    shared = static + configured.sharedmem
    return Profile(
        recording=recording,
        counters=count(recording),
        theoretical=occupancy.theoretical(recording.threads_per_block, registers or 0, shared),
        shared_bytes=shared,
        registers=registers,
        spill_bytes=compiled.spill_bytes if compiled else None,
        compiler=why,
        failure=failure,
    )


def _compiled(
    configured: Configured, args: tuple[Any, ...]
) -> tuple[compilers.Compiled | None, str]:
    """The kernel compiled for these arguments, or the reason why not."""
    dispatcher = configured.dispatcher
    try:
        source, name = compilers.kernel_of(dispatcher)
        signature = signature_of(dispatcher.signatures, args)
        compiled = compilers.compile_kernel(source, name, signature)
    except (KernelbookError, LearnerError) as error:
        return None, str(error)
    return compiled, "" if compiled.registers is not None else "the assembler is not installed."


def _shared_by_block(recording: Recording) -> int:
    """Bytes of shared memory that the first block has allocated and touched."""
    shared = [a for a in recording.allocations if a.space == "shared"]
    first = min((a.block for a in shared), default=0)
    return sum(a.nbytes for a in shared if a.block == first)


def _worst_global(counters: Counters) -> LineCounts | None:
    """The line that moves most sectors above what it needs; else the one that moves most."""
    lines = [line for line in counters.lines.values() if line.counts.global_memory.requests]

    def cost(line: LineCounts) -> tuple[int, int]:
        traffic = line.counts.global_memory
        return traffic.sectors - traffic.ideal_sectors, traffic.sectors

    return max(lines, key=cost, default=None)
