"""Grades a batch: one pure unit of work per submission, a pool of processes around it.

:func:`grade_one` turns a :class:`GradeJob` into a :class:`Record` and depends on nothing else; its
key is derived from what it read, so a batch that was killed resumes where it stopped. The seed, the
reference answers and the running rooms live in ``OUT/private``, which no learner's process sees.

Limit: the pool is of one machine. Another engine needs only to call :func:`grade_one`.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import kernelbook
from kernelbook import compilers, source
from kernelbook.errors import KernelbookError, SourceError, SubmissionError
from kernelbook.grade import record as records
from kernelbook.grade import runner, submission
from kernelbook.grade.assemble import assemble
from kernelbook.grade.record import Category, Record, TestResult
from kernelbook.grade.runner import Reference
from kernelbook.grade.sandbox import Sandbox
from kernelbook.source import Exercise, Kind, LabSource

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


def handed_in(paths: Sequence[Path]) -> list[tuple[Path, str]]:
    """``(notebook, learner)`` for every path: a file, or a folder with one folder per learner.

    In a folder, the learner is the first folder below it, or the file's name where there is none.
    """
    found: list[tuple[Path, str]] = []
    for path in paths:
        if path.is_dir() and path.suffix != ".ipynb":
            inside = sorted(p for p in path.rglob("*.ipynb") if not _hidden(p.relative_to(path)))
            found += [(p, _learner(p.relative_to(path))) for p in inside if not _nested(p, inside)]
        else:
            found.append((path, path.stem))
    return list(dict.fromkeys(found))


def grade(
    jobs: Sequence[GradeJob], *, workers: int, done: Callable[[GradeJob, Record], None]
) -> list[Record]:
    """Grade every job; ``done`` is called as each ends. Never raises for a submission's fault."""
    if not jobs:
        return []
    _prepare_references(jobs)
    results: dict[int, Record] = {}
    waiting = dict(enumerate(jobs))
    for attempt in range(2):  # a worker that dies takes its job with it; that job gets one more try
        broken: dict[int, GradeJob] = {}
        for number, outcome in _pool(waiting, workers):
            if outcome is None and attempt == 0:
                broken[number] = waiting[number]
                continue
            result = outcome or _infrastructure(waiting[number], "the grading process died twice")
            results[number] = result
            done(waiting[number], result)
        waiting = broken
        if not waiting:
            break
    return [results[number] for number in sorted(results)]


def grade_one(job: GradeJob) -> Record:
    """Grade one submission and write its record. A record that stands already is returned as is."""
    batch = job.batch
    try:
        handed = submission.read(job.path, job.learner)
        lab = _lab_of(job, handed)
    except SubmissionError as error:
        return _refused(job, str(error))
    key = records.key_of(
        handed.sha256, lab.id, lab.version, kernelbook.__version__, batch.seed_id, batch.device
    )
    standing = records.find(batch.out, job.learner, lab.id, key)
    if standing is not None:
        return standing
    blank = _blank(job, handed, lab, key)
    try:
        matched = submission.match(handed, lab)
    except SubmissionError as error:
        result = replace(blank, reason=str(error), results=_all(lab, batch.device, str(error)))
    else:
        result = replace(
            blank,
            matched={name: found.rule for name, found in matched.answers.items()},
            notes=matched.notes,
            results=_run(matched, lab, batch),
        )
    records.write(result, batch.out)
    return result


def _run(matched: submission.Matched, lab: LabSource, batch: Batch) -> tuple[TestResult, ...]:
    sandbox = sandbox_of(batch)
    with compilers_for(sandbox) as compile_kernel:
        assembly = assemble(matched, lab, batch.device, compile_kernel)
    reference = load_reference(lab, batch)
    results = {(r.exercise, r.test): r for r in assembly.settled}
    for room in assembly.rooms:
        for result in runner.run_room(room, batch.device, batch.seed, sandbox, reference):
            results[result.exercise, result.test] = result
    # The maximum is the lab's alone: a test that nobody reported is missing, never absent.
    return tuple(
        results.get((t.exercise, t.name)) or _missing(t.exercise, t.name, t.points)
        for t in lab.tests(batch.device)
    )


def reference_of(lab: LabSource, batch: Batch) -> Reference:
    """Run the lab's own solutions once; their answers are what submissions are compared with.

    Raises KernelbookError when a solution fails: then nothing of this lab can be graded.
    """
    solutions = {e.id: e.solution for e in lab.exercises.values()}
    matched = submission.match(submission.of_answers(lab, solutions), lab)
    sandbox = sandbox_of(batch)
    with compilers_for(sandbox) as compile_kernel:
        assembly = assemble(matched, lab, batch.device, compile_kernel)
    if assembly.settled:
        worst = assembly.settled[0]
        raise KernelbookError(f"{lab.id}: the solution of {worst.exercise}: {worst.message}")
    merged: Reference = Reference({}, {})
    for room in assembly.rooms:
        merged = merged.with_(runner.run_reference(room, batch.device, batch.seed, sandbox))
    return merged
