"""Correct kernels of many styles: nothing is reported, and the values are right, in every order."""

import pytest
from kernels import defective
from kernels.correct import CASES

from kernelbook import simt

SEEDS = range(5)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("seed", SEEDS)
def test_correct_kernel_is_not_reported(case, seed):
    with simt.diagnosis(), simt.schedule(seed):
        assert case.output_is_right()


def test_correct_kernels_are_many():
    names = {case.name for case in (*CASES, *defective.CASES)}
    assert len(names) == len(CASES) + len(defective.CASES)
    assert len(CASES) >= 90
