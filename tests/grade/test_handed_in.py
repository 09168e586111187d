"""Whose notebook is whose."""

from __future__ import annotations

from pathlib import Path

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
