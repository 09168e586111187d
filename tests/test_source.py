"""The reader of lab sources: what it takes, and the faults it names with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelbook import source
from kernelbook.errors import SourceError
from kernelbook.source import Kind, split_solution
from samples import TEXT, write_lab


def faults(tmp_path: Path, text: str) -> str:
    with pytest.raises(SourceError) as caught:
        write_lab(tmp_path, text)
    return str(caught.value)


def line_of(text: str, needle: str) -> int:
    return text[: text.index(needle)].count("\n") + 1


def test_read_sample_gives_exercises_in_order(tmp_path: Path) -> None:
    lab = write_lab(tmp_path)
    assert list(lab.exercises) == ["double", "half"]
    assert lab.title == "Double · 加倍"
    double = lab.exercises["double"]
    assert double.kind is Kind.KERNEL
    assert [t.points for t in double.tests] == [2, 1]
    assert (len(double.wrong), len(double.alternatives), len(double.hints)) == (1, 1, 1)
    assert lab.max_points("sim") == 5


def test_read_edited_source_has_new_version(tmp_path: Path) -> None:
    assert write_lab(tmp_path).version != write_lab(tmp_path, TEXT + "\nmore\n").version


def test_split_solution_leaves_valid_stub() -> None:
    solution, stub, region = split_solution(
        "def f():\n    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION"
    )
    assert solution == "def f():\n    return 1"
    assert stub == "def f():\n    # YOUR CODE HERE\n    pass"
    assert region == "    return 1"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("tags: [check]\nexercise: d", "tags: [chekc]\nexercise: d", "did you mean 'check'"),
        ("points: 2\ncategory: sizes", "points: two\ncategory: sizes", "points must be a whole"),
        ("points: 1\n", "point: 1\n", "did you mean 'points'"),
        ("fails: more threads", "fails: more thread", "did you mean 'more"),
        ("because: the guard is missing\n", "", "'because' is missing"),
        ("kind: function", "kind: funktion", "kind: wanted one of"),
        ("    ### END SOLUTION\n```\n\n```{code-cell} python\n---\ntags: [check]\nexercise: half",
         "```\n\n```{code-cell} python\n---\ntags: [check]\nexercise: half", "never closed"),
        ('signature: "float32[::1], float32[::1]"\n', "", "needs 'signature'"),
        ("    lab.answer(half(float(number)))", "    half(number)", "never calls lab.answer"),
        ("exercise: half\n---\nlab.check", "exercise: hafl\n---\nlab.check", "did you mean 'half'"),
        ("def half(number):", "def halve(number):", "does not define 'half'"),
        ("kernelbook: {lab: tiny/double}", "kernelbook: {lab: tiny/other}", "the path says"),
        ("category: odd numbers\n", "", "needs 'category'"),
        ("category: more threads than elements", "category: sizes around the block", "two hidden"),
        ("    return halved", "    return halved +", "not valid Python"),
    ],
)  # fmt: skip
def test_read_malformed_source_names_file_and_fault(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    assert TEXT.count(old) >= 1
    message = faults(tmp_path, TEXT.replace(old, new, 1))
    assert says in message
    assert "double.md:" in message


def test_read_malformed_source_names_the_line_of_the_cell(tmp_path: Path) -> None:
    text = TEXT.replace("points: 2\ncategory: odd", "points: -2\ncategory: odd")
    line = line_of(text, "for number in lab.rng()")
    assert f"double.md:{line}: points" in faults(tmp_path, text)


def test_read_several_faults_reports_all(tmp_path: Path) -> None:
    text = TEXT.replace("points: 1\n", "").replace("kind: function", "kind: nothing")
    message = faults(tmp_path, text)
    assert "points must be" in message
    assert "kind: wanted" in message


def test_read_broken_yaml_is_a_source_error(tmp_path: Path) -> None:
    assert "double.md" in faults(tmp_path, TEXT.replace("tags: [check]", "tags: [check", 1))


def test_find_unknown_lab_suggests_the_nearest(tmp_path: Path) -> None:
    write_lab(tmp_path)
    with pytest.raises(SourceError, match="Did you mean tiny/double"):
        source.find(["tiny/duoble"], tmp_path)
