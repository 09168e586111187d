"""What a hidden test came to, and the words for it.

Two texts go with every category: a message that the learner may read, and a note for the
instructor. What a kernel said is untrusted: it enters either of them short, without control
characters, and quoted as the code's own words; a note keeps to one line, a message to a few.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelbook.grade.compare import Answer, mismatch
from kernelbook.grade.kernel import Reply
from kernelbook.grade.record import Category

Key = tuple[str, str]  # (exercise or trial label, hidden test's name)

ANSWERS = "application/vnd.kernelbook.answers+json"
# The lab module as an expression, which leaves no name of ours in the notebook.
LAB = '__import__("kernelbook.lab", fromlist=["x"])'
MOST_ANSWERS = 10_000
WORDS_CHARS = 300  # shown of a text that learner code made
QUOTED_LINES = 4  # of an exception's text: the simulator's message and the source lines it names
QUOTED_LINE_CHARS = 480
GRADER_FAILED = "The grader failed here, not your code. Your instructor sees why."

LOST = {
    "timeout": Category.TIMEOUT,
    "died": Category.DIED,
    "output limit": Category.OUTPUT_LIMIT,
    "out of memory": Category.OUT_OF_MEMORY,
}
"""The ends after which the kernel is gone."""

_CELL_FRAME = re.compile(r"^Cell In\[\d+\], line (\d+)(, in )?", re.MULTILINE)
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class Outcome:
    """How one hidden test ended.

    message: safe to show to the learner. note: for the instructor alone; it may hold expected
    values and untrusted text. answers: only of a reference run.
    """

    exercise: str
    test: str
    category: Category
    seconds: float = 0.0
    message: str = ""
    note: str = ""
    answers: tuple[Answer, ...] = ()


@dataclass(frozen=True)
class RunOutcome:
    """All hidden tests of the notebook, in its order; ``items`` counts the cells that were run."""

    tests: tuple[Outcome, ...]
    items: int
    kernel_starts: int
    seconds: float
    notes: tuple[str, ...] = ()


def not_run(key: Key) -> Outcome:
    """No evidence, no marks."""
    return Outcome(*key, Category.MISSING, message="The test was not run.", note="no item ran")


def wire_items(reply: Reply) -> list[Any]:
    """The wire items in a test's reply; [] for anything that is not a list of them.

    Raises: ValueError when there are more than MOST_ANSWERS.
    """
    found: Any = reply.expressions
    for name in ("answers", "data", ANSWERS):
        found = found.get(name) if isinstance(found, Mapping) else None
    if not isinstance(found, list):
        return []
    if len(found) > MOST_ANSWERS:
        raise ValueError(f"{len(found)} answers")
    return found


def difference(answers: Sequence[Answer], wanted: Sequence[Answer]) -> str | None:
    """The first answer that does not agree with its reference, for the instructor; or None."""
    if len(answers) != len(wanted):
        return f"{len(answers)} answers, expected {len(wanted)}"
    for number, (answer, reference) in enumerate(zip(answers, wanted, strict=True)):
        found = mismatch(answer, reference)
        if found is not None:
            return f"answer {number}: {found}"
    return None


def message_of_cell(reply: Reply, *, quote: bool) -> str:
    """Why the learner's own cell failed, with its line and, if ``quote``, its own words."""
    if not quote:
        return f"The cell of this exercise raised {_known_name(reply)}."
    frames = _CELL_FRAME.findall("\n".join(reply.traceback))
    line = f" on its line {frames[-1][0]}" if frames else ""
    return f"The cell of this exercise raised {_name(reply)}{line}.{_quoted(reply)}"


def message_of_test(reply: Reply, *, quote: bool) -> str:
    """Name the exception; quote it where it speaks of the learner's code, not of the test's.

    quote: False where host code of the learner's has run in the process: it can put the test's
    source, or its inputs, into an exception's text or name.

    Quoted is one of this package's messages for learners, which has no frames, or an exception
    from inside a function. A hidden test is the top level of its cell.
    """
    if not quote:
        return f"Your code raised {_known_name(reply)}."
    frames = _CELL_FRAME.findall("\n".join(reply.traceback))
    theirs = bool(frames[-1][1]) if frames else True
    return f"Your code raised {_name(reply)}.{_quoted(reply) if theirs else ''}"


def said(reply: Reply) -> str:
    """The exception that a reply reports, for a note."""
    return f"{_name(reply)}: {words(reply.evalue)}" if reply.ename else ""


def words(text: str, most: int = WORDS_CHARS) -> str:
    """Untrusted text on one line, without control characters, and short."""
    text = " ".join(_CONTROL.sub(" ", text).split())
    return text if len(text) <= most else text[: most - 1] + "…"


def _known_name(reply: Reply) -> str:
    """The exception's name if it is one of Python's own: another could spell out a secret."""
    kind = getattr(builtins, reply.ename, None)
    known = isinstance(kind, type) and issubclass(kind, BaseException)
    return reply.ename if known else "an exception"


def _name(reply: Reply) -> str:
    return reply.ename[:80] if reply.ename.isidentifier() else "an exception"


def _quoted(reply: Reply) -> str:
    lines = reply.evalue.splitlines()[:QUOTED_LINES]
    text = "\n".join(filter(None, (words(line, QUOTED_LINE_CHARS) for line in lines)))
    return f" It says: “{text}”" if text else ""
