"""How each hidden test stands over the class: the base of the report's tables and figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kernelbook.grade.gradebook import NOT_GRADED, Entry
from kernelbook.grade.record import Category


@dataclass(frozen=True)
class Standing:
    """How one hidden test ended over the class: submissions by category."""

    lab: str
    exercise: str
    test: str
    ended: Counter[Category]

    @property
    def total(self) -> int:
        return self.ended.total()

    @property
    def passed(self) -> int:
        return self.ended[Category.PASS]

    @property
    def fail_rate(self) -> float:
        return 1 - self.passed / self.total


def standings(book: Sequence[Entry]) -> list[Standing]:
    """Return every test of the class, the one that fails most first; ties in the lab's order.

    Submissions that could not be graded are left out: they say nothing about a test.
    """
    ended: dict[tuple[str, str, str], Counter[Category]] = {}
    for entry in book:
        if entry.counts and entry.status != NOT_GRADED:
            for result in entry.record.results:
                place = (entry.record.lab, result.exercise, result.test)
                ended.setdefault(place, Counter())[result.category] += 1
    tests = [Standing(*place, counter) for place, counter in ended.items()]
    return sorted(tests, key=lambda test: -test.fail_rate)
