"""Records: what is written is read back, nothing is overwritten, nothing foreign is fatal."""

from __future__ import annotations

import errno
import json
import os
import threading
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from record_samples import make_class, make_record

from kernelbook.grade import record as records
from kernelbook.grade.record import Category, DamagedRecord, key_of, slug, visible

ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()), max_size=300)
# Texts that differ only in what a careless slug folds together.
TRICKY = st.text(alphabet="aA.-_/ \\~é\u0301e%0\ud800", max_size=8)


@pytest.mark.parametrize("sample", make_class(), ids=lambda r: f"{slug(r.learner)}-{slug(r.lab)}")
def test_record_written_reads_back_equal(sample, tmp_path):
    assert records.read(records.write(sample, tmp_path)) == sample


def test_record_same_verdict_graded_again_keeps_the_first(tmp_path):
    first = make_record()
    path = records.write(first, tmp_path)
    before = path.read_bytes()
    slower = tuple(replace(result, seconds=9.0) for result in first.results)
    again = replace(first, graded_at="2026-04-01T00:00:00+00:00", results=slower)
    assert records.write(again, tmp_path) == path
    assert path.read_bytes() == before
    assert records.read_all(tmp_path) == [first]


def test_record_other_verdict_with_the_same_key_is_put_beside(tmp_path):
    first = make_record()
    path = records.write(first, tmp_path)
    before = path.read_bytes()
    other = replace(first, reason="the sandbox did not start")
    second_path = records.write(other, tmp_path)
    assert second_path.name == path.name.replace(".json", ".2.json")
    assert path.read_bytes() == before
    assert records.read_all(tmp_path) == [other, first]
    assert records.find(tmp_path, first.learner, first.lab, first.key) == other


@pytest.mark.parametrize("links", ["hard links", "no hard links"])
def test_record_two_writers_at_once_lose_nothing(links, tmp_path, monkeypatch):
    if links == "no hard links":

        def refuse(*_args, **_kwargs):
            raise OSError(errno.ENOTSUP, "not supported")

        monkeypatch.setattr(records.os, "link", refuse)
        records.write(make_record(reason="0"), tmp_path)
        records.write(make_record(reason="1"), tmp_path)
    else:
        writers = [
            threading.Thread(target=records.write, args=(make_record(reason=str(i)), tmp_path))
            for i in range(8)
        ]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
    found = {record.reason for record in records.read_all(tmp_path)}
    assert found == {str(i) for i in range(2 if links == "no hard links" else 8)}
    assert not list(tmp_path.rglob(".writing-*"))


def test_record_write_cut_short_leaves_no_record(tmp_path, monkeypatch):
    def full(_descriptor):
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(records.os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        records.write(make_record(), tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_record_link_failing_for_another_reason_is_raised(tmp_path, monkeypatch):
    def full(*_args):
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(records.os, "link", full)
    with pytest.raises(OSError, match="no space"):
        records.write(make_record(), tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_find_without_a_readable_record_returns_none(tmp_path):
    sample = make_record()
    assert records.find(tmp_path, sample.learner, sample.lab, sample.key) is None
    records.write(sample, tmp_path).write_text("{")
    assert records.find(tmp_path, sample.learner, sample.lab, sample.key) is None


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "not JSON"),
        (b'{"format": "kernelb', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"\xff\xfe\x00", "UTF-8"),
        (b"[]", "not a kernelbook-record/1 file"),
        (b'{"format": "kernelbook-record/1"}', "lacks"),
    ],
    ids=["empty", "cut", "deep", "binary", "list", "fields"],
)
def test_scan_foreign_file_is_listed_and_the_rest_read(content, problem, tmp_path):
    sample = make_record()
    beside = records.write(sample, tmp_path).parent / "foreign.json"
    beside.write_bytes(content)
    found = records.scan(tmp_path)
    assert found.records == (sample,)
    assert [item.path for item in found.damaged] == [beside]
    assert problem in found.damaged[0].problem
    with pytest.warns(UserWarning, match="foreign"):
        assert records.read_all(tmp_path) == [sample]


def test_scan_fifo_and_broken_link_are_listed_and_do_not_block(tmp_path):
    (tmp_path / "records").mkdir()
    os.mkfifo(tmp_path / "records" / "pipe.json")
    (tmp_path / "records" / "link.json").symlink_to(tmp_path / "nowhere")
    assert {item.path.name for item in records.scan(tmp_path).damaged} == {"pipe.json", "link.json"}


