"""Grades a batch: one pure unit of work per submission, a pool of processes around it.

:func:`grade_one` turns a :class:`GradeJob` into a :class:`Record` and depends on nothing else; its
key is derived from what it read, so a batch that was killed resumes where it stopped. The seed, the
reference answers and the running rooms live in ``OUT/private``, which no learner's process sees.

Limit: the pool is of one machine. Another engine needs only to call :func:`grade_one`.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import tempfile
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

import nbformat

import kernelbook
from kernelbook import source
from kernelbook.errors import KernelbookError, SourceError, SubmissionError
from kernelbook.grade import plugin, submission
from kernelbook.grade import record as records
from kernelbook.grade import reference as references
from kernelbook.grade.assemble import CLEAN, Room, assemble
from kernelbook.grade.compiler import compiler_in
from kernelbook.grade.outcome import RunOutcome
from kernelbook.grade.pool import Pool
from kernelbook.grade.record import Category, Record, TestResult
from kernelbook.grade.reference import Reference
from kernelbook.grade.sandbox import Sandbox
from kernelbook.grade.submission import Matched, Submission
from kernelbook.source import HiddenTest, LabSource

PRIVATE = "private"
SEED_BYTES = 16


@dataclass(frozen=True)
class Batch:
    """What all submissions of one grading share. ``seed`` is secret, ``seed_id`` is public."""

    out: Path
    device: str  # "sim" or "gpu"
    seed: bytes
    sandboxed: bool = True
    root: Path = source.SOLUTIONS

    @property
    def seed_id(self) -> str:
        return hashlib.sha256(b"seed id" + self.seed).hexdigest()[:16]

    @property
    def private(self) -> Path:
        return self.out / PRIVATE


@dataclass(frozen=True)
class GradeJob:
    """One submission to grade. ``lab`` is the lab that was asked for, "" to let the file say."""

    batch: Batch
    path: Path
    learner: str
    lab: str = ""


def open_batch(
    out: Path, device: str, *, sandboxed: bool = True, root: Path = source.SOLUTIONS
) -> Batch:
    """Start a batch in ``out``, or go on with the one that is there (same secret seed)."""
    private = out / PRIVATE
    private.mkdir(parents=True, exist_ok=True)
    private.chmod(0o700)
    path = private / "seed"
    if not path.exists():
        _write_private(path, secrets.token_hex(SEED_BYTES))
    seed = bytes.fromhex(path.read_text())
    return Batch(out=out, device=device, seed=seed, sandboxed=sandboxed, root=root)


def grade(
    jobs: Sequence[GradeJob], *, workers: int, done: Callable[[GradeJob, Record], None]
) -> list[Record]:
    """Grade every job; ``done`` is called as each ends. Never raises for a submission's fault.

    Raises SandboxError, before anything has run, where learners' code would have no border.
    """
    for batch in {job.batch for job in jobs}:
        sandbox_of(batch)
    results: dict[int, Record] = {}

    def finish(number: int, result: Record) -> None:
        results[number] = result
        done(jobs[number], result)

    with Pool(workers) as pool:
        list(pool.map(_ensure_reference, _labs_needed(jobs)))
        for number, result in pool.map(grade_one, dict(enumerate(jobs))):
            if result is not None:
                finish(number, result)
    # A process that died took every waiting job with it; alone, only the guilty one dies again.
    for number in [n for n in range(len(jobs)) if n not in results]:
        with Pool(1) as pool:
            for _, result in pool.map(grade_one, {number: jobs[number]}):
                finish(number, result or _grader_died(jobs[number]))
    return [results[number] for number in sorted(results)]


def grade_one(job: GradeJob) -> Record:
    """Grade one submission and keep its record.

    A record that stands already is returned as it is, unless our own failure left it without marks.
    """
    try:
        return _grade(job)
    except Exception:  # whatever a submission provokes in us stops nobody else
        _tell_instructor(job.batch, f"{job.path}: {traceback.format_exc()}")
        return _refused(job, "the grader failed on this file; your instructor sees why")


def _grade(job: GradeJob) -> Record:
    batch = job.batch
    try:
        handed = submission.read(job.path, job.learner)
        lab = _lab_of(job, handed)
    except SubmissionError as error:
        return _refused(job, str(error))
    blank = _blank(job, handed, lab)
    standing = records.find(batch.out, job.learner, lab.id, blank.key)
    if standing is not None and not _failed_by_us(standing):
        return standing
    try:
        matched = submission.match(handed, lab)
        found = {name: found.rule for name, found in matched.answers.items()}
        result = replace(
            blank, matched=found, notes=matched.notes, results=run(matched, lab, batch)
        )
    except SubmissionError as error:
        result = replace(blank, reason=str(error), results=_all(Category.MISSING, lab, batch))
    except KernelbookError as error:
        _tell_instructor(batch, f"{job.path}: {error}")
        result = replace(blank, results=_all(Category.INFRASTRUCTURE, lab, batch))
    return _keep(result, batch)


def run(matched: Matched, lab: LabSource, batch: Batch) -> tuple[TestResult, ...]:
    """Every hidden test of the lab on these answers, in the lab's order."""
    reference = load_reference(lab, batch)
    assembly = assemble(matched, lab, batch.device, compiler_in(sandbox_of(batch)))
    results = {(r.exercise, r.test): r for r in assembly.settled}
    for room in assembly.rooms:
        for result in run_room(room, batch, reference):
            results[result.exercise, result.test] = result
    # The maximum is the lab's alone: a test that nobody reported is missing, never absent.
    return tuple(
        results.get((test.exercise, test.name)) or _missing(test)
        for test in lab.tests(batch.device)
    )


