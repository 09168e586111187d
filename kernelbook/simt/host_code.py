"""Where host code stands: its line, and its names for arrays and streams, for messages.

Limit: names are those of the variables in the innermost function that is not the package's own.
"""

from __future__ import annotations

import linecache
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import kernelbook
from kernelbook.simt.memory_map import root_of

_NOT_THE_USERS = tuple(
    f"{Path(module).parent}{os.sep}" for module in (kernelbook.__file__, np.__file__)
)


@dataclass(frozen=True)
class Place:
    """A line of host code."""

    file: str
    line: int

    def quote(self) -> str:
        """The line as a message shows it; "" when its text is not known."""
        text = linecache.getline(self.file, self.line).strip()
        return f"\n    {self.line} | {text}" if text else ""


def here() -> Place:
    """The line of host code that is running: the innermost that is not the package's or NumPy's."""
    frame = _host_frame()
    return Place(frame.f_code.co_filename, frame.f_lineno or 0) if frame else Place("", 0)


def name_of(array: np.ndarray[Any, Any]) -> str:
    """The host's variable that holds ``array``, or a host or device array of the same memory."""
    frame = _host_frame()
    if frame is None:
        return ""
    names = {**frame.f_globals, **frame.f_locals}
    for name, value in names.items():
        if value is array:
            return name
    root = root_of(array)
    for name, value in names.items():
        memory = value.memory if getattr(type(value), "__cuda_ndarray__", False) else value
        if isinstance(memory, np.ndarray) and root_of(memory) is root:
            return name
    return ""


def stream_name(stream: Any, number: int) -> str:
    """ "default stream" for number 0, else "stream" and its variable's name."""
    if number == 0:
        return "default stream"
    frame = _host_frame()
    if frame is not None:
        for name, value in {**frame.f_globals, **frame.f_locals}.items():
            if value is stream and not name.startswith("_"):
                return f"stream {name}"
    return f"stream number {number}"


def _host_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_NOT_THE_USERS):
        frame = frame.f_back
    return frame
