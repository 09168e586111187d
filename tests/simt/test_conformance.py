"""The conformance kernels give, in the simulator, what they gave on the GPU that is on record."""

import json
from pathlib import Path

import pytest
from conformance import CASES, decoded, launch, ulps
from numba import cuda

from kernelbook.simt import KernelError

RECORD = json.loads((Path(__file__).parent / "conformance" / "h200.json").read_text("utf-8"))
ON_GPU = RECORD["cases"]
COMPARED = [name for name in CASES if "outputs" in ON_GPU.get(name, {})]


def difference(name):
    """What is not equal, in words; "" for nothing."""
    case = CASES[name]
    try:
        found = launch(case, cuda)
    except KernelError as error:
        return str(error).split("\n")[0]
    wanted = ON_GPU[name]["outputs"]
    for number, (here, there) in enumerate(zip(found, wanted, strict=True)):
        if here["dtype"] != there["dtype"]:
            return f"output {number} is {here['dtype']}, on the GPU {there['dtype']}"
        if here["values"] == there["values"]:
            continue
        a, b = decoded(here), decoded(there)
        far = list(ulps(a, b))
        worst = max(range(len(far)), key=far.__getitem__)
        if far[worst] > case.ulp:
            return f"output {number}[{worst}]: {a[worst]!r}, on the GPU {b[worst]!r}"
    return ""


def test_every_kernel_is_on_record():
    assert set(CASES) == set(ON_GPU)
    assert len(COMPARED) > 600
    assert len({CASES[name].function for name in COMPARED}) >= 80


@pytest.mark.parametrize("name", COMPARED)
def test_kernel_gives_what_the_gpu_gave(name):
    assert difference(name) == ""
