"""An observer that keeps every access of a launch as rows: the data behind a picture."""

from __future__ import annotations

from kernelbook.simt.seam import Access, Triple


class Trace:
    """Rows of the last launch observed. Cost: about 200 bytes an access; keep shapes small.

    kernel, grid, block: of that launch. accesses: in the order of execution. barriers: (number of
    accesses before it, kind, block, threads) for each barrier and warp operation.
    """

    def __init__(self) -> None:
        self.kernel = ""
        self.grid: Triple = (0, 0, 0)
        self.block: Triple = (0, 0, 0)
        self.accesses: list[Access] = []
        self.barriers: list[tuple[int, str, Triple, tuple[int, ...]]] = []
        self.finished = False

    def launch(self, kernel: str, grid: Triple, block: Triple) -> None:
        """Forget the launch before, begin this one."""
        self.kernel, self.grid, self.block = kernel, grid, block
        self.accesses.clear()
        self.barriers.clear()
        self.finished = False

    def access(self, access: Access) -> None:
        """Keep one access."""
        self.accesses.append(access)

    def barrier(self, kind: str, block: Triple, threads: tuple[int, ...]) -> None:
        """Keep one barrier."""
        self.barriers.append((len(self.accesses), kind, block, threads))

    def done(self) -> None:
        """The launch ended well; a failed one leaves ``finished`` False."""
        self.finished = True

    def touching(self, name: str) -> list[Access]:
        """The accesses to the array of that name."""
        return [access for access in self.accesses if access.array.name == name]
