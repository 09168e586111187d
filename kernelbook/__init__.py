"""From Graph to Warp: the course's own package.

Learners import :mod:`kernelbook.lab`; instructors call the ``kernelbook`` command.
"""

__version__ = "0.1.0"
