"""The class report: complete, inert, and of bounded size."""

from __future__ import annotations

import io
import re
from collections import Counter
from dataclasses import replace

import pytest
from page_audit import HOSTILE, Audit
from record_samples import make_class, make_many, make_record
from rich.console import Console
from test_feedback import hostile_record

from kernelbook.grade import charts, report
from kernelbook.grade.gradebook import entries
from kernelbook.grade.record import Category, Record, visible, write
from kernelbook.grade.standing import Standing, standings


def put(records: list[Record], out_dir):
    for record in records:
        write(record, out_dir)


def rendered(records, out_dir):
    put(records, out_dir)
    return Audit(report.render(out_dir).read_bytes())


def printed(records, **options):
    console = Console(file=io.StringIO(), width=120, **options)
    console.print(report.summary(records))
    return console.file.getvalue()


def test_report_of_a_class_shows_every_learner_lab_and_problem(tmp_path):
    records = make_class()
    put(records, tmp_path)
    (tmp_path / "records" / "learner-01" / "torn.json").write_text('{"format": "kern')
    seen = Audit(report.render(tmp_path).read_bytes())
    assert seen.faults == []
    for record in records:
        assert record.learner in seen.text
    for words in (
        "ends in the middle of line 212",
        "records/learner-01/torn.json",
        "1 submission on which the grader failed",
        "1 submission was graded without a sandbox",
        "the marks mix devices (gpu, sim)",
        "not final",
    ):
        assert words in seen.text
    assert len([tag for tag, a in seen.tags if tag == "svg" and a.get("role") == "img"]) == 3


def test_report_problems_stand_before_the_marks(tmp_path):
    text = rendered(make_class(), tmp_path).text
    assert text.index("could not be graded") < text.index("Distribution of marks")


def test_report_without_problems_says_so(tmp_path):
    assert "Nothing. Every submission was graded" in rendered([make_record()], tmp_path).text


@pytest.mark.parametrize("damaged", [False, True])
def test_report_without_records_is_a_page(damaged, tmp_path):
    if damaged:
        (tmp_path / "records").mkdir()
        (tmp_path / "records" / "x.json").write_text("x")
    seen = rendered([], tmp_path)
    assert seen.faults == []
    assert "No submission has been graded" in seen.text
    assert ("could not be read" in seen.text) == damaged


def test_report_of_one_record_without_any_points_is_a_page(tmp_path):
    assert rendered([make_record(results=(), reason="empty")], tmp_path).faults == []


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_report_hostile_text_is_shown_and_never_markup(text, tmp_path):
    bad = hostile_record(text)
    again = tuple(
        replace(result, category=Category.INFRASTRUCTURE, points=0) for result in bad.results
    )
    records = [
        bad,
        replace(bad, reason=text, key="ab" * 16),
        replace(bad, results=again, key="cd" * 16, lab=text + "2"),
    ]
    put(records, tmp_path)
    written = report.render_all(tmp_path)
    for path in (written.report, *written.feedback):
        seen = Audit(path.read_bytes())
        assert seen.faults == []
        assert " ".join(visible(text, newline="\n").split()) in seen.text


def test_report_file_name_with_markup_is_shown_as_text(tmp_path):
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "<img src=x onerror=alert(1)>.json").write_text("<b>")
    seen = rendered([make_record()], tmp_path)
    assert seen.faults == []
    assert "<img src=x onerror=alert(1)>.json" in seen.text


def test_report_plots_keep_their_ids_apart_and_carry_a_description(tmp_path):
    seen = rendered(make_class(), tmp_path)
    ids = [attributes["id"] for _, attributes in seen.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    used = re.findall(r"#([\w-]+)", " ".join(str(a) for tag, a in seen.tags if tag != "meta"))
    assert set(used) <= set(ids)
    said = [a["aria-label"] for tag, a in seen.tags if tag == "svg" and a.get("role") == "img"]
    assert "median 60 percent" in said[0]
    assert "lengths that are not a multiple of the block" in said[2]


def test_report_plots_use_page_colours_alone(tmp_path):
    put(make_class(), tmp_path)
    html = report.render(tmp_path).read_text()
    plots = "".join(re.findall(r'<svg class="plot".*?</svg>', html, flags=re.S))
    assert plots
    assert set(re.findall(r'(?:fill|stroke)="([^"]*)"', plots)) <= {"none"}


def test_report_of_a_thousand_submissions_is_bounded(tmp_path):
    records = make_many(500)
    many_tests = replace(
        records[0],
        key="ef" * 16,
        lab="cuda/long",
        results=tuple(
            replace(
                records[0].results[0],
                exercise=f"e{i}",
                test=f"t{i}",
                category=Category.WRONG,
                points=0,
            )
            for i in range(80)
        ),
    )
    put([*records, many_tests], tmp_path)
    written = report.render_all(tmp_path)
    assert len(written.feedback) == 1001 + 500
    html = written.report.read_text()
    assert "The worst 15 of " in html
    assert len(html) < 2_000_000
    seen = Audit(html.encode())
    assert seen.faults == []
    assert "learner-0499" in seen.text
    worst = re.search(r'aria-label="Failing tests. ([^"]*)"', html)
    assert worst.group(1).count("; ") == charts.MOST_ROWS - 1
    assert html.count("<details") == 2  # every test, and the grader's failures, which are many:
    assert "open>" not in html


def test_standings_leave_out_what_was_not_graded_or_does_not_count():
    records = [
        make_record("a", minutes=1, endings=(Category.TIMEOUT,) * 6),
        make_record("a", minutes=2, endings=(Category.WRONG,)),
        make_record("b", reason="empty", endings=(Category.MISSING,) * 6),
    ]
    tests = standings(entries(records))
    assert tests[0] == Standing(
        "cuda/reduce", "block_sum", "one full block", Counter({Category.WRONG: 1})
    )
    assert [test.fail_rate for test in tests] == [1, 0, 0, 0, 0, 0]


def test_charts_full_marks_belong_to_the_last_bin():
    assert charts._bins([0, 9.99, 10, 99.9, 100]) == [2, 1, 0, 0, 0, 0, 0, 0, 0, 2]


def test_charts_shares_add_up_whatever_the_categories():
    assert sum(share for _, share in charts._shares(Counter(Category))) == pytest.approx(1)


def test_charts_more_labs_than_panels_are_pooled():
    percents = {f"lab {i}": [50.0] for i in range(9)}
    (chart,) = charts.draw(percents, [])
    assert "all labs: 9 marks" in chart.svg


def test_summary_shows_marks_that_count_and_why_the_others_do_not():
    lines = printed(make_class()).splitlines()
    assert len([line for line in lines if "/12" in line]) == 9
    assert any("learner-02" in line and "8/12" in line for line in lines)
    assert any("not graded: The file is not JSON" in line for line in lines)
    assert any("grade again, 1 wrong, 1 infrastructure" in line for line in lines)
    assert any("all passed" in line for line in lines)


def test_summary_bar_is_as_long_as_the_mark():
    (line,) = [
        x for x in printed([make_record(endings=(Category.WRONG,) * 3)]).splitlines() if "/12" in x
    ]
    assert (line.count("━"), line.count("╌")) == (6, 6)


def test_summary_text_of_others_is_no_markup_and_no_control_code():
    out = printed([make_record("[red]x[/red]\x1b[2J", reason="[bold]y\n\x07")])
    assert r"[red]x[/red]\x1b[2J" in out
    assert r"[bold]y \x07" in out
    assert "\x1b" not in out
