"""Whole submissions by the real road: lifted, compiled, sandboxed, run under nbval, compared."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelbook import release
from kernelbook.errors import SandboxError
from kernelbook.grade import engine, record
from kernelbook.grade.engine import Batch, GradeJob
from kernelbook.grade.handed_in import handed_in
from kernelbook.grade.record import Category, Record
from kernelbook.source import LabSource
from samples import LAB_ID, RIGHT, TEXT, write_lab


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("solutions")


@pytest.fixture(scope="module")
def lab(root: Path) -> LabSource:
    return write_lab(root)


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Batch:
    return engine.open_batch(tmp_path_factory.mktemp("out"), "sim", root=root)


@pytest.fixture
def graded(tmp_path: Path, lab: LabSource, batch: Batch) -> Iterator[object]:
    def grade(answers: dict[str, str], name: str = "someone") -> Record:
        notebook = release.build(lab)
        for cell in notebook.cells:
            cell.source = answers.get(cell.id, cell.source)
        path = tmp_path / f"{name}.ipynb"
        path.write_text(release.text_of(notebook))
        return engine.grade_one(GradeJob(batch, path, name))

    return grade


def ends(found: Record) -> dict[str, Category]:
    return {result.test: result.category for result in found.results}


def test_grade_right_answer_earns_everything(graded, lab: LabSource) -> None:
    found = graded(RIGHT)
    assert found.points == found.max_points == lab.max_points("sim") == 5
    assert found.isolation
    assert found.matched == {"double": "id", "half": "id"}


def test_grade_wrong_answer_loses_its_test_with_the_authored_message(graded) -> None:
    unguarded = "# one\n# two\n" + RIGHT["double"].replace("if i < out.size:", "if True:")
    found = graded(RIGHT | {"double": unguarded})
    assert ends(found) == {
        "sizes around the block": Category.ERROR,
        "more threads than elements": Category.ERROR,
        "odd numbers": Category.PASS,
    }
    assert "BoundsError" in found.results[0].message
    assert "line 7: reads x[1]" in found.results[0].message
    wrong = graded(RIGHT | {"half": "def half(number):\n    return number // 2\n"})
    last = wrong.results[-1]
    assert (last.category, last.message) == (Category.WRONG, "An odd number has a half, too.")


def test_grade_unsolved_is_not_attempted(graded) -> None:
    found = graded({})
    assert set(ends(found).values()) == {Category.NOT_ATTEMPTED}
    assert found.points == 0
    assert found.max_points == 5


@pytest.mark.parametrize(
    ("body", "category"),
    [
        ("while True:\n        pass", Category.TIMEOUT),
        ("import os\n    os._exit(0)", Category.DIED),
        ("while True:\n        print('x' * 100_000)", Category.OUTPUT_LIMIT),
        ("raise ValueError('no')", Category.ERROR),
        ("return 'a half'", Category.WRONG),
        (
            "import kernelbook.lab\n    kernelbook.lab.answer = lambda *a, **k: None",
            Category.WRONG,  # the first answer is given before the patch: one where five are due
        ),
    ],
    ids=["loops", "exits", "floods", "raises", "text", "silenced answer"],
)
def test_grade_hostile_function_costs_only_its_own_marks(
    graded, body: str, category: Category
) -> None:
    found = graded(RIGHT | {"half": f"def half(number):\n    {body}\n"})
    assert ends(found)["odd numbers"] is category
    assert found.points == 3


def test_grade_function_that_patches_the_simulator_reaches_no_kernel(graded) -> None:
    patch = (
        "import numpy as np, kernelbook.lab as lab\n"
        "lab.answer = lambda value, **k: None\n"
        "lab.empty = lambda *a, **k: np.zeros(1)\n"
    )
    broken = RIGHT["double"].replace("x[i] * 2", "x[i] * 3")
    found = graded({"half": patch + RIGHT["half"], "double": broken})
    assert [r.category for r in found.results[:2]] == [Category.WRONG, Category.WRONG]


def test_grade_learners_constant_of_our_name_changes_nothing_of_ours(graded) -> None:
    kernel = "n = 2\nx = 5\n" + RIGHT["double"].replace("x[i] * 2", "x[i] * n")
    assert graded(RIGHT | {"double": kernel}).points == 5


def test_grade_open_room_shows_no_text_once_a_test_has_begun(graded) -> None:
    leaks = (
        "import inspect\n"
        "class odd_numbers_are_tested(Exception):\n    def _render_traceback_(self):\n"
        "        return [str(self)]\n"
        "def half(number):\n"
        "    raise odd_numbers_are_tested(f'the input was {number}')\n"
    )
    message = graded(RIGHT | {"half": leaks}).results[-1].message
    assert message == "Your code raised an exception."
    named = "def half(number):\n    raise ValueError(number)\n"
    assert graded(RIGHT | {"half": named}).results[-1].message == "Your code raised ValueError."


def test_grade_own_failure_is_a_record_not_a_crash(graded, monkeypatch, batch: Batch) -> None:
    def fails(*args: object) -> None:
        raise RuntimeError("a fault of ours \ud800")

    monkeypatch.setattr(engine, "run", fails)
    found = graded(RIGHT, "unlucky")
    assert "the grader failed" in found.reason
    assert "a fault of ours" in (batch.private / "log.txt").read_text()


def test_grade_key_follows_the_graders_code(graded, monkeypatch) -> None:
    before = graded(RIGHT, "regraded")
    monkeypatch.setattr(engine, "grader_version", lambda: "0.1.0+mended")
    assert graded(RIGHT, "regraded").key != before.key


def test_grade_same_submission_again_is_not_run_again(graded, monkeypatch) -> None:
    first = graded(RIGHT, "twice")
    monkeypatch.setattr(engine, "run", None)
    assert graded(RIGHT, "twice") == first


def test_grade_batch_keeps_going_past_every_bad_file(
    tmp_path: Path, lab: LabSource, batch: Batch
) -> None:
    inside = tmp_path / "class"
    good = release.build(lab)
    for cell in good.cells:
        cell.source = RIGHT.get(cell.id, cell.source)
    bad = {
        "empty": b"",
        "text": b"hello",
        "latin": b'{"a": "\xe9"}',
        "foreign": b'{"cells": []}',
        "no-such-lab": json.dumps(
            {"metadata": {"kernelbook": {"lab": "tiny/triple"}}, "cells": []}
        ).encode(),
        "empty-handed é": None,
    }
    for name, data in bad.items():
        folder = inside / name
        folder.mkdir(parents=True)
        if data is not None:
            (folder / "lab.ipynb").write_bytes(data)
    (inside / "right").mkdir()
    (inside / "right" / "lab.ipynb").write_text(release.text_of(good))
    jobs = [GradeJob(batch, path, learner) for path, learner in handed_in([inside])]
    seen: list[str] = []
    found = engine.grade(jobs, workers=2, done=lambda job, _: seen.append(job.learner))
    assert sorted(seen) == sorted(r.learner for r in found)
    assert len(found) == len(bad) + 1
    reasons = {r.learner: r.reason for r in found}
    assert reasons.pop("right") == ""
    assert all(reasons.values())
    assert {r.learner for r in found} <= {r.learner for r in record.read_all(batch.out)}


def test_grade_other_lab_than_asked_is_refused(tmp_path: Path, batch: Batch) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"metadata": {"kernelbook": {"lab": "x/y"}}, "cells": []}))
    found = engine.grade_one(GradeJob(batch, path, "someone", lab=LAB_ID))
    assert "wanted: tiny/double" in found.reason
    assert {r.category for r in found.results} == {Category.MISSING}
    assert found.max_points == 5


def test_grade_without_a_sandbox_refuses_before_anything_runs(
    tmp_path: Path, batch: Batch, monkeypatch
) -> None:
    def missing() -> None:
        raise SandboxError("sandbox: no bubblewrap binary found")

    monkeypatch.setattr(engine, "_detected", missing)
    path = tmp_path / "a.ipynb"
    path.write_text("{}")
    with pytest.raises(SandboxError, match="no bubblewrap"):
        engine.grade([GradeJob(batch, path, "nobody")], workers=1, done=lambda *_: None)
    assert all(r.learner != "nobody" for r in record.read_all(batch.out))


def test_grade_worker_killed_loses_only_the_guilty(
    tmp_path: Path, lab: LabSource, batch: Batch, monkeypatch
) -> None:
    paths = []
    for name in ("one", "two", "guilty"):
        path = tmp_path / f"{name}.ipynb"
        path.write_text(release.text_of(release.build(lab)))
        paths.append(path)
    monkeypatch.setattr(engine, "grade_one", _dies_over_guilty)
    jobs = [GradeJob(batch, path, path.stem) for path in paths]
    found = {r.learner: r for r in engine.grade(jobs, workers=2, done=lambda *_: None)}
    assert found["one"].reason == found["two"].reason == ""
    assert "died twice" in found["guilty"].reason


def _dies_over_guilty(job: GradeJob) -> Record:
    if job.learner == "guilty":
        os._exit(3)
    return engine.grade_one(job)


def test_open_batch_keeps_its_seed_and_hides_it(tmp_path: Path) -> None:
    first = engine.open_batch(tmp_path, "sim")
    assert engine.open_batch(tmp_path, "sim").seed == first.seed
    assert first.seed.hex() not in first.seed_id
    assert (tmp_path / "private").stat().st_mode & 0o077 == 0


def test_reference_failing_lab_is_infrastructure_not_zero_work(tmp_path: Path, root: Path) -> None:
    broken = TEXT.replace("    halved = number / 2\n", "    halved = undefined\n")
    lab = write_lab(tmp_path / "solutions", broken)
    batch = engine.open_batch(tmp_path / "out", "sim", root=tmp_path / "solutions")
    notebook = release.build(lab)
    for cell in notebook.cells:
        cell.source = RIGHT.get(cell.id, cell.source)
    path = tmp_path / "a.ipynb"
    path.write_text(release.text_of(notebook))
    found = engine.grade_one(GradeJob(batch, path, "someone"))
    assert {r.category for r in found.results} == {Category.INFRASTRUCTURE}
    assert found.notes == ()  # a learner reads the notes
    log = (tmp_path / "out" / "private" / "log.txt").read_text()
    assert "solution of half" in log
