"""The gradebook: what counts, and that SQLite, CSV and the records say the same."""

from __future__ import annotations

import csv
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from record_samples import make_class, make_many, make_record

from kernelbook.grade import gradebook
from kernelbook.grade.record import Category, visible

WRONG = (Category.WRONG,)


def read_csv(path):
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def query(path, sql):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def unguard(cell):
    return cell.removeprefix("'") if cell.startswith("'") else cell


def counted(*records):
    return [entry.record for entry in gradebook.entries(records) if entry.counts]


def test_entries_newest_submission_counts_and_both_are_kept():
    old, new = make_record(minutes=1), make_record(minutes=2, endings=WRONG)
    for order in ([old, new], [new, old]):
        assert counted(*order) == [new]
        assert len(gradebook.entries(order)) == 2


def test_entries_newest_is_told_across_time_zones():
    early = make_record(submitted_at="2026-03-02T12:00:00+08:00")  # 04:00 UTC
    late = make_record(submitted_at="2026-03-02T05:00:00Z", endings=WRONG)
    assert counted(late, early) == [late]


def test_entries_time_without_offset_is_utc():
    bare = make_record(submitted_at="2026-03-02T05:00:00")
    other = make_record(submitted_at="2026-03-02T05:30:00+01:00")
    assert counted(bare, other) == [bare]


def test_entries_same_time_counts_later_grading_then_path():
    first = make_record(graded_at="2026-03-02T10:00:00+00:00", path="z")
    later = make_record(graded_at="2026-03-02T11:00:00+00:00", path="a", endings=WRONG)
    assert counted(later, first) == [later]
    twin = replace(later, path="b")
    assert counted(twin, later) == [twin]


def test_entries_newest_that_could_not_be_graded_takes_no_mark_away():
    good, broken = make_record(minutes=1), make_record(minutes=2, reason="not JSON")
    assert counted(good, broken) == [good]
    assert counted(broken) == [broken]
    newer = replace(broken, submitted_at="2027-01-01T00:00:00Z", reason="empty")
    assert counted(newer, broken) == [newer]


def test_entries_learners_and_labs_do_not_mix():
    records = [make_record(name, lab) for name in "ab" for lab in ("cuda/reduce", "x/y")]
    assert counted(*records) == records


@pytest.mark.parametrize(
    "records", [make_class(), make_many(12), []], ids=["class", "many", "none"]
)
def test_build_sqlite_equals_csv_equals_records(records, tmp_path):
    sqlite, marks, tests = gradebook.build(records, tmp_path)
    book = [entry for entry in gradebook.entries(records) if entry.counts]

    from_csv = {(unguard(r["learner"]), r["lab"], int(r["points"])) for r in read_csv(marks)}
    from_sql = set(query(sqlite, "SELECT learner, lab, points FROM mark"))
    wanted = {(visible(e.record.learner), e.record.lab, e.record.points) for e in book}
    assert from_csv == from_sql == wanted
    assert len(read_csv(marks)) == len(book)

    columns = "learner, lab, exercise, test, category, test_result.points, test_result.max_points"
    joined = (
        f"SELECT {columns} FROM test_result JOIN submission USING (submission_id) "
        "JOIN learner USING (learner_id) JOIN lab USING (lab_id)"
    )
    names = ("learner", "lab", "exercise", "test", "category", "points", "max_points")
    in_csv = [tuple(unguard(row[name]) for name in names) for row in read_csv(tests)]
    in_sql = [tuple(map(str, row)) for row in query(sqlite, f"{joined} WHERE counts")]
    assert sorted(in_csv) == sorted(in_sql)
    assert len(query(sqlite, joined)) == sum(len(record.results) for record in records)
    assert query(sqlite, "SELECT count(*) FROM submission") == [(len(records),)]
    assert query(sqlite, "PRAGMA foreign_key_check") == []
    assert query(sqlite, "PRAGMA integrity_check") == [("ok",)]


def test_build_submission_rows_hold_status_reason_and_counts(tmp_path):
    records = [
        make_record(minutes=1),
        make_record(minutes=2, reason="not JSON"),
        make_record(minutes=3, endings=(Category.INFRASTRUCTURE,)),
    ]
    sqlite, marks, _ = gradebook.build(records, tmp_path)
    rows = query(sqlite, "SELECT counts, status, reason FROM submission ORDER BY submission_id")
    assert rows == [(0, "graded", ""), (0, "not graded", "not JSON"), (1, "grade again", "")]
    (row,) = read_csv(marks)
    assert (row["status"], row["submissions"], row["percent"]) == ("grade again", "3", "83.3")


def test_build_points_are_integers_in_sqlite(tmp_path):
    sqlite, _, _ = gradebook.build(make_class(), tmp_path)
    kinds = query(sqlite, "SELECT DISTINCT typeof(points), typeof(max_points) FROM test_result")
    assert kinds == [("integer", "integer")]


def test_build_twice_gives_the_same_bytes_and_leaves_no_temporary_file(tmp_path):
    first = [path.read_bytes() for path in gradebook.build(make_class(), tmp_path)]
    again = [path.read_bytes() for path in gradebook.build(make_class()[::-1], tmp_path)]
    assert first == again
    assert len(list(tmp_path.iterdir())) == 3


def test_build_failing_half_way_keeps_the_old_gradebook(tmp_path, monkeypatch):
    sqlite, _, _ = gradebook.build([make_record()], tmp_path)
    before = sqlite.read_bytes()
    monkeypatch.setattr(gradebook, "_result_rows", lambda record: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        gradebook.build(make_class(), tmp_path)
    assert sqlite.read_bytes() == before


def test_replace_file_cut_short_keeps_the_old_file_whole(tmp_path, monkeypatch):
    path = gradebook.replace_file(tmp_path / "report.html", b"old")
    real = Path.write_bytes

    def full(self, data):
        real(self, data[:3])
        raise OSError("no space left")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="no space"):
        gradebook.replace_file(path, b"new and longer")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "\r=", "＝", "'="])
def test_csv_cell_that_a_spreadsheet_would_run_is_guarded(start, tmp_path):
    learner = f'{start}HYPERLINK("http://x")'
    record = make_record(learner, reason=f"{start}1+1", path=f"{start}p")
    _, marks, _ = gradebook.build([record], tmp_path)
    (row,) = read_csv(marks)
    for cell in (row["learner"], row["reason"]):
        assert cell[0] not in "=+-@\t\r＝"
    assert unguard(row["learner"]) == visible(learner)


def test_csv_line_ends_and_quotes_stay_in_their_cell(tmp_path):
    record = make_record('a",\n=1+1,"b', reason="x\r\n=2;=3")
    _, marks, _ = gradebook.build([record], tmp_path)
    (row,) = read_csv(marks)
    assert row["learner"] == r'a",\n=1+1,"b'
    assert row["device"] == "sim"
    assert marks.read_bytes().count(b"\n") == 2


def test_build_name_that_no_database_holds_is_written_out(tmp_path):
    sqlite, marks, _ = gradebook.build([make_record("bad\udcff\x00name")], tmp_path)
    assert query(sqlite, "SELECT learner FROM mark") == [(r"bad\udcff\x00name",)]
    assert read_csv(marks)[0]["learner"] == r"bad\udcff\x00name"


def test_build_learners_that_look_the_same_stay_two(tmp_path):
    records = [make_record("a\x00"), make_record(r"a\x00")]
    sqlite, _, _ = gradebook.build(records, tmp_path)
    assert query(sqlite, "SELECT count(*), count(DISTINCT slug) FROM learner") == [(2, 2)]