def run_room(room: Room, batch: Batch, reference: Reference) -> list[TestResult]:
    """Run one room in the sandbox and judge its tests by the reference's answers."""
    originals = {(label, test.name): (test.exercise, test.name) for label, test in room.tests}
    mine = reference.relabelled(originals)
    outcome = _run_notebook(room, batch, mine)
    for test in outcome.tests:
        if test.note:
            _tell_instructor(batch, f"{test.exercise}: {test.test}: {test.note}")
    points = {(label, test.name): test.points for label, test in room.tests}
    return [
        TestResult(
            exercise=test.exercise,
            test=test.test,
            category=test.category,
            points=points[test.exercise, test.test] if test.category is Category.PASS else 0,
            max_points=points[test.exercise, test.test],
            message=test.message,
            seconds=round(test.seconds, 3),
        )
        for test in outcome.tests
    ]


@lru_cache(maxsize=1)
def grader_version() -> str:
    """The package's version and a hash of its code: a mended grader resumes no old mark."""
    digest = hashlib.sha256()
    folder = Path(kernelbook.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return f"{kernelbook.__version__}+{digest.hexdigest()[:8]}"


def load_reference(lab: LabSource, batch: Batch) -> Reference:
    """The reference answers of this batch, from its files or by a run of the lab's solutions.

    Raises KernelbookError when a solution fails here: then nothing of this lab can be graded.
    """
    name = f"{records.slug(lab.id)}-{lab.version}-{batch.device}.npz"
    path = batch.private / "reference" / name
    if not path.exists():
        references.save(_reference_run(lab, batch), path)
    return _cached_reference(path)


@lru_cache(maxsize=64)
def _cached_reference(path: Path) -> Reference:
    return references.load(path)


def _reference_run(lab: LabSource, batch: Batch) -> Reference:
    solutions = {e.id: e.solution for e in lab.exercises.values()}
    matched = submission.match(submission.of_answers(lab, solutions), lab)
    assembly = assemble(matched, lab, batch.device, compiler_in(sandbox_of(batch)))
    for refused in assembly.settled:
        raise KernelbookError(f"{lab.id}: the solution of {refused.exercise}: {refused.message}")
    answers, seconds = {}, {}
    for room in assembly.rooms:
        for test in _run_notebook(room, batch, None).tests:
            if test.category is not Category.PASS:
                raise KernelbookError(
                    f"{lab.id}: the solution of {test.exercise} fails its own test {test.test!r} "
                    f"on {batch.device}: {test.category}. {test.message} {test.note}".rstrip()
                )
            answers[test.exercise, test.test] = test.answers
            seconds[test.exercise, test.test] = test.seconds
    return Reference(answers, seconds)


def _run_notebook(room: Room, batch: Batch, reference: Reference | None) -> RunOutcome:
    """Write the room where no learner can read it, run it, and take it away again."""
    exercises = {(label, test.name): test.exercise for label, test in room.tests}

    def seed(label: str, test: str) -> int:
        text = f"{exercises[label, test]}\0{test}".encode()
        return int.from_bytes(hashlib.blake2b(text, key=batch.seed, digest_size=16).digest())

    rooms = batch.private / "rooms"
    rooms.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=rooms) as folder:
        path = Path(folder, f"{room.name}.ipynb")
        nbformat.write(room.notebook, path)
        return plugin.run(
            path,
            sandbox=sandbox_of(batch),
            device=batch.device,
            seeds=seed,
            budgets=reference.budgets() if reference else None,
            references=reference.answers if reference else None,
            quote=room.name == CLEAN,
        )


def sandbox_of(batch: Batch) -> Sandbox:
    """The border around learners' code. Raises SandboxError when there is none to be had."""
    return _detected() if batch.sandboxed else Sandbox.none()


