"""Run the conformance kernels with the real ``numba.cuda`` and write their outputs as JSON.

Needs a GPU; ``--check`` only compiles them, anywhere, and prints which the compiler refuses. From
the repository root::

    python3 tests/simt/conformance/record.py --out tests/simt/conformance/h200.json
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import subprocess
import sys
import types
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).resolve().parent.parent)

import numba  # noqa: E402
import numpy as np  # noqa: E402
from numba import cuda  # noqa: E402

from conformance import CASES, Case, launch  # noqa: E402
from conformance.case import fresh_arguments  # noqa: E402


def reason(error: BaseException) -> str:
    """The first line of an error that says what is wrong."""
    text = re.sub(r"\x1b\[\d*m", "", str(error))
    lines = [line.strip() for line in text.splitlines()]
    lines = [x for x in lines if x and not x.startswith(("Failed in cuda mode", "- Resolution"))]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:200]


def record(cases: dict[str, Case]) -> dict[str, Any]:
    """Outputs of every case by name, or ``{"refused": why}`` for what did not compile or run."""
    results: dict[str, Any] = {}
    for name, case in cases.items():
        try:
            results[name] = {"outputs": launch(case, cuda)}
        except Exception as error:
            results[name] = {"refused": reason(error)}
    return results


def check(cases: dict[str, Case]) -> int:
    """Compile every case for sm_90 without a GPU; prints the refusals and returns their number."""
    from numba.cuda import compiler, dispatcher
    from numba.cuda.memory_management import nrt

    device = types.SimpleNamespace(compute_capability=(9, 0))
    for module in (compiler, dispatcher, nrt):
        module.get_current_device = lambda: device
    refused = 0
    for name, case in cases.items():
        arguments, _ = fresh_arguments(case)
        try:
            signature = tuple(numba_type(a) for a in arguments)
            cuda.compile_ptx(case.function, signature, cc=(9, 0))
        except Exception as error:
            refused += 1
            print(f"{name}: {reason(error)}")
    print(f"{len(cases)} cases, {refused} refused")
    return refused


def numba_type(value: Any) -> Any:
    from numba.cuda.typing.typeof import Purpose, typeof

    return typeof(value, Purpose.argument)


def header() -> dict[str, Any]:
    device = cuda.get_current_device()
    name = device.name.decode() if isinstance(device.name, bytes) else str(device.name)
    return {
        "gpu": name,
        "compute_capability": list(device.compute_capability),
        "driver": driver_version(),
        "numba": numba.__version__,
        "numba_cuda": version("numba-cuda"),
        "numpy": np.__version__,
        "python": sys.version.split()[0],
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "command": "python3 tests/simt/conformance/record.py --out FILE",
    }


def driver_version() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ".".join(map(str, cuda.cudadrv.driver.driver.get_version()))
    return done.stdout.splitlines()[0].strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="the JSON file to write")
    parser.add_argument("--check", action="store_true", help="compile only, without a GPU")
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    cases = {name: case for name, case in CASES.items() if options.only in name}
    if options.check:
        check(cases)
        return 0
    done = {**header(), "cases": record(cases)}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(done, indent=1) + "\n", encoding="utf-8")
    refused = sum("refused" in result for result in done["cases"].values())
    print(f"{len(cases)} cases, {refused} refused -> {options.out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
