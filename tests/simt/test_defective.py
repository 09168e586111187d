"""Every defective kernel is reported: the right class, both lines, the array and both threads."""

import re

import pytest
from kernels.case import BOUNDS, RACE, UNWRITTEN
from kernels.defective import CASES

from kernelbook import simt
from kernelbook.errors import SimulatorError

SEEDS = range(4)


def report_of(case, seed):
    """The error that a launch of ``case`` raises under a schedule."""
    args = case.args()
    with simt.diagnosis(), simt.schedule(seed), pytest.raises(SimulatorError) as caught:
        case.launch(args)
    return caught.value


@pytest.fixture(autouse=True)
def short_limit(monkeypatch):
    """A kernel that spins for ever is stopped soon."""
    monkeypatch.setenv("KERNELBOOK_LAUNCH_SECONDS", "0.1")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("seed", SEEDS)
def test_defective_kernel_is_reported(case, seed):
    error = report_of(case, seed)
    message = str(error)
    assert type(error).__name__ in case.error.split("|"), message
    assert case.name in message
    first, second = case.lines()
    for lines in filter(None, (first, second)):
        assert any(names_line(message, line) for line in lines), f"{sorted(lines)}: {message}"
    if case.error in (RACE, UNWRITTEN, BOUNDS):
        quoted = {int(n) for n in re.findall(r"^ *(\d+) \|", message, re.MULTILINE)}
        assert quoted & first
        assert quoted <= first | second, message
    if case.array:
        assert re.search(rf"\b(?:{case.array})\b[^ ]*\[[-\d, ]+\]", message), message
    if case.error == RACE:
        assert len(threads_named(message)) >= 2, message


def names_line(message, line):
    return re.search(rf"\blines? (?:\d+ and )?{line}\b", message) is not None


def threads_named(message):
    """Every (block, thread) that the message names."""
    block, found = "", set()
    for kind, index in re.findall(r"\b(block|thread) (\(?[\d, ]+\)?)", message):
        if kind == "block":
            block = index
        else:
            found.add((block, index.rstrip(", ")))
    return found


def test_defective_kernels_cover_every_class():
    counts = {}
    for case in CASES:
        for name in case.error.split("|")[:1]:
            counts[name] = counts.get(name, 0) + 1
    assert len(CASES) >= 100
    assert counts["RaceError"] >= 50
    assert min(counts.values()) >= 2, counts
    assert len({case.name for case in CASES}) == len(CASES)
