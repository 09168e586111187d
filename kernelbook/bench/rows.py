"""One measured row, the recording that holds a run's rows, and the machine it was made on.

A recording is a JSON file under ``benchmarks/``; the book's prose and plots take every number from
one. Rows carry bytes and flop by formula, so that a rate can be recomputed without the code.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from importlib import metadata
from pathlib import Path
from typing import Any

from kernelbook.errors import KernelbookError


@dataclass(frozen=True)
class Row:
    """One kernel on one shape. ``peer`` is the library's name, "" for a kernel of this book."""

    kernel: str
    peer: str
    shape: tuple[int, ...]
    dtype: str
    gpu: str
    versions: Mapping[str, str]
    date: str
    p20_us: float
    p50_us: float
    p80_us: float
    bytes: int  # moved to and from global memory, at the least
    flops: int
    fraction_of_copy: float  # bytes / p50 over the bandwidth of a copy on the same GPU


@dataclass(frozen=True)
class Recording:
    """One run of one benchmark. ``notes``: kernel → how it was launched and timed."""

    benchmark: str
    gpu: str
    driver: str
    versions: Mapping[str, str]
    date: str
    command: str
    copy_gbps: float
    rows: tuple[Row, ...]
    notes: Mapping[str, str]


@dataclass(frozen=True)
class Machine:
    """What a row must name: GPU, kernel driver, versions of the packages in play."""

    gpu: str
    driver: str
    versions: Mapping[str, str]


def write(recording: Recording, path: Path) -> None:
    """Write ``recording`` as JSON, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(asdict(recording), indent=1, ensure_ascii=False) + "\n", "utf-8")
    part.replace(path)


def read(path: Path) -> Recording:
    """The recording at ``path``. Raises KernelbookError when the file is not one."""
    try:
        data = json.loads(path.read_text("utf-8"))
        rows = tuple(_row(item) for item in data.pop("rows"))
        return Recording(rows=rows, **data)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        names = ", ".join(f.name for f in fields(Recording))
        raise KernelbookError(
            f"{path}: not a recording: {error}. Wanted the keys {names}; run the benchmark again."
        ) from error


def machine(packages: tuple[str, ...]) -> Machine:
    """The GPU in use, its driver, and the versions of those of ``packages`` that are installed."""
    import cupy

    name = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["name"].decode()
    return Machine(gpu=name, driver=_driver(), versions=_versions(packages))


def _row(item: dict[str, Any]) -> Row:
    return Row(**{**item, "shape": tuple(item["shape"])})


def _versions(packages: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.split("\n")[0].strip()
