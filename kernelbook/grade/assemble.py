"""Puts a learner's answers into our own copy of the lab: what will run, what is settled already.

Device code never runs as the learner's Python. For an exercise of kind ``kernel`` or ``source`` the
answer is lifted out of the cells (:mod:`kernelbook.lift`) and compiled by the real compiler; only
what compiles enters the **clean room**, a notebook of our cells, our launches and lifted device
code. Answers of kind ``function`` are host code: they run as whole cells in the **open room**, a
second notebook and process, so that nothing they patch can touch a kernel's verdict.

Both rooms are plain notebooks whose cells say their role; the plugin knows nothing else.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

from kernelbook.compilers.client import WorkerDied, WorkerTimeout
from kernelbook.errors import CompileError
from kernelbook.grade.outcome import GRADER_FAILED, LAB, words
from kernelbook.grade.record import Category, TestResult
from kernelbook.grade.submission import Found, Matched, SubmittedCell, untouched
from kernelbook.lift import Lifted, NotAKernel, lift
from kernelbook.release import KERNELSPEC
from kernelbook.source import Exercise, HiddenTest, Kind, LabSource, Tag

CLEAN, OPEN = "clean", "open"
MESSAGE_CHARS = 600


_LIFTED_AS: Mapping[Kind, Literal["kernel", "source"]] = {
    Kind.KERNEL: "kernel",
    Kind.SOURCE: "source",
}

# Compiles lifted device code; raises CompileError when it is refused.
Compile = Callable[[Exercise, Lifted], object]


@dataclass(frozen=True)
class Trial:
    """One answer to one exercise, tested under ``label``: in a submission, the exercise's id."""

    label: str
    exercise: Exercise
    cells: tuple[NotebookNode, ...]


@dataclass(frozen=True)
class Room:
    """One notebook to run in one process, and the ``(label, hidden test)`` pairs that it holds."""

    name: str
    notebook: NotebookNode
    tests: tuple[tuple[str, HiddenTest], ...]


@dataclass(frozen=True)
class Assembly:
    """What a submission comes to: rooms to run, and results that need no run."""

    rooms: tuple[Room, ...]
    settled: tuple[TestResult, ...]


@dataclass(frozen=True)
class Settled:
    """Why an exercise is not run."""

    category: Category
    message: str

    def results(self, exercise: Exercise, device: str) -> list[TestResult]:
        return [
            TestResult(
                exercise=exercise.id,
                test=test.name,
                category=self.category,
                points=0,
                max_points=test.points,
                message=self.message,
            )
            for test in exercise.tests
            if test.runs_on(device)
        ]


def assemble(matched: Matched, lab: LabSource, device: str, compile_kernel: Compile) -> Assembly:
    """The rooms that ``matched`` needs on ``device`` ("sim" or "gpu")."""
    sources = [cell.source for cell in matched.cells]
    whole = _WholeCells(matched)
    rooms: dict[str, list[Trial]] = {CLEAN: [], OPEN: []}
    settled: list[TestResult] = []
    for exercise in lab.exercises.values():
        verdict = _unanswered(exercise, matched.answers[exercise.id])
        if verdict is None and exercise.kind is Kind.FUNCTION:
            rooms[OPEN].append(Trial(exercise.id, exercise, whole.up_to(exercise)))
        elif verdict is None:
            verdict, cells = device_code(lab, exercise, sources, compile_kernel)
            if verdict is None:
                rooms[CLEAN].append(Trial(exercise.id, exercise, cells))
        if verdict is not None:
            settled += verdict.results(exercise, device)
    return Assembly(
        tuple(room(name, lab, device, trials) for name, trials in rooms.items() if trials),
        tuple(settled),
    )


def room(name: str, lab: LabSource, device: str, trials: Sequence[Trial]) -> Room:
    """Our cells in the source's order, each trial where its exercise stands, then its tests."""
    cells: list[NotebookNode] = []
    tests: list[tuple[str, HiddenTest]] = []
    for cell in lab.cells:
        # A context cell that names an exercise draws the learner's own answer: not for grading.
        if (
            cell.tag is None
            and cell.cell_type == "code"
            and _names(cell.source).isdisjoint(lab.exercises)
        ):
            cells.append(cell_of(cell.source, "context"))
        elif cell.tag is Tag.EXERCISE:
            for trial in (t for t in trials if t.exercise.id == cell.exercise):
                mine = [test for test in trial.exercise.tests if test.runs_on(device)]
                cells += [*trial.cells, *(_test_cell(trial.label, test) for test in mine)]
                tests += [(trial.label, test) for test in mine]
    for number, made in enumerate(cells):
        made.id = f"{name}-{number}"
    notebook = new_notebook(cells=cells, metadata={"kernelspec": dict(KERNELSPEC)})
    return Room(name, notebook, tuple(tests))


