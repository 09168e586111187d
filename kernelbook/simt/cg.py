"""Cooperative groups: the whole grid as a group, ``cg.this_grid().sync()``."""

from __future__ import annotations

from kernelbook.simt.registers import now, outside
from kernelbook.simt.scheduler import grid_sync


class GridGroup:
    """All threads of all blocks."""

    def sync(self) -> int:
        """Wait until every thread of the grid has reached a grid sync."""
        return grid_sync()


def this_grid() -> GridGroup:
    """The group of all threads of this launch."""
    if now.block is None:
        raise outside("cg.this_grid")
    return GridGroup()
