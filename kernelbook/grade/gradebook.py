"""The gradebook: ``gradebook.sqlite`` and two CSV files, built anew from the records each time.

Tables: learner, lab, submission, test_result; the view ``mark`` holds what counts. Points are
whole numbers. Of one learner's submissions for one lab all are rows and one has ``counts`` = 1:
the newest by ``submitted_at`` (then ``graded_at``, then path) among those that could be graded.
A submission that could not be graded counts only where there is no other: a broken upload
never takes away a mark that stands.

Limit: the files are written whole, so an edit made in them by hand is lost at the next build.
"""

from __future__ import annotations

import csv
import io
import json
import secrets
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelbook.grade.record import Category, Record, instant, slug, visible

SQLITE = "gradebook.sqlite"
CSV = "gradebook.csv"
TESTS_CSV = "gradebook-tests.csv"
FEEDBACK = "feedback"

MARK_COLUMNS = (
    *("learner", "lab", "points", "max_points", "percent", "status", "reason", "device"),
    *("submitted_at", "graded_at", "submissions", "key", "feedback"),
)
TEST_COLUMNS = ("learner", "lab", "exercise", "test", "category", "points", "max_points", "key")

# A spreadsheet takes a cell that begins so for a formula (OWASP, "CSV injection"). The quote
# itself is guarded too, so that taking one off always gives the text back.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "'", "＝", "＋", "－", "＠")

GRADED = "graded"
NOT_GRADED = "not graded"
GRADE_AGAIN = "grade again"

SCHEMA = """
CREATE TABLE learner (
    learner_id INTEGER PRIMARY KEY,
    learner TEXT NOT NULL,
    slug TEXT NOT NULL UNIQUE
);
CREATE TABLE lab (
    lab_id INTEGER PRIMARY KEY,
    lab TEXT NOT NULL,
    slug TEXT NOT NULL UNIQUE
);
CREATE TABLE submission (
    submission_id INTEGER PRIMARY KEY,
    learner_id INTEGER NOT NULL REFERENCES learner,
    lab_id INTEGER NOT NULL REFERENCES lab,
    counts INTEGER NOT NULL CHECK (counts IN (0, 1)),
    status TEXT NOT NULL CHECK (status IN ('graded', 'not graded', 'grade again')),
    reason TEXT NOT NULL,
    points INTEGER NOT NULL,
    max_points INTEGER NOT NULL,
    device TEXT NOT NULL,
    submitted_at TEXT NOT NULL,
    graded_at TEXT NOT NULL,
    path TEXT NOT NULL,
    submission_sha256 TEXT NOT NULL,
    key TEXT NOT NULL,
    lab_version TEXT NOT NULL,
    grader_version TEXT NOT NULL,
    seed_id TEXT NOT NULL,
    isolation TEXT NOT NULL,  -- JSON list of the sandbox layers that were on
    matched TEXT NOT NULL,    -- JSON object, exercise to the rule that found the cell
    notes TEXT NOT NULL       -- JSON list
);
CREATE UNIQUE INDEX one_counts ON submission (learner_id, lab_id) WHERE counts;
CREATE TABLE test_result (
    submission_id INTEGER NOT NULL REFERENCES submission,
    position INTEGER NOT NULL,
    exercise TEXT NOT NULL,
    test TEXT NOT NULL,
    category TEXT NOT NULL,
    points INTEGER NOT NULL,
    max_points INTEGER NOT NULL,
    message TEXT NOT NULL,
    seconds REAL NOT NULL,
    PRIMARY KEY (submission_id, position)
) WITHOUT ROWID;
CREATE VIEW mark AS
    SELECT learner, lab, points, max_points, status, reason, device, submitted_at, key
    FROM submission JOIN learner USING (learner_id) JOIN lab USING (lab_id)
    WHERE counts ORDER BY learner, lab;
"""


@dataclass(frozen=True)
class Entry:
    """A record and whether it is the one that counts for its learner and lab."""

    record: Record
    counts: bool

    @property
    def status(self) -> str:
        return status_of(self.record)

    @property
    def feedback(self) -> str:
        """The feedback page, as a path under the output folder; one a learner, lab and key."""
        record = self.record
        return f"{FEEDBACK}/{slug(record.learner)}/{slug(record.lab)}-{record.key[:8]}.html"


def status_of(record: Record) -> str:
    """Return what may be done with the mark: it stands, there is none, or it is not final."""
    if record.reason:
        return NOT_GRADED
    if any(result.category is Category.INFRASTRUCTURE for result in record.results):
        return GRADE_AGAIN
    return GRADED


def entries(records: Iterable[Record]) -> list[Entry]:
    """Return all records by learner, lab and age, oldest first, with the one that counts marked."""
    ordered = sorted(records, key=lambda r: (r.learner, r.lab, *_age(r)))
    counting: dict[tuple[str, str], int] = {}
    for i, record in enumerate(ordered):
        place = (record.learner, record.lab)
        if place not in counting or not record.reason or ordered[counting[place]].reason:
            counting[place] = i
    chosen = set(counting.values())
    return [Entry(record, i in chosen) for i, record in enumerate(ordered)]