def device_code(
    lab: LabSource,
    exercise: Exercise,
    sources: Sequence[str],
    compile_kernel: Compile,
    label: str = "",
) -> tuple[Settled | None, tuple[NotebookNode, ...]]:
    """The lifted and compiled answer as a cell, or why there is none.

    sources: the learner's cells; the imports and constants that the lab has given up to the
    exercise come before them.
    """
    given = [
        cell.source
        for cell in lab.cells
        if cell.tag is None and cell.cell_type == "code" and cell.line < exercise.line
    ]
    try:
        code = lift([*given, *sources], exercise.id, _LIFTED_AS[exercise.kind])
    except NotAKernel as error:
        return Settled(Category.NOT_A_KERNEL, words(str(error), MESSAGE_CHARS)), ()
    try:
        compile_kernel(exercise, code)
    except CompileError as error:
        message = words(f"The GPU compiler refuses it. {error}", MESSAGE_CHARS)
        return Settled(Category.ERROR, message), ()
    except WorkerTimeout as error:
        return Settled(Category.TIMEOUT, str(error)), ()
    except WorkerDied:
        return Settled(Category.INFRASTRUCTURE, GRADER_FAILED), ()
    text = f"{exercise.id} = {code.source!r}"
    if exercise.kind is Kind.KERNEL:
        # A namespace of its own: its constants change nothing of ours, and ours nothing of it.
        text = f"{exercise.id} = {LAB}._answer({exercise.id!r}, {_as_written(code)!r})"
    return None, (cell_of(text, "answer", exercise=label or exercise.id),)


def cell_of(source: str, role: str, **about: Any) -> NotebookNode:
    """A code cell that tells the plugin its role."""
    return new_code_cell(source, metadata={"kernelbook": {"role": role, **about}})


def _unanswered(exercise: Exercise, found: Found) -> Settled | None:
    if found.cell is None:
        return Settled(Category.MISSING, "No cell of your notebook answers this exercise.")
    if untouched(found.cell.source, exercise):
        return Settled(Category.NOT_ATTEMPTED, "")
    return None


def _as_written(code: Lifted) -> list[str]:
    """All imports, then the lifted lines, one text a cell, at the line numbers they have there.

    So a message that names a line names the line that the learner sees, and every name is bound as
    it was when the code was audited and compiled, whichever cell an import came from.
    """
    lines = code.source.split("\n")
    imports = {
        number
        for node in ast.parse(code.source).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    cells: dict[int, dict[int, str]] = {}
    for number, text in enumerate(lines, 1):
        if number in code.lines and number not in imports:
            cell, line = code.lines[number]
            there = cells.setdefault(cell, {})
            there[line] = f"{there[line]}; {text.lstrip()}" if line in there else text
    written = [
        "\n".join(there.get(number, "") for number in range(1, max(there) + 1))
        for _, there in sorted(cells.items())
    ]
    return ["\n".join(lines[number - 1] for number in sorted(imports)), *written]


class _WholeCells:
    """The learner's cells in the learner's order, each handed out once."""

    def __init__(self, matched: Matched) -> None:
        self.matched = matched
        self.owner = {f.cell.position: name for name, f in matched.answers.items() if f.cell}
        self.waiting = list(matched.cells)

    def up_to(self, exercise: Exercise) -> tuple[NotebookNode, ...]:
        answer = self.matched.answers[exercise.id].cell
        ready: list[SubmittedCell] = []
        while answer in self.waiting:
            ready.append(self.waiting.pop(0))
        return tuple(self._cell(cell) for cell in ready)

    def _cell(self, cell: SubmittedCell) -> NotebookNode:
        exercise = self.owner.get(cell.position)
        if exercise is None:
            return cell_of(cell.source, "extra")
        return cell_of(cell.source, "answer", exercise=exercise)


def _test_cell(label: str, test: HiddenTest) -> NotebookNode:
    return cell_of(
        test.source,
        "test",
        exercise=label,
        test=test.name,
        points=test.points,
        message=test.message,
    )


def _names(source: str) -> set[str]:
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return set()
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
