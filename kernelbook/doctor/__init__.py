"""What this machine can run, what is wrong with it, and how to fix it: ``kernelbook doctor``.

Every part that could crash, hang or change the process is looked at in a process of its own, under
a time limit, several at a time. Limit: a probe runs one small kernel; it does not measure.
"""

from kernelbook.doctor.examination import examine, run
from kernelbook.doctor.report import Finding, Report, render

__all__ = ["Finding", "Report", "examine", "render", "run"]
