"""One tree of errors. A learner's fault, an author's fault and ours are different types.

A message says where, what was found, what was wanted and what to do next. In a notebook it
is shown as that message alone: IPython asks an exception for ``_render_traceback_`` before it
prints its own traceback.
"""

from __future__ import annotations


class KernelbookError(Exception):
    """Base of everything this package raises on purpose. Its message is all a notebook shows."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


class LearnerError(KernelbookError):
    """The learner's code or answer is at fault."""


class NotYet(LearnerError):
    """The exercise has not been attempted."""

    def _render_traceback_(self) -> list[str]:
        return [f"Not yet. {self}"]


class CheckFailed(LearnerError):
    """A public check saw a wrong value."""


class SimulatorError(LearnerError):
    """A kernel did, in the simulator, what it may not do on a GPU."""


class CompileError(LearnerError):
    """The real compiler refuses the kernel."""


class SourceError(KernelbookError):
    """A lab source is malformed. The message starts with ``file:line``."""


class SubmissionError(KernelbookError):
    """A submission cannot be graded; the message is the reason that its record carries."""


class SandboxError(KernelbookError):
    """The sandbox is missing or did not start."""
