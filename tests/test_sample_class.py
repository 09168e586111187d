"""The class that ``make demo`` grades: every submission must come to what its name says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kernelbook import source
from kernelbook.grade import engine, report
from kernelbook.grade.engine import GradeJob
from kernelbook.grade.handed_in import handed_in
from kernelbook.grade.record import Category, Record

ROOT = Path(__file__).parents[1]
CLASS = ROOT / "examples" / "class"
FIRST = source.read(source.find(["cuda/first-kernels"])[0])
HOST = next(e for e in FIRST.exercises.values() if e.kind is source.Kind.FUNCTION)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("graded")


@pytest.fixture(scope="module")
def graded(out: Path) -> dict[tuple[str, str], Record]:
    batch = engine.open_batch(out, "sim")
    jobs = [GradeJob(batch, path, learner) for path, learner in handed_in([CLASS])]
    found = engine.grade(jobs, workers=2, done=lambda *_: None)
    return {(record.learner, record.lab): record for record in found}


def test_class_is_what_its_builder_gives() -> None:
    command = [sys.executable, "examples/build_class.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_class_every_file_has_a_record(graded: dict[tuple[str, str], Record]) -> None:
    assert len(graded) == len(list(CLASS.rglob("*.ipynb"))) >= 12


def test_class_right_answers_earn_full_marks(graded: dict[tuple[str, str], Record]) -> None:
    full = [r for (who, _), r in graded.items() if who.startswith("right")]
    full += [
        graded[who, FIRST.id]
        for who in ("broken-no-metadata", "broken-reordered", "broken-split-and-copied")
    ]
    assert len(full) == 7
    lost = [f"{r.learner}: {t.test}: {t.category}" for r in full for t in r.results if not t.points]
    assert lost == []


def test_class_hostile_code_loses_its_own_exercise_only(
    graded: dict[tuple[str, str], Record],
) -> None:
    hostile = {who: r for (who, _), r in graded.items() if who.startswith("hostile")}
    assert len(hostile) == 6
    for record in hostile.values():
        assert record.points == record.max_points - HOST.points("sim"), record.learner
    first = {
        who: next(t.category for t in record.results if t.exercise == HOST.id)
        for who, record in hostile.items()
    }
    assert first["hostile-loops-for-ever"] is Category.TIMEOUT
    assert first["hostile-ends-the-process"] is Category.DIED
    assert first["hostile-floods-the-output"] in (Category.OUTPUT_LIMIT, Category.TIMEOUT)
    assert first["hostile-patches-numpy"] is Category.WRONG


def test_class_partial_and_unsolved_are_told_apart(
    graded: dict[tuple[str, str], Record],
) -> None:
    for lab in (FIRST.id, "cuda/reduce"):
        half, unsolved = graded["half-done", lab], graded["unsolved", lab]
        assert 0 < half.points < half.max_points
        assert {t.category for t in half.results} == {Category.PASS, Category.NOT_ATTEMPTED}
        assert {t.category for t in unsolved.results} == {Category.NOT_ATTEMPTED}
        assert graded["known-mistakes", lab].points < half.points


def test_class_unreadable_files_have_a_reason(graded: dict[tuple[str, str], Record]) -> None:
    assert "empty" in graded["broken-empty", FIRST.id].reason
    assert "not valid JSON" in graded["broken-not-json", FIRST.id].reason


def test_class_feedback_shows_nothing_that_is_hidden(
    graded: dict[tuple[str, str], Record], out: Path
) -> None:
    written = report.render_all(out)
    pages = [path.read_text() for path in written.feedback]
    assert len(pages) >= len(graded)
    hidden = {
        line.strip()
        for lab in (FIRST, source.read(source.find(["cuda/reduce"])[0]))
        for test in lab.tests("gpu")
        for line in test.source.splitlines()
        if len(line.strip()) > 24
    }
    assert hidden
    assert [line for line in hidden if any(line in page for page in pages)] == []
