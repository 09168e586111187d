"""What a learner gets back: one HTML page a submission, and an index of the learner's labs.

A page shows each sealed test by its name, how it ended, what that means, what to do next and
the author's message. It never shows hidden source, expected values or what the code printed:
none of these is in a record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelbook.grade import page
from kernelbook.grade.gradebook import (
    FEEDBACK,
    GRADE_AGAIN,
    NOT_GRADED,
    Entry,
    replace_file,
)
from kernelbook.grade.record import Category, Record, TestResult, instant, slug


@dataclass(frozen=True)
class Meaning:
    """A category in plain words. ``role`` groups categories: it sets mark and colour."""

    role: str
    title: str
    meaning: str
    next_step: str = ""


MEANINGS = {
    Category.PASS: Meaning("pass", "Passed", "Every answer agrees with the reference solution's."),
    Category.WRONG: Meaning(
        "wrong",
        "Wrong answer",
        "Your code ran to the end, and an answer differs from the reference solution's.",
        "In the notebook, find the smallest input of this kind that goes wrong and follow one "
        "thread through it by hand.",
    ),
    Category.ERROR: Meaning(
        "error",
        "Error",
        "On these inputs there was no answer to compare.",
        "Call it in the notebook with inputs of this kind: the whole message stands there.",
    ),
    Category.NOT_ATTEMPTED: Meaning(
        "none",
        "Not attempted",
        "The answer cell is as it was handed out.",
        "Open the first hint under the exercise and start from there.",
    ),
    Category.TIMEOUT: Meaning(
        "stopped",
        "Out of time",
        "Your code ran past the time limit, which is many times what the reference solution needs "
        "on the same machine.",
        "Look for a loop that never ends, a barrier that some threads never reach, or one thread "
        "that does the work of all.",
    ),
    Category.DIED: Meaning(
        "stopped",
        "Process ended",
        "The process that ran your code ended before it answered.",
        "Look for an access far outside an array, a recursion without end or a call that leaves "
        "Python. Then restart the notebook's kernel and run all cells.",
    ),
    Category.OUT_OF_MEMORY: Meaning(
        "stopped",
        "Out of memory",
        "Your code asked for more memory than the limit allows.",
        "Compare the size of every array with the size of the input: one of them grows faster.",
    ),
    Category.OUTPUT_LIMIT: Meaning(
        "stopped",
        "Too much output",
        "Your code printed more than the grader reads.",
        "Remove the prints from kernels and loops.",
    ),
    Category.MISSING: Meaning(
        "none",
        "No answer",
        "No answer reached the grader.",
        "Check that the answer cell is in the notebook and defines the name that the exercise "
        "asks for.",
    ),
    Category.NOT_A_KERNEL: Meaning(
        "error",
        "Not a kernel",
        "The exercise asks for device code. What you handed in cannot be compiled as such, and "
        "what host code returns would prove nothing.",
        "Run the check cell of the exercise: it applies the same rule and names the line.",
    ),
    Category.INFRASTRUCTURE: Meaning(
        "ours",
        "Our fault",
        "The grader failed here, not your code.",
        "You need not do anything. Your instructor sees this and grades again.",
    ),
}

# The author's message explains a failed attempt; here there was none, or it was not the learner's.
SILENT = (Category.PASS, Category.NOT_ATTEMPTED, Category.INFRASTRUCTURE)

DEVICES = {
    "sim": (
        "the CUDA simulator, on a CPU",
        "It cannot see how fast a kernel is, nor what only hardware does, such as the order in "
        "which memory accesses of different warps really happen.",
    ),
    "gpu": (
        "a GPU",
        "It cannot see a mistake that gave the right values by luck in this run, such as a race "
        "between threads or a read just past the end of an array.",
    ),
}

MATCHED = {
    "id": "found by its cell id",
    "tag": "found by its tag, not by its cell id",
    "marker": "found by its marker comment, not by its cell id or tag",
    "name": "found by the name that it defines, not by its cell id, tag or marker",
    "none": "not found in the notebook",
}


@dataclass(frozen=True)
class Exercise:
    """The tests of one exercise, in the order of the lab, and how the answer was found."""

    name: str
    rule: str
    results: tuple[TestResult, ...]

    @property
    def matched(self) -> str:
        return MATCHED.get(self.rule, f"found by {self.rule}")

    @property
    def points(self) -> int:
        return sum(result.points for result in self.results)

    @property
    def max_points(self) -> int:
        return sum(result.max_points for result in self.results)


def write_all(book: Sequence[Entry], out_dir: Path) -> list[Path]:
    """Write a page for every submission in the book and an index for every learner.

    Of several gradings with one key the page shows the one that counts, else the last.
    """
    pages: dict[str, Entry] = {}
    for entry in book:
        shown = pages.get(entry.feedback)
        if shown is None or not shown.counts:
            pages[entry.feedback] = entry
    written = [
        replace_file(Path(out_dir) / path, render(entry)) for path, entry in sorted(pages.items())
    ]
    learners: dict[str, list[Entry]] = {}
    for entry in book:
        learners.setdefault(entry.record.learner, []).append(entry)
    for learner, own in learners.items():
        path = Path(out_dir) / FEEDBACK / slug(learner) / "index.html"
        written.append(replace_file(path, _index(learner, own)))
    return written


def render(entry: Entry) -> bytes:
    """Return the feedback page of one submission as self-contained HTML."""
    record = entry.record
    device, blind_spot = DEVICES[record.device]
    return page.render(
        "feedback.html",
        record=record,
        counts=entry.counts,
        graded=entry.status != NOT_GRADED,
        final=entry.status != GRADE_AGAIN,
        submitted=moment(record.submitted_at),
        graded_at=moment(record.graded_at),
        device=device,
        blind_spot=blind_spot,
        exercises=exercises(record),
        passed=sum(result.category is Category.PASS for result in record.results),
        meanings=MEANINGS,
        silent=SILENT,
    )


def exercises(record: Record) -> list[Exercise]:
    """Return the record's tests grouped by exercise, in the order of the record."""
    groups: dict[str, list[TestResult]] = {}
    for result in record.results:
        groups.setdefault(result.exercise, []).append(result)
    return [
        Exercise(name, record.matched.get(name, "none"), tuple(results))
        for name, results in groups.items()
    ]


def moment(iso_time: str) -> str:
    """Return an ISO time for people: ``30 November 2026, 14:05 UTC``."""
    time = instant(iso_time)
    return f"{time.day} {time:%B} {time.year}, {time:%H:%M %Z}"


def _index(learner: str, own: Sequence[Entry]) -> bytes:
    counting = [entry for entry in own if entry.counts]
    return page.render(
        "learner.html",
        learner=learner,
        entries=counting,
        points=sum(entry.record.points for entry in counting),
        max_points=sum(entry.record.max_points for entry in counting),
        moment=moment,
    )
