"""Feedback pages: complete, plain, and inert whatever a submission says."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from page_audit import HOSTILE, Audit
from record_samples import MESSAGE, make_class, make_record

from kernelbook.grade import feedback, page
from kernelbook.grade.gradebook import Entry, entries
from kernelbook.grade.record import Category, visible

CATEGORIES = pytest.mark.parametrize("category", Category, ids=lambda c: c.value.replace(" ", "-"))


def audit(record, counts=True):
    return Audit(feedback.render(Entry(record, counts)))


def hostile_record(text):
    """Return a record with ``text`` in every place that a submission or a lab could put it."""
    record = make_record(endings=(Category.WRONG, Category.ERROR))
    results = [replace(r, exercise=text, test=text + r.test, message=text) for r in record.results]
    return replace(
        record,
        learner=text,
        lab=text,
        lab_version=text,
        path=text,
        submission_sha256=text,
        grader_version=text,
        isolation=(text,),
        matched={text: text},
        notes=(text,),
        results=tuple(results),
    )


@CATEGORIES
def test_feedback_category_is_said_in_words_with_a_next_step(category):
    meaning = feedback.MEANINGS[category]
    seen = audit(make_record(endings=(category,)))
    assert seen.faults == []
    assert f"{meaning.title}. {meaning.meaning}" in seen.text
    if category is not Category.PASS:
        assert meaning.next_step
        assert f"Next {meaning.next_step}" in seen.text


@CATEGORIES
def test_feedback_message_is_shown_only_where_the_learner_failed(category):
    shown = MESSAGE in audit(make_record(endings=(category,))).text
    quiet = (Category.PASS, Category.NOT_ATTEMPTED, Category.INFRASTRUCTURE)
    assert shown == (category not in quiet)


def test_feedback_roles_have_a_mark_and_a_colour_each():
    style = (page.TEMPLATES / page.STYLE).read_text()
    for meaning in feedback.MEANINGS.values():
        assert f".mark-{meaning.role} circle" in style
        assert f".fill-{meaning.role} " in style


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("reason", ["", "reason"])
def test_feedback_hostile_text_is_shown_and_never_markup(text, reason):
    record = replace(hostile_record(text), reason=reason and text)
    seen = audit(record, counts=False)
    assert seen.faults == []
    clean = audit(replace(hostile_record("plain"), reason=reason), counts=False)
    assert [tag for tag, _ in seen.tags] == [tag for tag, _ in clean.tags]
    assert " ".join(visible(text, newline="\n").split()) in seen.text


def test_feedback_page_names_device_blind_spot_isolation_and_rule():
    record = make_record(matched={"block_sum": "name"}, notes=("Cell 7 appears twice.",))
    text = audit(record).text
    for words in (
        *feedback.DEVICES["sim"],
        "no network",
        "Cell 7 appears twice.",
        f"Your answer was {feedback.MATCHED['name']}",
        f"warp_sum {feedback.MATCHED['none']}",
        "2 March 2026, 09:30 UTC",
        "sealed",
    ):
        assert words in text
    assert feedback.DEVICES["gpu"][1] in audit(replace(record, device="gpu")).text
    assert "without a sandbox" in audit(replace(record, isolation=())).text


def test_feedback_answer_found_by_id_is_not_worth_a_line():
    assert "Your answer was" not in audit(make_record()).text


def test_feedback_ungraded_submission_gives_the_reason_and_no_advice_on_tests():
    record = make_record(reason="The file is empty.", endings=(Category.MISSING,) * 6)
    text = audit(record).text
    assert "The file is empty." in text
    assert "could not be graded" in text
    assert feedback.MEANINGS[Category.MISSING].next_step not in text


def test_feedback_states_which_submission_counts_and_what_is_not_final():
    assert "Another submission" in audit(make_record(), counts=False).text
    assert "Another submission" not in audit(make_record()).text
    assert "not final" in audit(make_record(endings=(Category.INFRASTRUCTURE,))).text


def test_feedback_headings_descend_one_level_at_a_time_and_the_page_has_a_language():
    seen = audit(make_record(endings=tuple(Category)))
    levels = [int(tag[1]) for tag, _ in seen.tags if tag in ("h1", "h2", "h3")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    assert dict(seen.tags)["html"]["lang"] == "en"


def test_write_all_writes_a_page_a_submission_and_an_index_a_learner(tmp_path):
    records = make_class()
    book = entries(records)
    written = feedback.write_all(book, tmp_path)
    learners = {record.learner for record in records}
    assert len(written) == len(records) + len(learners)
    for entry in book:
        assert (tmp_path / entry.feedback).is_file()
    for path in written:
        seen = Audit(path.read_bytes())
        assert seen.faults == []
        for tag, attributes in seen.tags:
            if tag == "a":
                assert (path.parent / attributes["href"]).is_file()


def test_write_all_two_gradings_of_one_key_show_the_one_that_counts(tmp_path):
    graded = make_record()
    failed = replace(graded, reason="no sandbox", graded_at="2027-01-01T00:00:00Z")
    book = entries([graded, failed])
    feedback.write_all(book, tmp_path)
    text = Audit((tmp_path / book[0].feedback).read_bytes()).text
    assert "no sandbox" not in text
    assert "12 of 12 points" in text


def test_write_all_learner_ids_cannot_leave_the_folder(tmp_path):
    book = entries([make_record("../../x"), make_record("/etc/passwd"), make_record("..")])
    for path in feedback.write_all(book, tmp_path / "out"):
        assert path.resolve().is_relative_to(tmp_path / "out" / "feedback")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
