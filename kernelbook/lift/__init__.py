"""Lift device code out of notebook cells: a kernel is data.

From the sources of a notebook's code cells, :func:`lift` takes one kernel and what it needs: the
device functions that it calls, literal constants and the usual imports. Everything happens on the
syntax tree; nothing is executed. The result is the learner's own text, so that line numbers and
line texts agree with the notebook.

Limit: what cannot be seen to be device code is refused with the reason, also where it would have
run. A name is read as it stands when the kernel's own cell ends, as in a notebook run from the top.
"""

from kernelbook.lift.lifted import AS_DEF, Lifted, NotAKernel
from kernelbook.lift.lifter import lift

__all__ = ["AS_DEF", "Lifted", "NotAKernel", "lift"]
