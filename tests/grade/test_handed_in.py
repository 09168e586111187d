"""Whose notebook is whose."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelbook.errors import SubmissionError
from kernelbook.grade import submission
from kernelbook.grade.handed_in import handed_in


def test_handed_in_names_learners_by_folder_or_file(tmp_path: Path) -> None:
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "reduce.ipynb").write_text("{}")
    (tmp_path / "empty-handed").mkdir()
    (tmp_path / "bo.ipynb").write_text("{}")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "x.ipynb").write_text("{}")
    found = {learner: path.name for path, learner in handed_in([tmp_path])}
    assert found == {"ada": "reduce.ipynb", "bo": "bo.ipynb", "empty-handed": "empty-handed"}


def test_handed_in_same_file_names_are_told_apart_by_folder(tmp_path: Path) -> None:
    paths = [tmp_path / who / "reduce.ipynb" for who in ("one", "two")]
    for path in paths:
        path.parent.mkdir()
        path.write_text("{}")
    assert [learner for _, learner in handed_in(paths)] == ["one", "two"]
    assert [learner for _, learner in handed_in(paths[:1])] == ["reduce"]


def test_handed_in_follows_no_link_and_no_endless_nesting(tmp_path: Path) -> None:
    other = tmp_path / "class" / "one"
    other.mkdir(parents=True)
    (other / "reduce.ipynb").write_text("{}")
    (tmp_path / "class" / "two").symlink_to(other)
    deep = tmp_path / "class" / "three"
    deep.joinpath(*["a"] * 900).mkdir(parents=True)
    found = {learner: path.name for path, learner in handed_in([tmp_path / "class"])}
    assert found == {"one": "reduce.ipynb", "two": "two", "three": "three"}


def test_handed_in_link_that_the_system_refuses_stops_nobody(tmp_path: Path) -> None:
    for who in ("evil", "good"):
        (tmp_path / who).mkdir()
        (tmp_path / who / "reduce.ipynb").write_text("{}")
    (tmp_path / "evil" / "notes.txt").symlink_to("x" * 300)
    (tmp_path / "evil" / "more.ipynb").symlink_to("x" * 300)
    (tmp_path / "long").symlink_to("x" * 300)
    found = {path.name for path, learner in handed_in([tmp_path]) if learner == "good"}
    assert found == {"reduce.ipynb"}
    with pytest.raises(SubmissionError):
        submission.read(tmp_path / "evil" / "more.ipynb", "evil")
