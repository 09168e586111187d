"""The proof of the tests, and the proof that the proof bites."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelbook import source, trivial, verify
from kernelbook.source import SOLUTIONS, path_to_id
from samples import LAB_ID, TEXT, write_lab

LABS = [path_to_id(path) for path in source.find([])]


def failed(root: Path) -> list[str]:
    return [
        f"{p.exercise}: {p.trial}: {p.found}"
        for p in verify.verify_named(LAB_ID, "sim", root)
        if not p.holds and not p.wanted.startswith("≥")
    ]


@pytest.mark.parametrize("name", LABS)
def test_verify_every_lab_holds(name: str) -> None:
    assert [p for p in verify.verify_named(name, "sim", SOLUTIONS) if not p.holds] == []


def test_verify_sample_lab_holds_but_for_its_size(tmp_path: Path) -> None:
    write_lab(tmp_path)
    assert failed(tmp_path) == []
    short = [p for p in verify.verify_named(LAB_ID, "sim", tmp_path) if not p.holds]
    assert {p.trial for p in short} == {"hidden tests", "hints", "wrong answers", "alternatives"}


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("    out[i] = x[i] + x[i]\n```", "    if i < out.size:\n        out[i] = x[i] + x[i]\n```",
         "double: wrong"),
        ("out[i] = np.float32(2) * x[i]", "out[i] = np.float32(3) * x[i]", "double: alternative"),
        ("lab.answer(half(float(number)))", "lab.answer(0 * (half(float(number)) or 0))",
         "half: writes a constant: passes"),
        ("    lab.answer(out)\n", "    lab.answer(0 * x)\n", "double: does nothing: passes"),
    ],
    ids=["wrong answer accepted", "alternative refused", "constant accepted", "nothing accepted"],
)  # fmt: skip
def test_verify_bad_test_is_found(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in TEXT
    write_lab(tmp_path, TEXT.replace(old, new, 1))
    assert any(line.startswith(says) for line in failed(tmp_path)), failed(tmp_path)


def test_verify_failing_solution_says_which_test(tmp_path: Path) -> None:
    write_lab(tmp_path, TEXT.replace("    halved = number / 2\n", "    halved = undefined\n"))
    found = failed(tmp_path)
    assert len(found) == 1
    assert "solution of half fails its own test 'odd numbers'" in found[0]


def test_trivial_answers_parse_and_define_the_exercise(tmp_path: Path) -> None:
    lab = write_lab(tmp_path)
    for exercise in lab.exercises.values():
        answers = trivial.trivial_answers(exercise)
        assert list(answers) == ["does nothing", "writes a constant", "echoes its input"]
        for text in answers.values():
            namespace: dict[str, object] = {}
            code = text.replace("@cuda.jit\n", "")
            exec(code, namespace)
            assert exercise.id in namespace
