"""The names a notebook imports: poison, checks and answers. Needs no GPU."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import numpy as np
from kernelbook import lab
from kernelbook.errors import CheckFailed, NotYet

def said(check, *args, **options):
    try:
        check(*args, **options)
    except (CheckFailed, NotYet) as error:
        return f"{type(error).__name__}: {error}"
    return "passes"
"""


def run(program: str) -> str:
    """What the program prints, in a process of its own: importing lab installs the simulator."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + program], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16", "i1", "i4", "u8"])
def test_empty_is_untouched_until_written_in_every_dtype(dtype: str) -> None:
    program = f"""
out = lab.empty((2, 3), np.dtype({dtype!r}))
before = said(lab.check_close, out, np.ones((2, 3)))
out[1, 2] = 1
after = said(lab.check_close, out, np.ones((2, 3)))
print(before.split(":")[0], "|", after.split(",")[0], "|", "never written" in after)
"""
    assert run(program) == "NotYet | CheckFailed: element [0 | True"


def test_check_computed_nan_is_not_mistaken_for_an_unwritten_element() -> None:
    program = """
out = lab.empty(3)
out[:] = np.nan
print(said(lab.check_close, out, [1, 2, 3]))
"""
    assert "is nan" in run(program)
    assert "read that nobody had written" in run(program)


def test_check_names_the_case_the_first_wrong_element_and_the_count() -> None:
    program = """
out = np.array([1, 2, 5, 7], np.float32)
print(said(lab.check_close, out, [1, 2, 3, 4], case="n = 4"))
"""
    wanted = "CheckFailed: n = 4: element [2] is 5, expected 3; 2 of 4 elements are wrong."
    assert run(program) == wanted


@pytest.mark.parametrize(
    ("got", "says"),
    [
        ("None", "NotYet: The function returned nothing."),
        ("'text'", "CheckFailed: expected numbers, got str"),
        ("[1.0, 2.0]", "CheckFailed: expected shape (3,), got (2,)"),
        ("{1: 2}", "CheckFailed: expected numbers, got dict"),
        ("[[1], [2, 3]]", "CheckFailed: expected numbers, got list"),
        ("[1.0, 2.0, 3.0]", "passes"),
    ],
)
def test_check_odd_returns_are_explained(got: str, says: str) -> None:
    assert run(f"print(said(lab.check_close, {got}, [1.0, 2.0, 3.0]))").startswith(says)


def test_check_tolerance_follows_the_scale_of_what_is_expected() -> None:
    program = """
wanted = np.array([1e6, 0.0], np.float32)
print(said(lab.check_close, wanted + np.float32(1), wanted))
print(said(lab.check_close, np.zeros(2), [1e-9, 2e-9])[:11])
"""
    assert run(program) == "passes\nCheckFailed"


def test_answer_text_and_objects_become_an_empty_answer_not_an_error() -> None:
    program = """
lab._begin_test(3, "sim")
for value in ("text", None, object(), [1.5, 2.5]):
    lab.answer(value)
print([item["shape"] for item in lab._take_answers().items], lab._take_answers().items)
"""
    assert run(program) == "[[0], [0], [0], [2]] []"


def test_begin_test_same_seed_gives_the_same_inputs() -> None:
    program = """
draws = []
for seed in (1, 1, 2):
    lab._begin_test(seed, "sim")
    draws.append(lab.rng().random())
print(draws[0] == draws[1], draws[1] == draws[2])
"""
    assert run(program) == "True False"


def test_schedules_run_the_body_in_several_orders_the_natural_one_first() -> None:
    program = """
from numba import cuda
from kernelbook import simt

@cuda.jit
def last(out):
    out[0] = cuda.grid(1)

def orders():
    for number in lab.schedules(4):
        out = lab.empty(1, np.int32)
        with simt.diagnosis(False):
            last[8, 64](out)
        yield number, int(out[0])

first, again = list(orders()), list(orders())
numbers, threads = zip(*first)
print(threads[0], numbers, len(set(threads)) > 2, first == again)
"""
    assert run(program) == "511 (0, 1, 2, 3) True True"