def build(records: Iterable[Record], out_dir: Path) -> tuple[Path, Path, Path]:
    """Write the SQLite gradebook and the two CSV files; each replaces the old one whole."""
    book = entries(records)
    out_dir = Path(out_dir)
    return (
        replace_file(out_dir / SQLITE, _sqlite(book)),
        replace_file(out_dir / CSV, _csv(MARK_COLUMNS, _mark_rows(book))),
        replace_file(out_dir / TESTS_CSV, _csv(TEST_COLUMNS, _test_rows(book))),
    )


def replace_file(path: Path, data: bytes) -> Path:
    """Give ``path`` the new content at once: a reader sees the old file or the new, no mixture."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temp = path.parent / f".writing-{secrets.token_hex(8)}"
    try:
        temp.write_bytes(data)
        temp.replace(path)
    finally:
        temp.unlink(missing_ok=True)
    return path


def guard(cell: str) -> str:
    """Return the text of a CSV cell so that no spreadsheet runs it: ``=1+1`` gives ``'=1+1``."""
    return f"'{cell}" if cell.startswith(FORMULA_STARTS) else cell


def percent(record: Record) -> str:
    """Return the share of the points with one decimal, or nothing where there are none to get."""
    return f"{100 * record.points / record.max_points:.1f}" if record.max_points else ""


def _age(record: Record) -> tuple[float, float, str]:
    return (
        instant(record.submitted_at).timestamp(),
        instant(record.graded_at).timestamp(),
        record.path,
    )


def _sqlite(book: Sequence[Entry]) -> bytes:
    connection = sqlite3.connect(":memory:")
    try:
        with connection:
            connection.executescript(SCHEMA)
            learners = _insert_names(connection, "learner", [e.record.learner for e in book])
            labs = _insert_names(connection, "lab", [e.record.lab for e in book])
            for i, entry in enumerate(book, start=1):
                record = entry.record
                row = (i, learners[record.learner], labs[record.lab], *_submission_row(entry))
                connection.execute(
                    f"INSERT INTO submission VALUES ({', '.join('?' * len(row))})", row
                )
                tests = [(i, *row) for row in _result_rows(record)]
                connection.executemany(
                    "INSERT INTO test_result VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", tests
                )
        return connection.serialize()
    finally:
        connection.close()


def _insert_names(connection: sqlite3.Connection, table: str, names: list[str]) -> dict[str, int]:
    ids = {name: i for i, name in enumerate(sorted(set(names)), start=1)}
    rows = [(i, visible(name), slug(name)) for name, i in ids.items()]
    connection.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", rows)
    return ids


def _submission_row(entry: Entry) -> tuple[str | int, ...]:
    record = entry.record
    return (
        int(entry.counts),
        entry.status,
        visible(record.reason),
        record.points,
        record.max_points,
        record.device,
        record.submitted_at,
        record.graded_at,
        visible(record.path),
        visible(record.submission_sha256),
        record.key,
        visible(record.lab_version),
        visible(record.grader_version),
        visible(record.seed_id),
        json.dumps(record.isolation),
        json.dumps(record.matched),
        json.dumps(record.notes),
    )


def _result_rows(record: Record) -> list[tuple[str | int | float, ...]]:
    return [
        (
            position,
            visible(result.exercise),
            visible(result.test),
            result.category.value,
            result.points,
            result.max_points,
            visible(result.message, newline="\n"),
            result.seconds,
        )
        for position, result in enumerate(record.results, start=1)
    ]


def _mark_rows(book: Sequence[Entry]) -> list[tuple[str | int, ...]]:
    kept = Counter((entry.record.learner, entry.record.lab) for entry in book)
    return [
        (
            entry.record.learner,
            entry.record.lab,
            entry.record.points,
            entry.record.max_points,
            percent(entry.record),
            entry.status,
            entry.record.reason,
            entry.record.device,
            entry.record.submitted_at,
            entry.record.graded_at,
            kept[entry.record.learner, entry.record.lab],
            entry.record.key,
            entry.feedback,
        )
        for entry in book
        if entry.counts
    ]


def _test_rows(book: Sequence[Entry]) -> list[tuple[str | int, ...]]:
    return [
        (
            entry.record.learner,
            entry.record.lab,
            result.exercise,
            result.test,
            result.category.value,
            result.points,
            result.max_points,
            entry.record.key,
        )
        for entry in book
        if entry.counts
        for result in entry.record.results
    ]


def _csv(columns: Sequence[str], rows: list[tuple[str | int, ...]]) -> bytes:
    """Return CSV with a byte-order mark, without which Excel misreads names beyond ASCII."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([guard(visible(c)) if isinstance(c, str) else c for c in row])
    return text.getvalue().encode("utf-8-sig")