def test_scan_record_copied_to_another_learner_is_damaged(tmp_path):
    path = records.write(make_record("ada"), tmp_path)
    elsewhere = tmp_path / "records" / "bob" / path.name
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(path.read_bytes())
    found = records.scan(tmp_path)
    assert [record.learner for record in found.records] == ["ada"]
    assert "belongs in" in found.damaged[0].problem


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("key", "../../etc"),
        ("device", "tpu"),
        ("submitted_at", "yesterday"),
        ("graded_at", ""),
        ("learner", 7),
        ("notes", ("a", 1)),
        ("matched", {"a": 1}),
    ],
)
def test_write_malformed_record_is_refused(field, value, tmp_path):
    with pytest.raises(DamagedRecord, match=field):
        records.write(replace(make_record(), **{field: value}), tmp_path)
    assert list(tmp_path.rglob("*.json")) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("category", "excellent"),
        ("points", 3),
        ("points", -1),
        ("points", 1.0),
        ("points", True),
        ("max_points", 10**30),
        ("seconds", 10**400),
        ("seconds", -1.0),
    ],
    ids=lambda value: str(value)[:12],
)
def test_read_malformed_result_is_damaged(field, value, tmp_path):
    path = records.write(make_record(), tmp_path)
    data = json.loads(path.read_text())
    data["results"][0][field] = value
    path.write_text(json.dumps(data))
    with pytest.raises(DamagedRecord, match=rf"results\[0\]\.{field}"):
        records.read(path)


@given(st.one_of(ANY_TEXT, TRICKY))
def test_slug_any_text_gives_one_safe_segment(text):
    segment = slug(text)
    assert segment
    assert len(segment) <= 100
    assert set(segment) <= set("abcdefghijklmnopqrstuvwxyz0123456789._-")
    assert segment[0] not in ".-"
    assert segment == slug(text)


@settings(max_examples=500)
@given(st.one_of(ANY_TEXT, TRICKY), st.one_of(ANY_TEXT, TRICKY))
def test_slug_two_texts_never_share_a_segment(one, other):
    assert (slug(one) == slug(other)) == (one == other)


@given(st.one_of(ANY_TEXT, TRICKY))
def test_slug_of_a_slug_written_as_an_id_does_not_collide(text):
    assume(slug(text) != text)
    assert slug(slug(text)) != slug(text)


@pytest.mark.parametrize(
    "text", ["..", ".", "", "/", "a/../b", "a//b", "A", "a--b", "a__b", "-a", "x" * 300, "é"]
)
def test_slug_dangerous_text_is_hashed(text):
    assert "__" in slug(text)
    assert "/" not in slug(text)


def test_slug_plain_text_stays_readable():
    assert slug("cuda/first-kernels") == "cuda--first-kernels"
    assert slug("ada.lovelace") == "ada.lovelace"


@given(st.lists(ANY_TEXT, min_size=12, max_size=12))
@settings(max_examples=60)
def test_record_any_text_survives_the_round_trip(texts):
    sample = replace(
        make_record(),
        learner=texts[0],
        lab=texts[1],
        path=texts[2],
        reason=texts[3],
        notes=tuple(texts[4:6]),
        isolation=(texts[6],),
        matched={texts[7]: texts[8]},
    )
    sample = replace(sample, results=(replace(sample.results[0], message=texts[9]),))
    text = json.dumps({"format": records.FORMAT, **records.asdict(sample)})
    assert records._parse(text, "x") == sample


def test_key_of_each_part_changes_the_key_and_parts_do_not_run_together():
    base = ("a", "b", "c", "d", "e", "sim")
    changed = [(*base[:i], base[i] + "x", *base[i + 1 :]) for i in range(6)]
    keys = {key_of(*parts) for parts in [base, *changed, ("ab", "", "c", "d", "e", "sim")]}
    assert len(keys) == 8
    assert key_of(*base) == key_of(*base)


def test_visible_hidden_characters_are_written_out():
    text = "a\u202eb\x00c\ud800d\ne\u200bf"
    assert visible(text) == r"a\u202eb\x00c\ud800d\ne\u200bf"
    assert visible("a\r\nb", newline="\n") == "a\nb"
    assert visible("从计算图 é 👩‍🚀") == "从计算图 é 👩‍🚀"


def test_category_names_are_those_of_the_gradebook():
    assert [category.value for category in Category] == [
        *("pass", "wrong", "error", "not attempted", "timeout", "died", "out of memory"),
        *("output limit", "missing", "not a kernel", "infrastructure"),
    ]
