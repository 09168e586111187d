"""Proves that a lab's hidden tests are good, by what they reject and what they accept.

The reference and every alternative must earn full marks; every wrong answer must lose the test that
its ``fails:`` names; the unsolved notebook must score 0 as "not attempted"; and for each exercise
an answer that does nothing, writes a constant or echoes its input must score 0 in every test.

All trials of a lab share one process (:func:`kernelbook.grade.assemble.room`): authors' code is
trusted, and one start-up instead of fifty keeps fifty labs verifiable on a laptop.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nbformat import NotebookNode
from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from kernelbook.device import choose
from kernelbook.errors import KernelbookError
from kernelbook.grade import engine, submission
from kernelbook.grade.assemble import (
    CLEAN,
    OPEN,
    Compile,
    Settled,
    Trial,
    cell_of,
    device_code,
    room,
)
from kernelbook.grade.compiler import compiler_in
from kernelbook.grade.pool import Pool
from kernelbook.grade.record import Category, TestResult
from kernelbook.grade.reference import Reference
from kernelbook.source import SOLUTIONS, Exercise, Kind, LabSource, find, path_to_id, read
from kernelbook.trivial import trivial_answers

# What the course asks of every lab (see CONTRIBUTING): fewer prove too little.
LEAST_HIDDEN = 3
LEAST_HINTS = 1
LEAST_WRONG = 6
LEAST_ALTERNATIVES = 2


@dataclass(frozen=True)
class Proof:
    """One line of the verdict on a lab: what was tried, what had to happen, what did."""

    lab: str
    exercise: str
    trial: str
    wanted: str
    found: str
    holds: bool


@dataclass(frozen=True)
class _Case:
    """One answer to try, and the test that must reject it ("" = all must accept it)."""

    exercise: Exercise
    trial: str
    source: str
    fails: str = ""
    scores_zero: bool = False

    @property
    def label(self) -> str:
        return f"{self.exercise.id}@{self.trial}"


def verify(lab: LabSource, batch: engine.Batch) -> list[Proof]:
    """Every proof for ``lab`` on ``batch.device``; a failed one has ``holds`` False.

    Raises KernelbookError when the reference solution itself does not run.
    """
    proofs = list(_enough(lab))
    reference = engine.load_reference(lab, batch)
    proofs += _reference_earns_everything(lab, batch)
    proofs += _unsolved_scores_nothing(lab, batch)
    cases = list(_cases(lab, batch.device))
    results = _try_all(cases, lab, batch, reference)
    proofs += [_judge(lab, case, results[case.label]) for case in cases]
    return proofs


def verify_named(name: str, device: str, root: Path = SOLUTIONS) -> list[Proof]:
    """Verify one lab in a batch of its own; a lab that cannot be tried at all is a failed proof."""
    with tempfile.TemporaryDirectory() as out:
        try:
            lab = read(find([name], root)[0], root)
            return verify(lab, engine.open_batch(Path(out), device, root=root))
        except KernelbookError as error:
            return [Proof(name, "", "reference", "full marks", str(error), False)]


def tables(
    names: Sequence[str], device: str, jobs: int, *, verbose: bool = False
) -> Iterator[tuple[Table, int]]:
    """A table and its number of failed proofs for each lab, as they end."""
    chosen = choose(device)
    wanted = {path_to_id(path): path_to_id(path) for path in find(list(names))}
    verify_lab = partial(verify_named, device=chosen)
    with Pool(jobs) as pool:
        for name, proofs in pool.map(verify_lab, wanted):
            proofs = proofs or [Proof(name, "", "verify", "a verdict", "the process died", False)]
            yield _table(name, chosen, proofs, verbose), sum(not p.holds for p in proofs)


def _table(name: str, device: str, proofs: Sequence[Proof], verbose: bool) -> Table:
    held = sum(proof.holds for proof in proofs)
    title = f"{name} on {device}: {held} of {len(proofs)} proofs hold"
    table = Table(title=title, title_justify="left", min_width=len(title), box=SIMPLE)
    for column in ("", "exercise", "tried", "wanted", "found"):
        table.add_column(column, overflow="fold")
    for p in proofs:
        if verbose or not p.holds:
            sign, style = ("✓", "green") if p.holds else ("✗", "red")
            cells = [Text(text) for text in (p.exercise, p.trial, p.wanted, p.found)]
            table.add_row(Text(sign, style=style), *cells)
    return table


def _enough(lab: LabSource) -> Iterator[Proof]:
    def proof(exercise: str, noun: str, count: int, least: int) -> Proof:
        return Proof(lab.id, exercise, noun, f"≥ {least}", str(count), count >= least)

    exercises = lab.exercises.values()
    for e in exercises:
        if len(e.tests) < LEAST_HIDDEN:
            yield proof(e.id, "hidden tests", len(e.tests), LEAST_HIDDEN)
        if len(e.hints) < LEAST_HINTS:
            yield proof(e.id, "hints", len(e.hints), LEAST_HINTS)
    yield proof("", "wrong answers", sum(len(e.wrong) for e in exercises), LEAST_WRONG)
    alternatives = sum(len(e.alternatives) for e in exercises)
    yield proof("", "alternatives", alternatives, LEAST_ALTERNATIVES)


def _reference_earns_everything(lab: LabSource, batch: engine.Batch) -> list[Proof]:
    solutions = {e.id: e.solution for e in lab.exercises.values()}
    results = _graded(lab, batch, solutions)
    lost = [f"{r.exercise}: {r.test}: {r.category}" for r in results if r.points < r.max_points]
    wanted = f"{lab.max_points(batch.device)} points"
    found = "; ".join(lost) or f"{sum(r.points for r in results)} points"
    return [Proof(lab.id, "", "reference", wanted, found, not lost)]


def _unsolved_scores_nothing(lab: LabSource, batch: engine.Batch) -> list[Proof]:
    results = _graded(lab, batch, {e.id: e.stub for e in lab.exercises.values()})
    odd = sorted({str(r.category) for r in results if r.category is not Category.NOT_ATTEMPTED})
    points = sum(r.points for r in results)
    found = f"{points} points, {', '.join(odd) or 'not attempted'}"
    holds = not odd and points == 0
    return [Proof(lab.id, "", "unsolved", "0 points, not attempted", found, holds)]


def _graded(lab: LabSource, batch: engine.Batch, answers: dict[str, str]) -> tuple[TestResult, ...]:
    """Results of a whole notebook with these answers, by the road that a submission takes."""
    return engine.run(submission.match(submission.of_answers(lab, answers), lab), lab, batch)


def _cases(lab: LabSource, device: str) -> Iterator[_Case]:
    for exercise in lab.exercises.values():
        for answer in exercise.alternatives:
            yield _Case(exercise, f"alternative, line {answer.line}", answer.source)
        for answer in exercise.wrong:
            test = next(t for t in exercise.tests if t.name == answer.fails)
            if answer.runs_on(device) and test.runs_on(device):
                yield _Case(exercise, f"wrong, line {answer.line}", answer.source, answer.fails)
        for name, text in trivial_answers(exercise).items():
            yield _Case(exercise, name, text, scores_zero=True)


def _try_all(
    cases: Sequence[_Case], lab: LabSource, batch: engine.Batch, reference: Reference
) -> dict[str, list[TestResult]]:
    results: dict[str, list[TestResult]] = {case.label: [] for case in cases}
    rooms: dict[str, list[Trial]] = {CLEAN: [], OPEN: []}
    compile_kernel = compiler_in(engine.sandbox_of(batch))
    for case in cases:
        verdict, cells = _trial_cells(case, lab, compile_kernel)
        if verdict is not None:
            results[case.label] = verdict.results(case.exercise, batch.device)
        else:
            name = OPEN if case.exercise.kind is Kind.FUNCTION else CLEAN
            rooms[name].append(Trial(case.label, case.exercise, cells))
    for name, trials in rooms.items():
        if trials:
            made = room(name, lab, batch.device, trials)
            for result in engine.run_room(made, batch, reference):
                results[result.exercise].append(result)
    return results


def _trial_cells(
    case: _Case, lab: LabSource, compile_kernel: Compile
) -> tuple[Settled | None, tuple[NotebookNode, ...]]:
    """The case's answer, beside the solutions of the other exercises that it may build on."""
    others = [e.solution for e in lab.exercises.values() if e.id != case.exercise.id]
    if case.exercise.kind is not Kind.FUNCTION:
        sources = [*others, case.source]
        return device_code(lab, case.exercise, sources, compile_kernel, case.label)
    extras = [cell_of(text, "extra") for text in others]
    return None, (*extras, cell_of(case.source, "answer", exercise=case.label))


def _judge(lab: LabSource, case: _Case, results: Sequence[TestResult]) -> Proof:
    passed = [r.test for r in results if r.category is Category.PASS]
    failed = [f"{r.test} ({r.category})" for r in results if r.category is not Category.PASS]
    if case.fails:
        wanted, holds = f"loses: {case.fails}", case.fails not in passed
        found = f"loses: {'; '.join(failed)}" if failed else "passes every test"
    elif case.scores_zero:
        wanted, holds = "loses every test", not passed
        found = f"passes: {'; '.join(passed)}" if passed else "loses every test"
    else:
        wanted, holds = "full marks", not failed
        found = f"loses: {'; '.join(failed)}" if failed else "full marks"
    return Proof(lab.id, case.exercise.id, case.trial, wanted, found, holds and bool(results))
