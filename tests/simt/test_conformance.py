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


# What differs, and why it stays: all are results that the compiler's own rules leave undefined.
EXPECTED = {
    "conversions.float_out_of_range_to_unsigned[float32]": "a float above 255 as a uint8: the "
    "device leaves the bits above the eighth in the register",
    "conversions.float_out_of_range_to_unsigned[float64]": "the same of a float64",
    "integers.negate_and_invert[int16]": "-(-32768): stored as an int64 it is 32768, as a float64 "
    "-32768, since the device's register is wider than the type; it is -32768 here",
    "integers.absolute[int16]": "abs(-32768): the same",
}
# The compiler refuses it and the simulator runs it: a lab compiles for real and shows the refusal.
RUNS_HERE_ONLY = {
    "indexing.copy_of_a_slice", "indexing.ravel", "memory.barrier_of_a_comparison",
    "intrinsics.first_bit_of_a_load[int8]", "intrinsics.first_bit_of_a_load[int16]",
    "intrinsics.first_bit_of_a_load[uint8]", "intrinsics.first_bit_of_a_load[uint16]",
    "warps.shuffle_of_other_types[int8]", "warps.shuffle_of_other_types[uint8]",
    "warps.shuffle_of_other_types[uint32]", "warps.shuffle_of_other_types[uint64]",
    "warps.shuffle_of_other_types[bool]", "warps.shuffle_of_other_types[float16]",
    "structures.optional_argument",
}  # fmt: skip


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


@pytest.mark.parametrize("name", [name for name in COMPARED if name not in EXPECTED])
def test_kernel_gives_what_the_gpu_gave(name):
    assert difference(name) == ""


@pytest.mark.parametrize("name", EXPECTED)
def test_expected_difference_is_still_one(name):
    assert difference(name) != "", "take it off the list"


@pytest.mark.parametrize("name", sorted(set(CASES) - set(COMPARED)))
def test_kernel_the_compiler_refuses_is_refused_here_or_listed(name):
    if name in RUNS_HERE_ONLY:
        launch(CASES[name], cuda)
    else:
        with pytest.raises(KernelError):
            launch(CASES[name], cuda)