@lru_cache(maxsize=1)
def _detected() -> Sandbox:
    return Sandbox.detect()


def _lab_of(job: GradeJob, handed: Submission) -> LabSource:
    """The lab that the notebook says it is, if that is the one wanted and there is one."""
    if job.lab and handed.lab and handed.lab != job.lab:
        raise SubmissionError(f"this is a notebook of {handed.lab}; wanted: {job.lab}")
    name = job.lab or handed.lab or _lab_by_file_name(job)
    if not name:
        raise SubmissionError(
            "the notebook does not say which lab it is: neither its metadata, nor a line "
            'lab.begin("…"), nor its file name. Name the lab with --lab.'
        )
    try:
        return _read_lab(name, job.batch.root)
    except SourceError:
        raise SubmissionError(f"the notebook says it is lab {name!r:.100}; there is none") from None


def _lab_by_file_name(job: GradeJob) -> str:
    """The lab that this file name means (``cuda-reduce.ipynb``, ``reduce.ipynb``), or ""."""
    names = [source.path_to_id(path, job.batch.root) for path in source.find([], job.batch.root)]
    stem = job.path.stem
    found = [name for name in names if stem in (name.replace("/", "-"), name.split("/")[-1])]
    return found[0] if len(found) == 1 else ""


@lru_cache(maxsize=128)
def _read_lab(name: str, root: Path) -> LabSource:
    return source.read(source.find([name], root)[0], root)


def _refused(job: GradeJob, reason: str) -> Record:
    """The record of a file that cannot be graded at all, so that nobody is lost."""
    sha256, time = submission.fingerprint(job.path)
    lab = None
    name = job.lab or _lab_by_file_name(job)
    with suppress(SourceError):
        lab = _read_lab(name, job.batch.root) if name else None
    unread = Submission(str(job.path), job.learner, sha256, time, "", "", ())
    results = _all(Category.MISSING, lab, job.batch) if lab else ()
    return _keep(replace(_blank(job, unread, lab), reason=reason, results=results), job.batch)


def _grader_died(job: GradeJob) -> Record:
    """Our own process ended twice over this file: nobody's mark, an instructor's business."""
    return _refused(job, "the grading process died twice over this file; see the instructor")


def _blank(job: GradeJob, handed: Submission, lab: LabSource | None) -> Record:
    """The record of this grading, before anything has been found."""
    batch = job.batch
    lab_id, version = (lab.id, lab.version) if lab else (job.lab or "unknown", "")
    return Record(
        key=records.key_of(
            handed.sha256, lab_id, version, grader_version(), batch.seed_id, batch.device
        ),
        learner=job.learner,
        lab=lab_id,
        lab_version=version,
        path=handed.path,
        submission_sha256=handed.sha256,
        submitted_at=handed.submitted_at,
        graded_at=datetime.now(UTC).isoformat(),
        grader_version=grader_version(),
        seed_id=batch.seed_id,
        device=batch.device,
        isolation=sandbox_of(batch).layers,
        matched={},
        notes=(),
        reason="",
        results=(),
    )


def _failed_by_us(standing: Record) -> bool:
    return any(result.category is Category.INFRASTRUCTURE for result in standing.results)


def _tell_instructor(batch: Batch, text: str) -> None:
    """Keep what no learner may read (expected values, our own failures) in a private log."""
    log_file = batch.private / "log.txt"
    with log_file.open("a", encoding="utf-8", errors="backslashreplace") as log:
        log.write(f"{datetime.now(UTC).isoformat(timespec='seconds')}  {text}\n")


def _keep(result: Record, batch: Batch) -> Record:
    records.write(result, batch.out)
    return result


def _all(category: Category, lab: LabSource, batch: Batch) -> tuple[TestResult, ...]:
    return tuple(replace(_missing(test), category=category) for test in lab.tests(batch.device))


def _missing(test: HiddenTest) -> TestResult:
    return TestResult(test.exercise, test.name, Category.MISSING, 0, test.points)


def _labs_needed(jobs: Sequence[GradeJob]) -> dict[str, tuple[str, Batch]]:
    """Labs whose reference run the batch waits for, by name."""
    needed: dict[str, tuple[str, Batch]] = {}
    for job in jobs:
        with suppress(Exception):  # shows again, and is recorded, when the job is graded
            lab = _lab_of(job, submission.read(job.path, job.learner))
            needed.setdefault(lab.id, (lab.id, job.batch))
    return needed


def _ensure_reference(lab_and_batch: tuple[str, Batch]) -> None:
    """Run and store a lab's reference; a failure shows again, and is recorded, for each job."""
    name, batch = lab_and_batch
    with suppress(KernelbookError):
        load_reference(_read_lab(name, batch.root), batch)


def _write_private(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
